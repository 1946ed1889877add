#include "sim/analysis/waiting.hpp"

#include "sim/analysis/explain.hpp"

#include <algorithm>

namespace spillway {

std::vector<SimTime> waited_for(const TaskGraph& graph, const Timeline& timeline, LaneId lane) {
  std::vector<SimTime> waited(graph.task_count(), SimTime{0});
  for (const LaneGap& gap : gaps_of(graph, timeline, lane)) {
    const SimTime begin = timeline.start[gap.before] - gap.length;
    for (TaskId task = timeline.cause_task[gap.before]; task != no_id && timeline.end[task] > begin;
         task = timeline.cause_task[task]) {
      waited[task] += timeline.end[task] - std::max(begin, timeline.start[task]);
    }
  }
  return waited;
}

} // namespace spillway
