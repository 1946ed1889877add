#include "results/report_text.hpp"
#include "results/write.hpp"
#include "sim/cli/axes.hpp"
#include "sim/cli/break_even.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace spillway {
namespace {

// --hardware a,b is an axis of names. It is applied first, so that --set can refine
// every one of them.
constexpr const char* system_key = "hardware";

void check_names(const std::string& hardware) {
  std::vector<std::string> names = split(hardware, ',');
  std::sort(names.begin(), names.end());
  if (names.front().empty()) {
    throw InputError(fmt::format("--hardware '{}' has an empty name", hardware),
                     "write names or files with a comma between two");
  }
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw InputError(fmt::format("--hardware: '{}' is named twice", *twice));
  }
}

std::vector<std::string> all_axes(const CommonOptions& options) {
  std::vector<std::string> axes = options.axes;
  if (options.hardware.empty()) {
    return axes;
  }
  check_names(options.hardware);
  for (const std::string& assignment : options.set) {
    if (assignment.starts_with("hardware=")) {
      throw InputError(fmt::format("--hardware and --set {} both name the system", assignment),
                       "leave one of them out");
    }
  }
  axes.insert(axes.begin(), fmt::format("{}={}", system_key, options.hardware));
  return axes;
}

CommonOptions with(const CommonOptions& options,
                   const std::vector<std::pair<std::string, std::string>>& settings) {
  CommonOptions own = options;
  for (const auto& [path, value] : settings) {
    const bool first = path == system_key && !options.hardware.empty();
    own.set.insert(first ? own.set.begin() : own.set.end(), fmt::format("{}={}", path, value));
  }
  return own;
}

std::size_t base_index(const std::vector<ResultRow>& rows, const std::string& wanted) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RunResult& result = rows[i].result;
    if (wanted.empty() ? result.verdict == Verdict::fits : result.policy == wanted) {
      return i;
    }
  }
  if (!wanted.empty()) {
    std::vector<std::string> names;
    for (const ResultRow& row : rows) {
      if (std::find(names.begin(), names.end(), row.result.policy) == names.end()) {
        names.push_back(row.result.policy); // once, however many axes there are
      }
    }
    throw InputError(fmt::format("--base '{}' is not among the compared policies", wanted),
                     suggestion(wanted, names));
  }
  return 0;
}

std::vector<RunResult> results_of(const std::vector<ResultRow>& rows) {
  std::vector<RunResult> results;
  results.reserve(rows.size());
  for (const ResultRow& row : rows) {
    results.push_back(row.result);
  }
  return results;
}

// In the layout that suits what was varied.
std::string report(const CommonOptions& options, const Scenario& scenario,
                   const std::vector<ResultRow>& rows, std::size_t base) {
  const std::string& policy = rows[base].result.policy;
  if (!options.axes.empty()) {
    return scenario_text(scenario) + "\n" + axis_text(scenario, rows, policy);
  }
  if (!options.hardware.empty()) {
    return systems_text(scenario, rows, policy);
  }
  return scenario_text(scenario) + runtime_text(scenario) + "\n" +
         compare_text(scenario, results_of(rows), base);
}

} // namespace

ExitCode run_compare(const CommonOptions& options) {
  if (!options.break_even.empty()) {
    return run_break_even(options);
  }
  std::optional<Scenario> first; // whose title and published figures the text shows
  std::vector<ResultRow> rows;
  for (const auto& settings : combinations(all_axes(options))) {
    const Scenario scenario = load_from(with(options, settings));
    if (!first) {
      first = scenario;
    }
    RateCache cache;
    for (const PolicySpec* policy : chosen_policies(scenario, options)) {
      rows.push_back({settings, options.no_band
                                    ? simulate(scenario, *policy, cache, options.folding()).result
                                    : simulate_with_band(scenario, *policy, cache,
                                                         thread_count(options), options.folding())
                                          .result});
    }
  }
  const std::size_t base = base_index(rows, options.base);
  if (!options.json.empty()) {
    write_output(options.json, compare_json(rows));
  }
  if (!options.csv.empty()) {
    write_output(options.csv, results_csv(rows));
  }
  if (options.prints_text()) {
    write_output("-", report(options, *first, rows, base));
  }
  const bool any_fits = std::any_of(rows.begin(), rows.end(), [](const ResultRow& row) {
    return row.result.verdict == Verdict::fits;
  });
  return any_fits ? ExitCode::done : ExitCode::no;
}

} // namespace spillway
