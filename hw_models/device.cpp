#include "hw_models/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

namespace spillway {
namespace {

const std::array<std::string, 4> kinds{"datasheet", "measured", "inferred", "assumed"};

using Sources = std::map<std::string, std::string, std::less<>>; // tag -> printable source

Sources read_sources(const YamlNode& node, Diagnostics& diagnostics) {
  Sources sources;
  if (!node.is_map()) {
    diagnostics.add(node.place, "'sources' must be a map of names to {title, url, commit}");
    return sources;
  }
  for (const YamlEntry& entry : node.entries) {
    MapReader in(entry.value, entry.key, diagnostics);
    std::string text = in.text("title");
    const std::string url = in.text_or("url", "");
    const std::string commit = in.text_or("commit", "");
    static_cast<void>(in.text_or("note", ""));
    in.finish();
    text += url.empty() ? "" : ", " + url;
    text += commit.empty() ? "" : " at " + commit;
    sources.emplace(entry.key, std::move(text));
  }
  return sources;
}

// Reads the coefficients of one section of the file.
class SectionReader {
public:
  SectionReader(MapReader& in, std::string section, const Sources& sources,
                Diagnostics& diagnostics)
      : in_(&in), section_(std::move(section)), sources_(&sources), diagnostics_(&diagnostics) {}

  Coefficient read(std::string_view key, std::optional<Dimension> dimension, RealRange range) {
    Coefficient c;
    c.path = section_ + "." + std::string(key);
    c.dimension = dimension;
    const YamlNode* node = in_->required_child(key);
    if (node == nullptr) {
      c.value = c.low = c.high = 1.0;
      return c;
    }
    if (node->is_scalar()) { // a scenario's or --set's own value
      const auto value = dimension ? read_quantity(*node, *dimension, range, key, *diagnostics_)
                                   : read_number(*node, range, key, *diagnostics_);
      c.value = c.low = c.high = value.value_or(1.0);
      c.kind = "assumed";
      c.source = "set by the user";
      return c;
    }
    MapReader map(*node, std::string(key), *diagnostics_);
    const std::size_t mistakes = diagnostics_->count();
    c.value = value_of(map, "value", dimension, range);
    c.low = map.has("low") ? value_of(map, "low", dimension, range) : c.value;
    c.high = map.has("high") ? value_of(map, "high", dimension, range) : c.value;
    if (map.has("low") != map.has("high")) {
      map.error("value", fmt::format("'{}' needs both 'low' and 'high', or neither", key));
    } else if (diagnostics_->count() == mistakes && !(c.low <= c.value && c.value <= c.high)) {
      map.error("value", fmt::format("'{}' must have low <= value <= high", key));
    }
    c.kind = kinds[map.choice("kind", kinds)];
    c.source = source_of(map, key);
    c.note = map.text_or("note", "");
    map.finish();
    return c;
  }

private:
  static double value_of(MapReader& map, std::string_view key, std::optional<Dimension> dimension,
                         RealRange range) {
    return dimension ? map.quantity(key, *dimension, range) : map.number(key, range);
  }

  std::string source_of(MapReader& map, std::string_view key) {
    const std::string tag = map.text("source");
    const auto found = sources_->find(tag);
    if (found != sources_->end()) {
      return found->second;
    }
    std::vector<std::string> known;
    for (const auto& [name, title] : *sources_) {
      known.push_back(name);
    }
    if (!tag.empty()) {
      map.error("source", fmt::format("'{}' names the unknown source '{}'", key, tag),
                suggestion(tag, known));
    }
    return tag;
  }

