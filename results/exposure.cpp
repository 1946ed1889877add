#include "results/exposure.hpp"

#include "results/explanation_words.hpp"
#include "sim/analysis/waiting.hpp"
#include "sim/engine/repeats.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace spillway {

std::vector<ExposureGroup> exposure_of(const Lowered& lowered, const Timeline& timeline) {
  const LaneId compute = lowered.lanes.front().compute;
  const std::vector<SimTime> waited = waited_for(lowered.graph, timeline, compute);
  const RunCounts runs(lowered.graph, timeline);
  std::map<std::pair<std::string, std::string>, ExposureGroup> groups;
  for (TaskId task = 0; task < lowered.tasks.size(); ++task) {
    const TaskInfo& info = lowered.tasks[task];
    const bool is_copy = info.kind == TaskKind::store || info.kind == TaskKind::reload;
    if (info.rank != 0 || (!is_copy && info.kind != TaskKind::collective)) {
      continue;
    }
    ExposureGroup& group = groups[{class_of(info), lowered.labels[info.label]}];
    group.what = lowered.labels[info.label];
    group.phase = class_of(info);
    group.count += runs.of(task);
    const SimTime took = (timeline.tasks[task].end - timeline.tasks[task].start) * runs.of(task);
    group.time += took;
    group.exposed += lowered.graph.tasks[task].lane == compute ? took : waited[task];
  }
  std::vector<ExposureGroup> list;
  list.reserve(groups.size());
  for (auto& [key, group] : groups) {
    list.push_back(std::move(group));
  }
  std::stable_sort(list.begin(), list.end(), [](const ExposureGroup& a, const ExposureGroup& b) {
    return std::pair(a.exposed, a.time) > std::pair(b.exposed, b.time);
  });
  return list;
}

std::vector<ExposureGroup> totals_of(const std::vector<ExposureGroup>& groups) {
  std::vector<ExposureGroup> totals;
  for (const std::string kind : {"copy", "collective"}) {
    ExposureGroup total{"all", kind, 0, SimTime{0}, SimTime{0}};
    for (const ExposureGroup& group : groups) {
      if (group.phase.starts_with(kind)) {
        total.count += group.count;
        total.time += group.time;
        total.exposed += group.exposed;
      }
    }
    if (total.count > 0) {
      totals.push_back(total);
    }
  }
  return totals;
}

} // namespace spillway
