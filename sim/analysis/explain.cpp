#include "sim/analysis/explain.hpp"

#include <algorithm>

namespace spillway {

std::vector<TaskId> critical_sequence(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<TaskId> sequence;
  TaskId last = no_id;
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    if (timeline.end[task] == timeline.makespan) {
      last = task; // of several, the one added last
    }
  }
  while (last != no_id) {
    sequence.push_back(last);
    last = timeline.cause_task[last];
  }
  std::reverse(sequence.begin(), sequence.end());
  return sequence;
}

std::vector<LaneGap> gaps_of(const TaskGraph& graph, const Timeline& timeline, LaneId lane) {
  std::vector<LaneGap> gaps;
  SimTime free{0};
  for (const TaskId task : graph.tasks_of(lane)) {
    if (timeline.start[task] > free) {
      gaps.push_back({task, timeline.start[task] - free});
    }
    free = timeline.end[task];
  }
  return gaps;
}

} // namespace spillway
