// Micro-benchmark records to a hardware file.
#include "hw_models/calibration/hardware_file.hpp"
#include "results/calibration_report.hpp"
#include "results/write.hpp"
#include "sim/base/source_text.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace spillway {
namespace fs = std::filesystem;
namespace {

bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml");
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path known = fs::weakly_canonical(written_path(path), error);
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

// What the written file says must leave it a file that can be read.
void check_plain(const std::string& what, const std::string& text, const std::string& hint) {
  if (!is_plain_line(text)) {
    throw InputError(what + " must be valid UTF-8 without control characters", hint);
  }
}

void check_texts(const CommonOptions& options) {
  const std::string hint = "it becomes part of the file that is written";
  check_plain("--output", options.output, hint);
  check_plain("--base", options.base, hint);
  check_plain("--tables", options.tables, hint);
  check_plain("--source", options.source, hint);
  for (std::size_t i = 0; i < options.positional.size(); ++i) {
    check_plain(fmt::format("the name of measurement file {}", i + 1), options.positional[i], hint);
  }
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
  check_texts(options);
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
  std::vector<fs::path> places; // of its files and those it extends; see Catalog::places_of
  std::vector<fs::path> tables; // the table files that any of them names
};

// Tables that a file's own extension replaces are still that file's.
void add_files(const Catalog& catalog, const CommonOptions& options, Base& base) {
  base.places = catalog.places_of(CatalogKind::hardware, options.base);
  for (const fs::path& place : base.places) {
    std::error_code error;
    if (fs::exists(place, error)) {
      for (fs::path& file : table_files(load_yaml(place), catalog.table_folder())) {
        base.tables.push_back(std::move(file));
      }
    }
  }
}

Base load_base(const Catalog& catalog, const CommonOptions& options) {
  Base base;
  const fs::path path = catalog.find(CatalogKind::hardware, options.base);
  base.node = catalog.load_file(CatalogKind::hardware, path);
  base.as_written = !is_path(options.base) ? options.base
                    : path.is_absolute()   ? path.string()
                                           : named_from(folder_of(options.output), path);
  check_plain("the path from --output to --base", base.as_written, "name another folder");
  const YamlNode* title = base.node.find("title");
  base.title = title == nullptr ? options.base : title->text;
  if (const YamlNode* sources = base.node.find("sources")) {
    for (const YamlEntry& entry : sources->entries) {
      base.source_tags.insert(entry.key);
    }
  }
  add_files(catalog, options, base);
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

// The coefficients of `device` that were not measured.
std::vector<std::string> kept_coefficients(const Device& device, const Calibration& calibration) {
  std::vector<std::string> kept;
  for (const Coefficient* c : device.coefficients()) {
    const auto same = [&](const FittedCoefficient& f) { return f.coefficient.path == c->path; };
    if (std::none_of(calibration.coefficients.begin(), calibration.coefficients.end(), same)) {
      kept.push_back(c->path);
    }
  }
  return kept;
}

// What the machine lacks; throws where it has more mistakes than that. The text of
// `own` is no file yet, so none of its lines is named.
std::vector<std::string> missing_keys(const Diagnostics& diagnostics, const SourceText* own) {
  std::vector<std::string> missing;
  Diagnostics wrong;
  for (const Diagnostic& found : diagnostics.found()) {
    if (!found.missing.empty()) {
      missing.push_back(found.missing);
    } else if (found.place.source.get() == own) {
      wrong.add({}, "these measurements make no hardware: " + found.message, found.hint);
    } else {
      wrong.add(found.place, found.message, found.hint);
    }
  }
  wrong.throw_if_any();
  return missing;
}

// Reads the file back as a scenario would, tables included: a machine, or what it lacks.
void check_readable(const Catalog& catalog, const Calibration& calibration,
                    const HardwareFile& file, const CommonOptions& options, CalibrationUse& use) {
  HardwareFile in_one = file;
  in_one.table_files.clear(); // they are not written yet
  const YamlNode own = parse_yaml(hardware_yaml(calibration, in_one), options.output);
  Diagnostics diagnostics;
  const Device device =
      read_device(catalog.load(CatalogKind::hardware, own), catalog.table_folder(), diagnostics);
  const std::vector<std::string> missing = missing_keys(diagnostics, own.place.source.get());
  const std::vector<std::string> whole = catalog.names(CatalogKind::hardware);
  if (file.extends.empty()) {
    use.missing = missing;
    use.base_names = whole;
  } else if (!missing.empty()) {
    throw InputError(
        fmt::format("--base: '{}' and these measurements are no whole machine: "
                    "missing {}",
                    options.base, fmt::join(missing, ", ")),
        fmt::format("'{}' can extend one of: {}", options.base, fmt::join(whole, ", ")));
  } else {
    use.from_base = kept_coefficients(device, calibration);
  }
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
      check_plain("the path from --output to --tables", file.table_files.back(),
                  "name another folder");
    }
  }
  outputs.push_back({options.output, hardware_yaml(calibration, file)});
  return outputs;
}

// What was read is not overwritten by what was made of it, nor a table by the file that
// names it, and no output comes where the base would be found instead.
void check_distinct(const std::vector<OutputFile>& outputs, const CommonOptions& options,
                    const Base& base) {
  std::set<fs::path> places;
  std::transform(base.places.begin(), base.places.end(), std::inserter(places, places.end()),
                 resolved);
  std::set<fs::path> taken = places;
  for (const std::string& measurements : options.positional) {
    taken.insert(resolved(measurements));
  }
  for (const fs::path& table : base.tables) {
    taken.insert(resolved(table));
  }
  const std::string hint = "choose another --output, --name or --tables";
  for (const OutputFile& output : outputs) {
    const fs::path path = resolved(output.path);
    std::error_code error;
    if (places.count(path) > 0 && !fs::exists(path, error)) {
      throw InputError(fmt::format("'{}' would be read instead of a file that --base '{}' means",
                                   output.path, options.base),
                       hint);
    }
    if (!taken.insert(path).second) {
      throw InputError(fmt::format("'{}' would be overwritten", output.path), hint);
    }
  }
}

} // namespace

ExitCode run_calibrate(const CommonOptions& options) {
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
  check_readable(catalog, calibration, file, options, use);
  std::vector<OutputFile> outputs = output_files(calibration, file, options);
  for (const OutputFile& output : outputs) {
    use.written.push_back(output.path);
  }
  if (!options.json.empty() && options.json != "-") {
    outputs.push_back({options.json, calibration_json(calibration, use)});
  }
  check_distinct(outputs, options, base.value_or(Base{}));
  // Last: where the report cannot be printed, nothing is written either.
  outputs.push_back({"-", options.json == "-" ? calibration_json(calibration, use)
                                              : calibration_text(calibration, use)});
  write_outputs(outputs);
  if (!use.missing.empty() && !options.quiet) {
    fmt::print(stderr, "{} is not a whole machine yet; --base NAME says the rest\n",
               options.output);
  }
  return ExitCode::done;
}

} // namespace spillway
