#include "tests/fuzz/targets.hpp"

#include "hw_models/calibration/calibration.hpp"
#include "hw_models/calibration/measurements.hpp"
#include "hw_models/device.hpp"
#include "hw_models/kernel_table.hpp"
#include "results/profiles.hpp"
#include "results/trace_format.hpp"
#include "sim/base/error.hpp"
#include "sim/base/yaml.hpp"
#include "sim/graph_file/graph_file.hpp"
#include "sim/lower/catalog.hpp"
#include "sim/lower/scenario.hpp"
#include "workloads/framework.hpp"
#include "workloads/model_spec.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace spillway {
namespace {

// A file in memory: what is read by its path is read as a user's file is.
class MemoryFile {
public:
  explicit MemoryFile(const std::string& bytes) : descriptor_(::memfd_create("input", 0)) {
    if (descriptor_ < 0 ||
        ::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      throw std::system_error(errno, std::generic_category(), "a file in memory");
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  [[nodiscard]] std::filesystem::path path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

private:
  int descriptor_;
};

// The descriptions of catalogs, by what they say they are.
void read_description(const std::string& bytes) {
  const YamlNode node = parse_yaml(bytes, "fuzz");
  const YamlNode* kind = node.find("kind");
  Diagnostics diagnostics;
  if (kind == nullptr) {
    return;
  }
  if (kind->text == "model") {
    static_cast<void>(read_model(node, diagnostics));
  } else if (kind->text == "framework") {
    static_cast<void>(read_framework(node, diagnostics));
  } else if (kind->text == "hardware") {
    static_cast<void>(read_device(node, "hw_models/tables", diagnostics));
  } else if (kind->text == "kernel_table") {
    static_cast<void>(KernelTable::read(node, diagnostics));
  } else if (kind->text == "trace_format") {
    static_cast<void>(read_trace_format(node, diagnostics));
  }
}

// One assignment a line, as of so many --set.
void read_settings(const std::string& bytes) {
  YamlNode root = parse_yaml("batch: {micro: 1}\nhardware: gb200\n", "fuzz");
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', begin), bytes.size());
    set_path(root, bytes.substr(begin, end - begin));
    begin = end + 1;
  }
}

void read_graph(const std::string& bytes) {
  const NamedGraph graph = parse_graph(bytes, "fuzz");
  const std::string text = graph_text(graph);
  if (graph_text(parse_graph(text, "written")) != text) {
    throw std::logic_error("a graph that was written reads back as another one");
  }
}

void read_any_trace(const std::string& bytes) {
  static const std::vector<TraceFormat> formats = load_trace_formats(Catalog({"."}), "");
  static_cast<void>(load_device_trace(MemoryFile(bytes).path(), formats));
}

FuzzTarget refusing(void (*read)(const std::string& bytes)) {
  return [read](const std::string& bytes) {
    try {
      read(bytes);
    } catch (const InputError&) {} // an answer like any other
  };
}

} // namespace

const std::map<std::string, FuzzTarget>& fuzz_targets() {
  static const std::map<std::string, FuzzTarget> targets{
      {"yaml",
       refusing([](const std::string& bytes) { static_cast<void>(parse_yaml(bytes, "fuzz")); })},
      {"settings", refusing(read_settings)},
      {"description", refusing(read_description)},
      {"scenario", refusing([](const std::string& bytes) {
         static_cast<void>(read_scenario(Catalog({"."}), parse_yaml(bytes, "fuzz"), "fuzz"));
       })},
      {"graph", refusing(read_graph)},
      {"profiles", refusing([](const std::string& bytes) {
         static_cast<void>(load_profiles(MemoryFile(bytes).path()));
       })},
      {"measurements", refusing([](const std::string& bytes) {
         static_cast<void>(calibrate(load_measurements({MemoryFile(bytes).path()})));
       })},
      {"trace", refusing(read_any_trace)},
      {"gzip", refusing(read_any_trace)},
  };
  return targets;
}

} // namespace spillway