  MapReader* in_;
  std::string section_;
  const Sources* sources_;
  Diagnostics* diagnostics_;
};

// Of one operation: a list of one name is short, however large the file that it names.
constexpr std::size_t most_tables = 64;
constexpr RealRange positive{0.0, 1e30, true};
constexpr RealRange not_negative{0.0, 1e30};
constexpr RealRange share{0.0, 1.5, true};

// A bare name is looked up in `folder`, a path is relative to the file that says it.
std::filesystem::path file_of_table(const YamlNode& item, const std::filesystem::path& folder) {
  const bool is_path = item.text.find('/') != std::string::npos && item.place.source;
  return (is_path ? std::filesystem::path(item.place.source->name).parent_path() : folder) /
         item.text;
}

// Positions of the named factors in `device`.
std::vector<std::size_t> read_factor_names(MapReader& in, const Device& device) {
  std::vector<std::string> known;
  for (const Coefficient& factor : device.rate_factors) {
    known.push_back(factor.path.substr(factor.path.rfind('.') + 1));
  }
  std::vector<std::size_t> positions;
  const std::vector<std::string> names = in.text_list_or_empty("rate_factors");
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      in.error("rate_factors", fmt::format("'gpu.rate_factors' has no '{}'", name),
               suggestion(name, known));
    }
    positions.push_back(static_cast<std::size_t>(found - known.begin()));
  }
  if (names.empty()) {
    in.error("rate_factors", "'rate_factors' must list at least one of 'gpu.rate_factors'");
  }
  return positions;
}

KernelTable load_table(const YamlNode& file, const std::filesystem::path& folder,
                       Diagnostics& diagnostics) {
  return KernelTable::read(load_yaml(file_of_table(file, folder)), diagnostics);
}

// A table named by its file, with or without factors, or written out in place.
std::shared_ptr<const KernelTable> read_table(const YamlNode& item,
                                              const std::filesystem::path& folder,
                                              const Device& device, Diagnostics& diagnostics) {
  if (item.find("table") == nullptr) {
    return std::make_shared<KernelTable>(item.is_map() ? KernelTable::read(item, diagnostics)
                                                       : load_table(item, folder, diagnostics));
  }
  MapReader in(item, "table", diagnostics);
  KernelTable table;
  if (!in.text("table").empty()) {
    table = load_table(*item.find("table"), folder, diagnostics);
  }
  table.rate_factors = read_factor_names(in, device);
  table.kind = "inferred"; // however the rows came about
  in.finish();
  return std::make_shared<KernelTable>(std::move(table));
}

void read_tables(const YamlNode& node, const std::filesystem::path& folder, Device& device,
                 Diagnostics& diagnostics) {
  static const std::array<std::string, 3> ops{"matmul", "grouped_matmul", "attention"};
  static const YamlNode nothing;
  MapReader in(node, "kernels", diagnostics);
  for (std::size_t op = 0; op < ops.size(); ++op) {
    const YamlNode* types = in.required_child(ops[op]);
    if (types == nullptr) {
      continue;
    }
    MapReader by_type(*types, ops[op], diagnostics);
    const YamlNode* given = by_type.child("bf16");
    const YamlNode& list = given == nullptr ? nothing : *given;
    by_type.finish();
    if (list.items.empty()) {
      by_type.error("bf16",
                    fmt::format("'{}' needs a list of at least one table under 'bf16'", ops[op]));
    }
    if (list.items.size() > most_tables) {
      by_type.error("bf16", fmt::format("'{}' has more than {} tables", ops[op], most_tables));
      continue;
    }
    for (const YamlNode& item : list.items) {
      if (!item.is_map() && (!item.is_scalar() || item.text.empty())) {
        diagnostics.add(item.place, "a table must be a file name, a map of one and its "
                                    "'rate_factors', or a map of kind kernel_table");
        continue;
      }
      const std::size_t mistakes = diagnostics.count();
      std::shared_ptr<const KernelTable> table = read_table(item, folder, device, diagnostics);
      const auto found = static_cast<std::size_t>(table->op);
      if (diagnostics.count() == mistakes && (found != op || table->type != DataType::bf16)) {
        diagnostics.add(item.place,
                        fmt::format("{} is not a table of bf16 {}",
                                    item.is_map() ? "this" : "'" + item.text + "'", ops[op]));
      }
      device.tables.push_back(std::move(table));
    }
  }
  in.finish();
}

void read_rate_factors(const YamlNode& node, const Sources& sources, Device& device,
                       Diagnostics& diagnostics) {
  MapReader in(node, "rate_factors", diagnostics);
  SectionReader section(in, "gpu.rate_factors", sources, diagnostics);
  for (const YamlEntry& entry : node.entries) {
    device.rate_factors.push_back(section.read(entry.key, std::nullopt, {0.0, 100.0, true}));
  }
  in.finish();
}

