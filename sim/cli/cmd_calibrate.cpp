// Micro-benchmark records to a hardware file.
#include "hw_models/calibration/hardware_file.hpp"
#include "results/calibration_report.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace spillway {
namespace fs = std::filesystem;
namespace {

bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml");
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path known = fs::weakly_canonical(path, error);
  return error ? fs::absolute(path).lexically_normal() : known;
}

// `path` as a file in `folder` would name it; a bare name would be looked up elsewhere.
std::string named_from(const fs::path& folder, const fs::path& path) {
  std::string text = resolved(path).lexically_relative(resolved(folder)).string();
  return text.find('/') == std::string::npos ? "./" + text : text;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

void check_options(const CommonOptions& options) {
  if (options.positional.empty()) {
    throw InputError("'calibrate' needs measurements", "files of JSON lines");
  }
  if (options.output.empty() || !options.output.ends_with(".yaml")) {
    throw InputError(options.output.empty()
                         ? "'calibrate' needs --output: the hardware file to write"
                         : fmt::format("--output: '{}' does not end in .yaml", options.output),
                     "for example -o own.yaml");
  }
  std::error_code error;
  if (!options.tables.empty() && !fs::is_directory(options.tables, error)) {
    throw InputError(fmt::format("--tables: '{}' is not a folder", options.tables));
  }
}

// The hardware's name; also the start of the names of its tables.
std::string name_for(const CommonOptions& options) {
  std::string name = options.name.empty() ? fs::path(options.output).stem().string() : options.name;
  const bool fine = !name.empty() && name != "." && name != ".." &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
                    });
  if (!fine) {
    throw InputError(fmt::format("'{}' is no name of a hardware", name),
                     "--name takes letters, digits, '-', '_' and '.'");
  }
  return name;
}

struct Base {
  YamlNode node;
  std::string as_written; // behind `extends`
  std::string title;
  std::set<std::string> source_tags;
};

Base load_base(const Catalog& catalog, const CommonOptions& options) {
  Base base;
  const fs::path path = catalog.find(CatalogKind::hardware, options.base);
  base.node = catalog.load_file(CatalogKind::hardware, path);
  base.as_written = !is_path(options.base) ? options.base
                    : path.is_absolute()   ? path.string()
                                           : named_from(folder_of(options.output), path);
  const YamlNode* title = base.node.find("title");
  base.title = title == nullptr ? options.base : title->text;
  if (const YamlNode* sources = base.node.find("sources")) {
    for (const YamlEntry& entry : sources->entries) {
      base.source_tags.insert(entry.key);
    }
  }
  return base;
}

// The numbers of the base must not be said to come from these measurements.
HardwareFile describe(const Calibration& calibration, const CommonOptions& options,
                      const std::optional<Base>& base) {
  HardwareFile file;
  file.name = name_for(options);
  file.title = calibration.device + (base ? ", measured; else " + base->title : ", measured");
  file.extends = base ? base->as_written : "";
  for (int count = 2; base && base->source_tags.count(file.source_tag) > 0; ++count) {
    file.source_tag = fmt::format("own-{}", count);
  }
  file.source_title =
      options.source.empty() ? "micro-benchmarks on one " + calibration.device : options.source;
  return file;
}

// The base's tables of what was measured, which are not used beside the measured ones:
// "2 matmul tables".
std::vector<std::string> replaced_tables(const Base& base, const Calibration& calibration) {
  std::vector<std::string> replaced;
  std::set<KernelTable::Op> seen;
  for (const MeasuredTable& table : calibration.tables) {
    const std::string& op = KernelTable::name_of(table.op);
    const YamlNode* node = &base.node;
    for (const char* key : {"gpu", "kernels", op.c_str(), "bf16"}) {
      node = node == nullptr ? nullptr : node->find(key);
    }
    if (seen.insert(table.op).second && node != nullptr) {
      replaced.push_back(
          fmt::format("{} {} table{}", node->items.size(), op, node->items.size() == 1 ? "" : "s"));
    }
  }
  return replaced;
}

