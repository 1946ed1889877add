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
    for (TaskId task = timeline.tasks[gap.before].cause_task; task != no_id && left > SimTime{0};
         task = timeline.tasks[task].cause_task) {
      const SimTime part = std::min(left, timeline.tasks[task].end - timeline.tasks[task].start);
      waited[task] += part * gap.runs;
      left -= part;
    }
  }
  return waited;
}

} // namespace spillway