void read_gpu(const YamlNode& node, const Sources& sources, const std::filesystem::path& folder,
              Device& device, Diagnostics& diagnostics) {
  MapReader in(node, "gpu", diagnostics);
  SectionReader section(in, "gpu", sources, diagnostics);
  device.memory = section.read("memory", Dimension::bytes, positive);
  device.context = section.read("context", Dimension::bytes, not_negative);
  device.hbm_rate = section.read("hbm_rate", Dimension::byte_rate, positive);
  device.kernel_overhead = section.read("kernel_overhead", Dimension::seconds, not_negative);
  device.matmul_derate = section.read("matmul_derate", std::nullopt, share);
  device.attention_derate = section.read("attention_derate", std::nullopt, share);
  device.shape_factor = section.read("shape_factor", std::nullopt, positive);
  if (const YamlNode* peak = in.required_child("peak")) {
    MapReader peaks(*peak, "peak", diagnostics);
    SectionReader peak_section(peaks, "gpu.peak", sources, diagnostics);
    device.peak_bf16 = peak_section.read("bf16", Dimension::flop_rate, positive);
    peaks.finish();
  }
  const YamlNode* clock = in.child("clock");
  if (clock != nullptr && !(clock->is_scalar() && clock->text == "off")) {
    MapReader map(*clock, "clock", diagnostics);
    SectionReader rule(map, "gpu.clock", sources, diagnostics);
    device.clock = ClockRule{rule.read("limit_rate", Dimension::flop_rate, positive),
                             rule.read("attention_power", std::nullopt, share),
                             rule.read("memory_power", std::nullopt, share),
                             rule.read("idle_power", std::nullopt, share),
                             rule.read("max_speed", std::nullopt, {1.0, 4.0}),
                             rule.read("exponent", std::nullopt, {1.0, 6.0, true})};
    map.finish();
  }
  if (const YamlNode* factors = in.child("rate_factors")) {
    read_rate_factors(*factors, sources, device, diagnostics);
  }
  if (const YamlNode* kernels = in.required_child("kernels")) {
    read_tables(*kernels, folder, device, diagnostics);
  }
  in.finish();
}

void read_copy(MapReader& host, const std::string& key, const Sources& sources, Coefficient& rate,
               Coefficient& latency, Diagnostics& diagnostics) {
  if (const YamlNode* node = host.required_child(key)) {
    MapReader in(*node, key, diagnostics);
    SectionReader section(in, "host." + key, sources, diagnostics);
    rate = section.read("rate", Dimension::byte_rate, positive);
    latency = section.read("latency", Dimension::seconds, not_negative);
    in.finish();
  }
}

void read_host(const YamlNode& node, const Sources& sources, Device& device,
               Diagnostics& diagnostics) {
  MapReader in(node, "host", diagnostics);
  SectionReader section(in, "host", sources, diagnostics);
  device.gpus_per_cpu = in.integer("gpus_per_cpu", {1, 64});
  device.host_memory = section.read("memory_per_cpu", Dimension::bytes, positive);
  device.host_pool_rate = section.read("pool_rate", Dimension::byte_rate, positive);
  read_copy(in, "d2h", sources, device.d2h_rate, device.d2h_latency, diagnostics);
  read_copy(in, "h2d", sources, device.h2d_rate, device.h2d_latency, diagnostics);
  if (in.has("duplex_rate")) {
    device.duplex_rate = section.read("duplex_rate", Dimension::byte_rate, positive);
  }
  device.peeled_copy_rate = section.read("peeled_copy_rate", Dimension::byte_rate, positive);
  if (in.has("loop_store_share")) {
    device.loop_store_share = section.read("loop_store_share", std::nullopt, share);
  }
  in.finish();
}

