#include "results/explanation.hpp"

#include "results/text_table.hpp"
#include "sim/analysis/explain.hpp"
#include "sim/engine/repeats.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace spillway {
namespace {

std::string class_of(const TaskInfo& info) {
  switch (info.kind) {
  case TaskKind::store:
  case TaskKind::reload: return "copy";
  case TaskKind::collective:
    return info.phase == Phase::recompute ? "collective, re-run" : "collective";
  case TaskKind::kernel:
  case TaskKind::gap:
  case TaskKind::bookkeeping: break;
  }
  return phase_name(info.phase);
}

template <class Map>
auto sorted_by_time(Map&& groups) {
  std::vector<typename std::decay_t<Map>::mapped_type> list;
  list.reserve(groups.size());
  for (auto& [key, group] : groups) {
    list.push_back(group);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return list;
}

std::string percent(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0.0);
}

// Time on the critical sequence by class, most first.
std::string classes_text(const Explanation& explanation, double step) {
  std::vector<std::pair<std::string, double>> classes;
  for (const CriticalGroup& group : explanation.critical) {
    const auto found = std::find_if(classes.begin(), classes.end(),
                                    [&](const auto& known) { return known.first == group.phase; });
    if (found == classes.end()) {
      classes.emplace_back(group.phase, group.seconds);
    } else {
      found->second += group.seconds;
    }
  }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  TextTable table;
  for (const auto& [name, seconds] : classes) {
    table.add({name, format_seconds(seconds), percent(seconds, step)});
  }
  return table.render("  ");
}

// What happens to every tensor that a policy can name, and why.
std::string decisions_text(const StepTrace& trace, const Plan& plan) {
  std::string text;
  for (std::size_t k = 0; k < trace.kinds.size(); ++k) {
    const LayerKind& kind = trace.kinds[k];
    if (!kind.checkpointed) {
      continue;
    }
    TextTable table;
    table.left_columns = 2;
    table.last_column_left = true;
    table.add({"tensor", "shape", "bytes", "fate", "why"});
    table.add_rule();
    for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
      const Tensor& tensor = kind.tensors[t];
      if (!tensor.policy_names.empty()) {
        const TensorDecision& decision = plan.kinds[k].tensors[t];
        table.add({tensor.policy_names.front(), shape_text(tensor),
                   format_bytes(static_cast<double>(tensor.bytes.count())),
                   decision.needed ? fate_name(decision.fate) : "-", decision.reason});
      }
    }
    text +=
        fmt::format("\nWhat happens to the tensors of a {} layer, one micro-batch\n", kind.name) +
        table.render("  ");
  }
  return text;
}

} // namespace

Explanation explain(const Simulation& run) {
  const Lowered& lowered = run.lowered;
  const Timeline& timeline = run.timeline;
  Explanation explanation;
  explanation.sharing_gpus = static_cast<std::int64_t>(lowered.lanes.size());

  std::map<std::pair<std::string, std::string>, CriticalGroup> critical;
  for (const auto& [task, runs] : critical_sequence(lowered.graph, timeline)) {
    explanation.critical_tasks += static_cast<std::size_t>(runs);
    const TaskInfo& info = lowered.tasks[task];
    const std::string& what = lowered.labels[info.label];
    CriticalGroup& group = critical[{class_of(info), what}];
    group.what = what;
    group.phase = class_of(info);
    group.count += runs;
    group.seconds += to_seconds((timeline.end[task] - timeline.start[task]) * runs).count();
  }
  explanation.critical = sorted_by_time(critical);

  std::map<std::pair<std::uint32_t, std::uint32_t>, WaitGroup> waits;
  const LaneId compute = lowered.lanes.front().compute;
  for (const LaneGap& gap : gaps_of(lowered.graph, timeline, compute)) {
    const TaskId cause = timeline.cause_task[gap.before];
    const std::uint32_t before = lowered.tasks[gap.before].label;
    const std::uint32_t after = cause == no_id ? no_id : lowered.tasks[cause].label;
    WaitGroup& group = waits[{before, after}];
    group.before = lowered.labels[before];
    group.cause = cause == no_id ? "the beginning" : lowered.labels[after];
    group.bin = bin_of_gap(lowered, timeline, gap.before);
    group.count += gap.runs;
    group.seconds += to_seconds(gap.length * gap.runs).count();
  }
  explanation.waits = sorted_by_time(waits);

  const RunCounts runs(lowered.graph, timeline);
  std::map<std::pair<std::uint32_t, ResourceId>, SharingGroup> sharing;
  for (TaskId task = 0; task < lowered.tasks.size(); ++task) {
    const TaskInfo& info = lowered.tasks[task];
    if (info.rank != 0 || timeline.lost_to_sharing[task] <= SimTime{0} ||
        timeline.bound_by[task] == no_id) {
      continue;
    }
    SharingGroup& group = sharing[{info.label, timeline.bound_by[task]}];
    group.what = lowered.labels[info.label];
    group.resource = lowered.machine.resources[timeline.bound_by[task]].name;
    group.count += runs.of(task);
    const SimTime took = timeline.end[task] - timeline.start[task];
    group.seconds += to_seconds(took * runs.of(task)).count();
    group.seconds_alone +=
        to_seconds((took - timeline.lost_to_sharing[task]) * runs.of(task)).count();
  }
  for (auto& [key, group] : sharing) {
    explanation.sharing.push_back(group);
  }
  std::stable_sort(explanation.sharing.begin(), explanation.sharing.end(),
                   [](const SharingGroup& a, const SharingGroup& b) {
                     return a.seconds - a.seconds_alone > b.seconds - b.seconds_alone;
                   });
  return explanation;
}

