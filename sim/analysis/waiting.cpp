#include "sim/analysis/waiting.hpp"

#include "sim/analysis/explain.hpp"

#include <algorithm>

namespace spillway {

std::vector<SimTime> waited_for(const TaskGraph& graph, const Timeline& timeline, LaneId lane) {
  std::vector<SimTime> waited(graph.task_count(), SimTime{0});
  for (const LaneGap& gap : gaps_of(graph, timeline, lane)) {
    // Each cause ends where the task that it started starts; a time of its own would be that
    // of its first run.
    SimTime left = gap.length;
    for (TaskId task = timeline.cause_task[gap.before]; task != no_id && left > SimTime{0};
         task = timeline.cause_task[task]) {
      const SimTime part = std::min(left, timeline.end[task] - timeline.start[task]);
      waited[task] += part * gap.runs;
      left -= part;
    }
  }
  return waited;
}

} // namespace spillway