void read_network(MapReader& file, const Sources& sources, Device& device,
                  Diagnostics& diagnostics) {
  if (const YamlNode* node = file.required_child("scale_up")) {
    MapReader in(*node, "scale_up", diagnostics);
    SectionReader section(in, "scale_up", sources, diagnostics);
    device.scale_up_domain = in.integer("domain", {1, 1'000'000});
    device.scale_up_rate = section.read("rate", Dimension::byte_rate, positive);
    device.scale_up_latency = section.read("latency", Dimension::seconds, not_negative);
    device.all_gather = section.read("all_gather", std::nullopt, share);
    device.reduce_scatter = section.read("reduce_scatter", std::nullopt, share);
    device.all_to_all = section.read("all_to_all", std::nullopt, share);
    in.finish();
  }
  if (const YamlNode* node = file.required_child("scale_out")) {
    MapReader in(*node, "scale_out", diagnostics);
    SectionReader section(in, "scale_out", sources, diagnostics);
    device.scale_out_rate = section.read("rate", Dimension::byte_rate, positive);
    device.scale_out_latency = section.read("latency", Dimension::seconds, not_negative);
    device.scale_out_efficiency = section.read("efficiency", std::nullopt, share);
    static const std::array<std::string, 3> paths{"separate", "host", "gpu_link"};
    device.nic_path = static_cast<NicPath>(in.choice("path", paths));
    in.finish();
  }
}

} // namespace

std::string format_coefficient(const Coefficient& c, double value) {
  if (!c.dimension) {
    return fmt::format("{:.4g}", value);
  }
  switch (*c.dimension) {
  case Dimension::bytes: return format_bytes(value);
  case Dimension::byte_rate: return format_byte_rate(value);
  case Dimension::flop_rate: return format_flop_rate(value);
  case Dimension::seconds: return format_seconds(value);
  }
  return {};
}

std::vector<Coefficient*> Device::coefficients() {
  std::vector<Coefficient*> all{&memory,
                                &context,
                                &hbm_rate,
                                &kernel_overhead,
                                &matmul_derate,
                                &attention_derate,
                                &shape_factor,
                                &peak_bf16,
                                &host_memory,
                                &host_pool_rate,
                                &d2h_rate,
                                &d2h_latency,
                                &h2d_rate,
                                &h2d_latency,
                                &peeled_copy_rate,
                                &scale_up_rate,
                                &scale_up_latency,
                                &all_gather,
                                &reduce_scatter,
                                &all_to_all,
                                &scale_out_rate,
                                &scale_out_latency,
                                &scale_out_efficiency};
  if (duplex_rate) {
    all.push_back(&*duplex_rate);
  }
  if (loop_store_share) {
    all.push_back(&*loop_store_share);
  }
  if (clock) {
    all.insert(all.end(), {&clock->limit_rate, &clock->attention_power, &clock->memory_power,
                           &clock->idle_power, &clock->max_speed, &clock->exponent});
  }
  for (Coefficient& factor : rate_factors) {
    all.push_back(&factor);
  }
  return all;
}

std::vector<const Coefficient*> Device::coefficients() const {
  const std::vector<Coefficient*> all = const_cast<Device*>(this)->coefficients();
  return {all.begin(), all.end()};
}

Device read_device(const YamlNode& node, const std::filesystem::path& table_folder,
                   Diagnostics& diagnostics) {
  static const std::array<std::string, 1> file_kinds{"hardware"};
  MapReader in(node, "hardware", diagnostics);
  Device device;
  static_cast<void>(in.choice("kind", file_kinds));
  device.name = in.text("name");
  device.title = in.text_or("title", device.name);
  Sources sources;
  if (const YamlNode* list = in.required_child("sources")) {
    sources = read_sources(*list, diagnostics);
  }
  if (const YamlNode* gpu = in.required_child("gpu")) {
    read_gpu(*gpu, sources, table_folder, device, diagnostics);
  }
  if (const YamlNode* host = in.required_child("host")) {
    read_host(*host, sources, device, diagnostics);
  }
  read_network(in, sources, device, diagnostics);
  in.finish();
  return device;
}

std::vector<std::filesystem::path> table_files(const YamlNode& node,
                                               const std::filesystem::path& table_folder) {
  std::vector<std::filesystem::path> files;
  const YamlNode* gpu = node.find("gpu");
  const YamlNode* kernels = gpu == nullptr ? nullptr : gpu->find("kernels");
  if (kernels == nullptr) {
    return files;
  }
  for (const YamlEntry& op : kernels->entries) {
    for (const YamlEntry& type : op.value.entries) {
      for (const YamlNode& item : type.value.items) {
        const YamlNode* file = item.is_map() ? item.find("table") : &item;
        if (file != nullptr && file->is_scalar() && !file->text.empty()) {
          files.push_back(file_of_table(*file, table_folder));
        }
      }
    }
  }
  return files;
}

} // namespace spillway
