#include "results/validation.hpp"

#include "results/text_table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

namespace spillway {
namespace {

const std::array<std::string, 12> metric_names{"step_time",
                                               "tokens_per_s_per_gpu",
                                               "tflops_per_gpu",
                                               "peak_hbm",
                                               "mem_max_allocated",
                                               "temp",
                                               "host",
                                               "fits",
                                               "speedup",
                                               "peak_hbm_over_base",
                                               "store_per_layer",
                                               "forward_per_layer"};

std::optional<Dimension> dimension_of(Metric metric) {
  switch (metric) {
  case Metric::step_time:
  case Metric::store_per_layer:
  case Metric::forward_per_layer: return Dimension::seconds;
  case Metric::peak_hbm:
  case Metric::mem_max_allocated:
  case Metric::temp:
  case Metric::host:
  case Metric::peak_hbm_over_base: return Dimension::bytes;
  case Metric::tokens_per_s_per_gpu:
  case Metric::tflops_per_gpu:
  case Metric::fits:
  case Metric::speedup: break;
  }
  return std::nullopt;
}

bool needs_base(Metric metric) {
  return metric == Metric::speedup || metric == Metric::peak_hbm_over_base;
}

ValidationCase read_case(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> kinds{"case"};
  constexpr RealRange positive{1e-12, 1e30};
  MapReader in(node, "case", diagnostics);
  ValidationCase given;
  static_cast<void>(in.choice("kind", kinds));
  given.id = in.text("id");
  given.source = in.text("source");
  given.scenario = in.text("scenario");
  given.set = in.text_list_or_empty("set");
  given.policy = in.text("policy");
  given.metric = static_cast<Metric>(in.choice("metric", metric_names));
  given.base = needs_base(given.metric) ? in.text("base") : std::string();
  given.note = in.text_or("note", "");
  if (given.metric == Metric::fits) {
    if (in.required_child("observed") != nullptr) {
      given.observed = in.boolean_or("observed", false) ? 1 : 0;
    }
  } else if (const auto dimension = dimension_of(given.metric)) {
    given.observed = in.quantity("observed", *dimension, positive);
  } else {
    given.observed = in.number("observed", positive);
    if (given.metric == Metric::speedup && given.observed == 1) {
      in.error("observed", "a 'speedup' of exactly 1 has no gain to compare with");
    }
  }
  given.tolerance_percent = in.number("tolerance_percent", {0.0, 1000.0});
  in.finish();
  return given;
}

// Stores of the middle decoder layer of the reported GPU, one after the other.
double store_per_layer(const Simulation& run) {
  std::map<std::int32_t, SimTime> by_layer;
  for (TaskId task = 0; task < run.lowered.tasks.size(); ++task) {
    const TaskInfo& info = run.lowered.tasks[task];
    if (info.rank == 0 && info.kind == TaskKind::store) {
      by_layer[info.layer] += run.timeline.tasks[task].end - run.timeline.tasks[task].start;
    }
  }
  if (by_layer.empty()) {
    return 0;
  }
  auto middle = by_layer.begin();
  std::advance(middle, by_layer.size() / 2);
  return to_seconds(middle->second).count();
}

// From the first forward kernel of the middle layer to that of the next one.
double forward_per_layer(const Simulation& run) {
  std::map<std::int32_t, SimTime> starts;
  const LaneId compute = run.lowered.lanes.front().compute;
  for (const TaskId task : run.lowered.graph.tasks_of(compute)) {
    const TaskInfo& info = run.lowered.tasks[task];
    if (info.phase == Phase::forward && info.layer >= 0) {
      starts.emplace(info.layer, run.timeline.tasks[task].start);
    }
  }
  auto middle = starts.begin();
  std::advance(middle, starts.size() / 2);
  const auto next = std::next(middle);
  return next == starts.end() ? 0 : to_seconds(next->second - middle->second).count();
}

double peak_without(const RunResult& r, std::initializer_list<HbmOwner> owners) {
  std::int64_t bytes = r.peak_hbm_bytes;
  for (const auto& [name, held] : r.hbm_owners) {
    for (const HbmOwner owner : owners) {
      bytes -= name == hbm_owner_name(owner) ? held : 0;
    }
  }
  return static_cast<double>(bytes);
}

// Fills in the prediction and whether what was simulated fits.
void predict(const Scenario& scenario, CaseResult& result) {
  const ValidationCase& given = result.given;
  RateCache cache;
  const Simulation run = // some metrics look at the middle layer
      simulate(scenario, scenario.policy(given.policy), cache, Folding::off);
  const RunResult& r = run.result;
  result.runs_fit = r.verdict == Verdict::fits;
  RunResult base;
  if (needs_base(given.metric)) {
    base = simulate(scenario, scenario.policy(given.base), cache).result;
    result.runs_fit = result.runs_fit && base.verdict == Verdict::fits;
  }
  switch (given.metric) {
  case Metric::step_time: result.predicted = r.step_time_s; break;
  case Metric::tokens_per_s_per_gpu: result.predicted = r.tokens_per_s_per_gpu; break;
  case Metric::tflops_per_gpu: result.predicted = r.model_tflops_per_gpu; break;
  case Metric::peak_hbm: result.predicted = static_cast<double>(r.peak_hbm_bytes); break;
  case Metric::mem_max_allocated: result.predicted = allocated_bytes(r); break;
  case Metric::temp: result.predicted = temporary_bytes(r); break;
  case Metric::host: result.predicted = static_cast<double>(r.peak_host_bytes); break;
  case Metric::fits: result.predicted = r.verdict == Verdict::fits ? 1 : 0; break;
  case Metric::speedup: result.predicted = base.step_time_s / r.step_time_s; break;
  case Metric::peak_hbm_over_base:
    result.predicted = static_cast<double>(r.peak_hbm_bytes - base.peak_hbm_bytes);
    break;
  case Metric::store_per_layer: result.predicted = store_per_layer(run); break;
  case Metric::forward_per_layer: result.predicted = forward_per_layer(run); break;
  }
}

double error_of(const CaseResult& result) {
  const double observed = result.given.observed;
  switch (result.given.metric) {
  case Metric::fits: return result.predicted == observed ? 0 : 100;
  case Metric::speedup: // a speed-up of 1.03 instead of 1.02 is half as much again
    return 100 * ((result.predicted - 1) / (observed - 1) - 1);
  default: return 100 * (result.predicted / observed - 1);
  }
}

std::string value_text(Metric metric, double value) {
  if (metric == Metric::fits) {
    return value > 0 ? "yes" : "no";
  }
  if (const auto dimension = dimension_of(metric)) {
    return *dimension == Dimension::seconds ? format_seconds(value) : format_bytes(value);
  }
  return metric == Metric::speedup ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", value);
}

struct MetricSummary {
  std::size_t n = 0;
  double mean = 0, median = 0, max = 0; // of absolute errors, percent
};

std::map<std::string, MetricSummary> summaries(const std::vector<CaseResult>& results) {
  std::map<std::string, std::vector<double>> errors;
  for (const CaseResult& result : results) {
    errors[metric_name(result.given.metric)].push_back(std::abs(result.error_percent));
  }
  std::map<std::string, MetricSummary> all;
  for (auto& [metric, list] : errors) {
    std::sort(list.begin(), list.end());
    MetricSummary& summary = all[metric];
    summary.n = list.size();
    for (const double error : list) {
      summary.mean += error / static_cast<double>(list.size());
    }
    const std::size_t half = list.size() / 2;
    summary.median = list.size() % 2 == 1 ? list[half] : (list[half - 1] + list[half]) / 2;
    summary.max = list.back();
  }
  return all;
}

} // namespace

double allocated_bytes(const RunResult& r) {
  return peak_without(r, {HbmOwner::framework_context});
}

double temporary_bytes(const RunResult& r) {
  return peak_without(r,
                      {HbmOwner::framework_context, HbmOwner::weights, HbmOwner::optimizer_state});
}

const char* metric_name(Metric metric) {
  return metric_names[static_cast<std::size_t>(metric)].c_str();
}

std::vector<ValidationCase> load_cases(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yaml") {
      files.push_back(entry.path());
    }
  }
  if (error || files.empty()) {
    throw InputError(fmt::format("no case files in '{}'", folder.string()),
                     "a case file is YAML with kind: case");
  }
  std::sort(files.begin(), files.end());
  Diagnostics diagnostics;
  std::vector<ValidationCase> cases;
  for (const fs::path& file : files) {
    const YamlNode node = load_yaml(file);
    cases.push_back(read_case(node, diagnostics));
    cases.back().file = file.string();
    const auto same = std::find_if(cases.begin(), std::prev(cases.end()),
                                   [&](const auto& other) { return other.id == cases.back().id; });
    if (same != std::prev(cases.end())) {
      const YamlNode* id = node.find("id");
      diagnostics.add(id == nullptr ? node.place : id->place,
                      fmt::format("two cases are named '{}'", cases.back().id));
    }
  }
  diagnostics.throw_if_any();
  return cases;
}

