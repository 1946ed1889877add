#include "results/report_text.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace spillway {
namespace {

struct Axis {
  std::string path;
  std::vector<std::string> values;
};

Axis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  Axis axis;
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw InputError(fmt::format("--axis '{}' is not PATH=V1,V2,...", text),
                     "for example --axis batch.micro=1,2,4");
  }
  axis.path = text.substr(0, equals);
  std::size_t begin = equals + 1;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    axis.values.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return axis;
}

// All combinations, the last axis fastest.
std::vector<std::vector<std::pair<std::string, std::string>>> combinations(
    const std::vector<std::string>& axes) {
  std::vector<std::vector<std::pair<std::string, std::string>>> all{{}};
  for (const std::string& text : axes) {
    const Axis axis = parse_axis(text);
    std::vector<std::vector<std::pair<std::string, std::string>>> longer;
    for (const auto& settings : all) {
      for (const std::string& value : axis.values) {
        longer.push_back(settings);
        longer.back().emplace_back(axis.path, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::size_t base_index(const std::vector<RunResult>& results, const std::string& wanted) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (wanted.empty() ? results[i].verdict == Verdict::fits : results[i].policy == wanted) {
      return i;
    }
  }
  if (!wanted.empty()) {
    throw InputError(fmt::format("--base '{}' is not among the compared policies", wanted));
  }
  return 0;
}

// Fields that `published` may name are those of the field table.
void check_published(const Scenario& scenario) {
  std::vector<std::string> known = numeric_field_names();
  known.emplace_back("speedup"); // over the policy that is compared with
  Diagnostics diagnostics;
  for (const auto& [policy, values] : scenario.published) {
    for (const PublishedValue& value : values) {
      if (std::find(known.begin(), known.end(), value.field) == known.end()) {
        diagnostics.add(value.place, fmt::format("unknown field '{}'", value.field),
                        suggestion(value.field, known));
      }
    }
  }
  diagnostics.throw_if_any();
}

} // namespace

ExitCode run_compare(const std::vector<std::string>& arguments) {
  const CommonOptions options = parse_options(
      "compare", arguments,
      {.scenario = true, .json = true, .csv = true, .axis = true, .max_positional = 1});
  if (options.help) {
    return ExitCode::done;
  }
  std::deque<Scenario> scenarios; // rows refer to nothing in them, texts use the first
  std::vector<AxisRow> rows;
  for (const auto& settings : combinations(options.axes)) {
    CommonOptions own = options;
    for (const auto& [path, value] : settings) {
      own.set.push_back(path + "=" + value);
    }
    scenarios.push_back(load_from(own));
    const Scenario& scenario = scenarios.back();
    check_published(scenario);
    RateCache cache;
    for (const PolicySpec* policy : chosen_policies(scenario, options)) {
      rows.push_back(
          {settings,
           options.no_band
               ? simulate(scenario, *policy, cache).result
               : simulate_with_band(scenario, *policy, cache, thread_count(options)).result});
    }
  }
  std::vector<RunResult> results;
  std::vector<CsvRow> csv;
  for (const AxisRow& row : rows) {
    results.push_back(row.result);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    csv.push_back({rows[i].settings, &results[i]});
  }
  const std::size_t base = base_index(results, options.base);
  if (!options.json.empty()) {
    write_output(options.json, compare_json(results));
  }
  if (!options.csv.empty()) {
    write_output(options.csv, results_csv(csv));
  }
  if (options.prints_text()) {
    const Scenario& scenario = scenarios.front();
    write_output("-",
                 scenario_text(scenario) +
                     (options.axes.empty()
                          ? runtime_text(scenario) + "\n" + compare_text(scenario, results, base)
                          : "\n" + axis_text(scenario, rows, results[base].policy)));
  }
  const bool any_fits = std::any_of(results.begin(), results.end(),
                                    [](const RunResult& r) { return r.verdict == Verdict::fits; });
  return any_fits ? ExitCode::done : ExitCode::no;
}

} // namespace spillway
