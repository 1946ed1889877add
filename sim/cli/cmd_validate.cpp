#include "results/profiles.hpp"
#include "results/validation.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <algorithm>

namespace spillway {
namespace {

ExitCode validate_profiles(const Catalog& catalog, const CommonOptions& options) {
  if (options.hardware.empty()) {
    throw InputError("--profiles needs --hardware: what the steps were measured on",
                     suggestion("", catalog.names(CatalogKind::hardware)));
  }
  const std::vector<ProfileRecord> records = load_profiles(options.profiles);
  Diagnostics diagnostics;
  const Device device =
      read_device(catalog.load_file(CatalogKind::hardware,
                                    catalog.find(CatalogKind::hardware, options.hardware)),
                  catalog.table_folder(), diagnostics);
  const FrameworkSpec framework = read_framework(
      catalog.load_file(CatalogKind::framework,
                        catalog.find(CatalogKind::framework,
                                     options.framework.empty() ? "jax-scan" : options.framework)),
      diagnostics);
  diagnostics.throw_if_any();
  const std::vector<ProfileResult> results = check_profiles(records, device, framework);
  if (!options.json.empty()) {
    write_output(options.json, profiles_json(results));
  }
  if (options.prints_text()) {
    write_output("-", profiles_text(results, policy_order(records, results, 1.5)));
  }
  return std::all_of(results.begin(), results.end(), passes) ? ExitCode::done : ExitCode::no;
}

} // namespace

ExitCode run_validate(const std::vector<std::string>& arguments) {
  const CommonOptions options = parse_options("validate", arguments, {.json = true, .cases = true});
  if (options.help) {
    return ExitCode::done;
  }
  const std::vector<std::filesystem::path> roots = data_roots(options.catalog);
  const Catalog catalog(roots);
  if (options.profiles.empty() && !options.hardware.empty()) {
    throw InputError("--hardware goes with --profiles");
  }
  if (options.profiles.empty() && !options.framework.empty()) {
    throw InputError("--framework goes with --profiles");
  }
  if (!options.profiles.empty() && !options.cases.empty()) {
    throw InputError("--profiles and --cases are two runs");
  }
  if (!options.profiles.empty()) {
    return validate_profiles(catalog, options);
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