// Reads the file back as a scenario would, tables included: a machine, or what it lacks.
void check_readable(const Catalog& catalog, const Calibration& calibration,
                    const HardwareFile& file, const std::string& path, CalibrationUse& use) {
  HardwareFile in_one = file;
  in_one.table_files.clear(); // they are not written yet
  const YamlNode own = parse_yaml(hardware_yaml(calibration, in_one), path);
  Diagnostics diagnostics;
  const Device device =
      read_device(catalog.load(CatalogKind::hardware, own), catalog.table_folder(), diagnostics);
  if (!file.extends.empty()) {
    diagnostics.throw_if_any();
    for (const Coefficient* c : device.coefficients()) {
      const auto same = [&](const FittedCoefficient& f) { return f.coefficient.path == c->path; };
      if (std::none_of(calibration.coefficients.begin(), calibration.coefficients.end(), same)) {
        use.from_base.push_back(c->path);
      }
    }
    return;
  }
  const std::string absent = "missing key ";
  Diagnostics wrong;
  for (const Diagnostic& found : diagnostics.found()) {
    if (found.message.starts_with(absent)) {
      use.missing.push_back(found.message.substr(absent.size()));
    } else {
      wrong.add(found.place, found.message, found.hint);
    }
  }
  wrong.throw_if_any();
  use.base_names = catalog.names(CatalogKind::hardware);
}

// Tables first: a hardware file that is there finds them.
std::vector<OutputFile> output_files(const Calibration& calibration, HardwareFile file,
                                     const CommonOptions& options) {
  std::vector<OutputFile> outputs;
  if (!options.tables.empty()) {
    for (const MeasuredTable& table : calibration.tables) {
      const fs::path path =
          fs::path(options.tables) / fmt::format("{}-{}.yaml", file.name, table.suffix);
      outputs.push_back({path.string(), table_yaml(calibration, table, file.source_title)});
      file.table_files.push_back(named_from(folder_of(options.output), path));
    }
  }
  outputs.push_back({options.output, hardware_yaml(calibration, file)});
  return outputs;
}

// A measurement is not overwritten by what was made of it, nor a table by the file
// that names it.
void check_distinct(const std::vector<OutputFile>& outputs, const CommonOptions& options,
                    const fs::path& base) {
  std::vector<fs::path> taken(options.positional.begin(), options.positional.end());
  taken.push_back(base);
  for (const OutputFile& output : outputs) {
    const fs::path path = resolved(output.path);
    for (const fs::path& other : taken) {
      if (!other.empty() && resolved(other) == path) {
        throw InputError(fmt::format("'{}' would be overwritten", output.path),
                         "choose another --output, --name or --tables");
      }
    }
    taken.emplace_back(output.path);
  }
}

} // namespace

ExitCode run_calibrate(const std::vector<std::string>& arguments) {
  const CommonOptions options =
      parse_options("calibrate", arguments,
                    {.json = true,
                     .calibration = true,
                     .max_positional = std::numeric_limits<std::size_t>::max()});
  if (options.help) {
    return ExitCode::done;
  }
  check_options(options);
  const Catalog catalog(data_roots(options.catalog));
  const std::optional<Base> base =
      options.base.empty() ? std::nullopt : std::optional(load_base(catalog, options));
  const Calibration calibration =
      calibrate(load_measurements({options.positional.begin(), options.positional.end()}));
  const HardwareFile file = describe(calibration, options, base);
  CalibrationUse use;
  use.base = options.base;
  if (base) {
    use.replaced = replaced_tables(*base, calibration);
  }
  check_readable(catalog, calibration, file, options.output, use);
  std::vector<OutputFile> outputs = output_files(calibration, file, options);
  for (const OutputFile& output : outputs) {
    use.written.push_back(output.path);
  }
  if (!options.json.empty() && options.json != "-") {
    outputs.push_back({options.json, calibration_json(calibration, use)});
  }
  check_distinct(outputs, options,
                 base ? catalog.find(CatalogKind::hardware, options.base) : fs::path());
  write_outputs(outputs);
  if (options.json == "-") {
    write_output("-", calibration_json(calibration, use));
  } else {
    write_output("-", calibration_text(calibration, use));
  }
  if (!use.missing.empty() && !options.quiet) {
    fmt::print(stderr, "{} is not a whole machine yet; --base NAME says the rest\n",
               options.output);
  }
  return ExitCode::done;
}

} // namespace spillway
