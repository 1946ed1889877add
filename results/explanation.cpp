#include "results/explanation.hpp"

#include "results/explanation_words.hpp"
#include "sim/analysis/explain.hpp"
#include "sim/analysis/slack.hpp"
#include "sim/engine/repeats.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace spillway {
namespace {

template <class Map>
auto sorted_by_time(Map&& groups) {
  std::vector<typename std::decay_t<Map>::mapped_type> list;
  list.reserve(groups.size());
  for (auto& [key, group] : groups) {
    list.push_back(group);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.time > b.time; });
  return list;
}

void count_starts(StartCounts& counts, Cause cause, std::int64_t runs) {
  switch (cause) {
  case Cause::beginning: counts.beginning += runs; break;
  case Cause::dependency: counts.dependency += runs; break;
  case Cause::lane: counts.lane += runs; break;
  case Cause::memory: counts.memory += runs; break;
  }
}

void explain_critical(const Simulation& run, Explanation& explanation) {
  const Lowered& lowered = run.lowered;
  const Timeline& timeline = run.timeline;
  std::map<std::pair<std::string, std::string>, CriticalGroup> critical;
  std::map<ResourceId, LostGroup> lost;
  for (const auto& [task, runs] : critical_sequence(lowered.graph, timeline)) {
    explanation.critical_tasks += static_cast<std::size_t>(runs);
    const TaskInfo& info = lowered.tasks[task];
    const std::string& what = lowered.labels[info.label];
    CriticalGroup& group = critical[{class_of(info), what}];
    group.what = what;
    group.phase = class_of(info);
    group.count += runs;
    group.time += (timeline.tasks[task].end - timeline.tasks[task].start) * runs;
    count_starts(group.started, timeline.tasks[task].cause, runs);
    count_starts(explanation.started, timeline.tasks[task].cause, runs);
    if (timeline.tasks[task].bound_by != no_id) {
      group.lost += timeline.tasks[task].lost_to_sharing * runs;
      LostGroup& to = lost[timeline.tasks[task].bound_by];
      to.resource = lowered.machine.resources[timeline.tasks[task].bound_by].name;
      to.time += timeline.tasks[task].lost_to_sharing * runs;
    }
  }
  explanation.critical = sorted_by_time(critical);
  explanation.lost = sorted_by_time(lost);
}

void explain_waits(const Simulation& run, Explanation& explanation) {
  const Lowered& lowered = run.lowered;
  const Timeline& timeline = run.timeline;
  std::map<std::pair<std::uint32_t, std::uint32_t>, WaitGroup> waits;
  const LaneId compute = lowered.lanes.front().compute;
  for (const LaneGap& gap : gaps_of(lowered.graph, timeline, compute)) {
    const TaskId cause = timeline.tasks[gap.before].cause_task;
    const std::uint32_t before = lowered.tasks[gap.before].label;
    const std::uint32_t after = cause == no_id ? no_id : lowered.tasks[cause].label;
    WaitGroup& group = waits[{before, after}];
    group.before = lowered.labels[before];
    group.cause = cause == no_id ? "the beginning" : lowered.labels[after];
    group.bin = bin_of_gap(lowered, timeline, gap.before);
    group.count += gap.runs;
    group.time += gap.length * gap.runs;
  }
  explanation.waits = sorted_by_time(waits);
}

void explain_sharing(const Simulation& run, Explanation& explanation) {
  const Lowered& lowered = run.lowered;
  const Timeline& timeline = run.timeline;
  const RunCounts runs(lowered.graph, timeline);
  std::map<std::pair<std::uint32_t, ResourceId>, SharingGroup> sharing;
  for (TaskId task = 0; task < lowered.tasks.size(); ++task) {
    const TaskInfo& info = lowered.tasks[task];
    if (info.rank != 0 || timeline.tasks[task].lost_to_sharing <= SimTime{0} ||
        timeline.tasks[task].bound_by == no_id) {
      continue;
    }
    SharingGroup& group = sharing[{info.label, timeline.tasks[task].bound_by}];
    group.what = lowered.labels[info.label];
    group.resource = lowered.machine.resources[timeline.tasks[task].bound_by].name;
    group.count += runs.of(task);
    const SimTime took = timeline.tasks[task].end - timeline.tasks[task].start;
    group.time += took * runs.of(task);
    group.time_alone += (took - timeline.tasks[task].lost_to_sharing) * runs.of(task);
  }
  for (auto& [key, group] : sharing) {
    explanation.sharing.push_back(group);
  }
  std::stable_sort(explanation.sharing.begin(), explanation.sharing.end(),
                   [](const SharingGroup& a, const SharingGroup& b) {
                     return a.time - a.time_alone > b.time - b.time_alone;
                   });
}

} // namespace

Explanation explain(const Simulation& run) {
  Explanation explanation;
  explanation.sharing_gpus = static_cast<std::int64_t>(run.lowered.lanes.size());
  explain_critical(run, explanation);
  explain_waits(run, explanation);
  explanation.exposure = exposure_of(run.lowered, run.timeline);
  const SimTime micro_batch = run.timeline.makespan / run.micro_batches;
  explanation.room =
      room_of(run.lowered, run.timeline, Slack(run.lowered.graph, run.timeline, micro_batch));
  explain_sharing(run, explanation);
  return explanation;
}

std::vector<std::pair<std::string, SimTime>> time_by_class(const Explanation& explanation) {
  std::vector<std::pair<std::string, SimTime>> classes;
  for (const CriticalGroup& group : explanation.critical) {
    const auto found = std::find_if(classes.begin(), classes.end(),
                                    [&](const auto& known) { return known.first == group.phase; });
    if (found == classes.end()) {
      classes.emplace_back(group.phase, group.time);
    } else {
      found->second += group.time;
    }
  }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return classes;
}

} // namespace spillway