CaseResult check_case(const Catalog& catalog, const ValidationCase& given) try {
  const Scenario scenario = load_scenario(catalog, given.scenario, given.set);
  CaseResult result;
  result.given = given;
  predict(scenario, result);
  result.error_percent = error_of(result);
  result.pass = std::abs(result.error_percent) <= given.tolerance_percent;
  return result;
} catch (const InputError& error) {
  std::vector<Diagnostic> found{
      {{}, fmt::format("case '{}' of {} cannot be run", given.id, given.file), {}}};
  found.insert(found.end(), error.diagnostics().begin(), error.diagnostics().end());
  throw InputError(std::move(found));
}

std::string validation_text(const std::vector<CaseResult>& results) {
  TextTable table;
  table.left_columns = 2;
  table.last_column_left = true;
  table.add({"case", "metric", "observed", "predicted", "error", "tolerance", ""});
  table.add_rule();
  std::size_t passed = 0;
  for (const CaseResult& result : results) {
    const ValidationCase& given = result.given;
    passed += result.pass ? 1 : 0;
    table.add({given.id, metric_name(given.metric), value_text(given.metric, given.observed),
               value_text(given.metric, result.predicted),
               given.metric == Metric::fits ? std::string("-")
                                            : fmt::format("{:+.1f} %", result.error_percent),
               fmt::format("{:g} %", given.tolerance_percent),
               std::string(result.pass ? "ok" : "MISS") +
                   (given.metric != Metric::fits && !result.runs_fit ? ", does not fit" : "")});
  }
  std::string text = table.render();
  text += fmt::format("\n{} of {} cases within their tolerance\n", passed, results.size());
  TextTable means;
  means.add({"absolute error by metric", "n", "mean", "median", "max"});
  for (const auto& [metric, summary] : summaries(results)) {
    means.add({metric, fmt::format("{}", summary.n), fmt::format("{:.1f} %", summary.mean),
               fmt::format("{:.1f} %", summary.median), fmt::format("{:.1f} %", summary.max)});
  }
  text += means.render();
  for (const CaseResult& result : results) {
    if (!result.pass && !result.given.note.empty()) {
      text += fmt::format("\n{}: {}\n", result.given.id, result.given.note);
    }
  }
  return text;
}

std::string validation_json(const std::vector<CaseResult>& results) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["cases"] = Json::array();
  for (const CaseResult& result : results) {
    json["cases"].push_back({{"id", result.given.id},
                             {"metric", metric_name(result.given.metric)},
                             {"observed", result.given.observed},
                             {"predicted", result.predicted},
                             {"error_percent", result.error_percent},
                             {"tolerance_percent", result.given.tolerance_percent},
                             {"pass", result.pass}});
  }
  json["summary"] = Json::object();
  for (const auto& [metric, summary] : summaries(results)) {
    json["summary"][metric] = {{"n", summary.n},
                               {"mean_abs_error_percent", summary.mean},
                               {"median_abs_error_percent", summary.median},
                               {"max_abs_error_percent", summary.max}};
  }
  return json.dump(2) + '\n';
}

} // namespace spillway
