#include "results/validation.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <algorithm>

namespace spillway {

ExitCode run_validate(const std::vector<std::string>& arguments) {
  const CommonOptions options = parse_options("validate", arguments, {.json = true, .cases = true});
  if (options.help) {
    return ExitCode::done;
  }
  const std::vector<std::filesystem::path> roots = data_roots(options.catalog);
  const Catalog catalog(roots);
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
