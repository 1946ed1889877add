#include "results/profiles.hpp"
#include "results/trace_compare.hpp"
#include "results/validation.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

struct Measured {
  std::vector<ProfileRecord> records;
  Device device;
  FrameworkSpec framework;
};

// The one that is named, or the one that says that it runs profiles.
FrameworkSpec framework_of_profiles(const Catalog& catalog, const std::string& name,
                                    Diagnostics& diagnostics) {
  const auto load = [&](const std::string& text) {
    return read_framework(
        catalog.load_file(CatalogKind::framework, catalog.find(CatalogKind::framework, text)),
        diagnostics);
  };
  if (!name.empty()) {
    return load(name);
  }
  for (const std::string& known : catalog.names(CatalogKind::framework)) {
    FrameworkSpec framework = load(known);
    if (framework.runs_profiles) {
      return framework;
    }
  }
  throw InputError("--profiles needs --framework: no framework here says 'runs_profiles: true'",
                   suggestion("", catalog.names(CatalogKind::framework)));
}

Measured load_measured(const Catalog& catalog, const CommonOptions& options) {
  if (options.hardware.empty()) {
    throw InputError("--profiles needs --hardware: what the steps were measured on",
                     suggestion("", catalog.names(CatalogKind::hardware)));
  }
  Measured measured;
  measured.records = load_profiles(options.profiles);
  Diagnostics diagnostics;
  measured.device =
      read_device(catalog.load_file(CatalogKind::hardware,
                                    catalog.find(CatalogKind::hardware, options.hardware)),
                  catalog.table_folder(), diagnostics);
  measured.framework = framework_of_profiles(catalog, options.framework, diagnostics);
  diagnostics.throw_if_any();
  return measured;
}

ExitCode validate_profiles(const Catalog& catalog, const CommonOptions& options) {
  const auto [records, device, framework] = load_measured(catalog, options);
  const std::vector<ProfileResult> results = check_profiles(records, device, framework);
  const PolicyChoices choices = policy_choices(records, results);
  if (!options.json.empty()) {
    write_output(options.json, profiles_json(results, choices));
  }
  if (options.prints_text()) {
    write_output("-", profiles_text(results, policy_order(records, results, timing_noise_percent)) +
                          choices_text(choices));
  }
  return std::all_of(results.begin(), results.end(), passes) ? ExitCode::done : ExitCode::no;
}

ExitCode compare_one_with_trace(const Catalog& catalog, const CommonOptions& options) {
  const auto [records, device, framework] = load_measured(catalog, options);
  const ProfileRecord& record = chosen_record(records, options.record);
  const DeviceTrace trace =
      load_device_trace(options.against, load_trace_formats(catalog, options.trace_format));
  const TraceComparison comparison =
      compare_with_trace(record, device, framework, trace, chosen_step(trace, options.step));
  if (!options.json.empty()) {
    write_output(options.json, trace_comparison_json(comparison));
  }
  if (options.prints_text()) {
    write_output("-", trace_comparison_text(comparison));
  }
  return ExitCode::done;
}

// Options that mean nothing without another one.
void check_combinations(const CommonOptions& options) {
  struct Dependence {
    const char* option;
    bool given;
    const char* needs;
    bool there;
  };
  const bool profiles = !options.profiles.empty();
  const bool against = !options.against.empty();
  for (const Dependence& one :
       {Dependence{"--hardware", !options.hardware.empty(), "--profiles", profiles},
        {"--framework", !options.framework.empty(), "--profiles", profiles},
        {"--against", against, "--profiles", profiles},
        {"--record", !options.record.empty(), "--against", against},
        {"--step", options.step.has_value(), "--against", against},
        {"--trace-format", !options.trace_format.empty(), "--against", against}}) {
    if (one.given && !one.there) {
      throw InputError(fmt::format("{} goes with {}", one.option, one.needs));
    }
  }
  if (profiles && !options.cases.empty()) {
    throw InputError("--profiles and --cases are two runs");
  }
}

// Measurements are not replaced by what is said about them.
void check_json_is_no_input(const Catalog& catalog, const CommonOptions& options) {
  std::vector<std::filesystem::path> inputs{options.profiles, options.against};
  const auto add = [&](CatalogKind kind, const std::string& name) {
    if (!name.empty()) {
      inputs.push_back(catalog.find(kind, name));
    }
  };
  if (!options.json.empty()) {
    add(CatalogKind::hardware, options.hardware);
    add(CatalogKind::framework, options.framework);
    add(CatalogKind::trace_format, options.trace_format);
  }
  check_output_is_no_input(options.json, inputs);
}

} // namespace

ExitCode run_validate(const CommonOptions& options) {
  const std::vector<std::filesystem::path> roots = data_roots(options.catalog);
  const Catalog catalog(roots);
  check_combinations(options);
  check_json_is_no_input(catalog, options);
  if (!options.profiles.empty()) {
    return options.against.empty() ? validate_profiles(catalog, options)
                                   : compare_one_with_trace(catalog, options);
  }
  const std::filesystem::path folder = options.cases.empty()
                                           ? roots.back() / "results" / "reference"
                                           : std::filesystem::path(options.cases);
  std::vector<CaseResult> results;
  for (const ValidationCase& given : load_cases(folder)) {
    results.push_back(check_case(catalog, given));
  }
  if (!options.json.empty()) {
    write_output(options.json, validation_json(results));
  }
  if (options.prints_text()) {
    write_output("-", validation_text(results));
  }
  const bool all = std::all_of(results.begin(), results.end(),
                               [](const CaseResult& result) { return result.pass; });
  return all ? ExitCode::done : ExitCode::no;
}

} // namespace spillway