std::string explanation_text(const Scenario& scenario, const Simulation& run,
                             const Explanation& explanation, std::size_t top) {
  const RunResult& r = run.result;
  std::string text = fmt::format("{}, policy {}: {} a step, {}\n", r.scenario, r.policy,
                                 format_seconds(r.step_time_s), verdict_name(r.verdict));

  text += fmt::format("\nWhat the step waits for: the critical sequence of {} tasks, each started "
                      "by the end of the one before\n",
                      explanation.critical_tasks);
  text += classes_text(explanation, r.step_time_s) + "\n";
  TextTable critical;
  critical.left_columns = 2;
  critical.add({"operation", "class", "times", "time", "share"});
  critical.add_rule();
  for (std::size_t i = 0; i < std::min(top, explanation.critical.size()); ++i) {
    const CriticalGroup& group = explanation.critical[i];
    critical.add({group.what, group.phase, fmt::format("{}", group.count),
                  format_seconds(group.seconds), percent(group.seconds, r.step_time_s)});
  }
  text += critical.render("  ");

  text += "\nWhen the GPU computes nothing, and what it waits for\n";
  if (explanation.waits.empty()) {
    text += "  never: the compute lane is always busy\n";
  } else {
    TextTable waits;
    waits.left_columns = 3;
    waits.add({"waits", "for", "class", "times", "time", "share"});
    waits.add_rule();
    for (std::size_t i = 0; i < std::min(top, explanation.waits.size()); ++i) {
      const WaitGroup& wait = explanation.waits[i];
      waits.add({wait.before, wait.cause, time_bin_name(wait.bin), fmt::format("{}", wait.count),
                 format_seconds(wait.seconds), percent(wait.seconds, r.step_time_s)});
    }
    text += waits.render("  ");
  }

  if (!explanation.sharing.empty()) {
    text += fmt::format("\nWhat sharing costs: {} GPUs use one CPU's memory\n",
                        explanation.sharing_gpus);
    for (std::size_t i = 0; i < std::min(top, explanation.sharing.size()); ++i) {
      const SharingGroup& group = explanation.sharing[i];
      const auto count = static_cast<double>(group.count);
      text += fmt::format("  {} x {}: {} each instead of {} alone, held back by {}\n", group.count,
                          group.what, format_seconds(group.seconds / count),
                          format_seconds(group.seconds_alone / count), group.resource);
    }
  }

  text += fmt::format("\nPeak HBM {} of {}, at {}\n",
                      format_bytes(static_cast<double>(r.peak_hbm_bytes)),
                      format_bytes(static_cast<double>(r.hbm_limit_bytes)), r.peak_hbm_moment);
  TextTable owners;
  for (const auto& [owner, bytes] : r.hbm_owners) {
    owners.add({owner, format_bytes(static_cast<double>(bytes)),
                percent(static_cast<double>(bytes), static_cast<double>(r.peak_hbm_bytes))});
  }
  return text + owners.render("  ") + decisions_text(scenario.trace, run.plan);
}

std::string explanation_json(const Simulation& run, const Explanation& explanation) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["scenario"] = run.result.scenario;
  json["policy"] = run.result.policy;
  json["step_time_s"] = run.result.step_time_s;
  json["critical_tasks"] = explanation.critical_tasks;
  json["critical"] = Json::array();
  for (const CriticalGroup& group : explanation.critical) {
    json["critical"].push_back({{"operation", group.what},
                                {"class", group.phase},
                                {"count", group.count},
                                {"seconds", group.seconds}});
  }
  json["waits"] = Json::array();
  for (const WaitGroup& wait : explanation.waits) {
    json["waits"].push_back({{"operation", wait.before},
                             {"waits_for", wait.cause},
                             {"bin", time_bin_name(wait.bin)},
                             {"count", wait.count},
                             {"seconds", wait.seconds}});
  }
  json["sharing"] = Json::array();
  for (const SharingGroup& group : explanation.sharing) {
    json["sharing"].push_back({{"operation", group.what},
                               {"resource", group.resource},
                               {"count", group.count},
                               {"seconds", group.seconds},
                               {"seconds_alone", group.seconds_alone}});
  }
  return json.dump(2) + '\n';
}

} // namespace spillway
