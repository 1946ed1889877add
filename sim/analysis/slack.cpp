#include "sim/analysis/slack.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace spillway {
namespace {

// Calls with every task that could not start before `task` had ended.
class Successors {
public:
  Successors(const TaskGraph& graph, const Timeline& timeline)
      : graph_(graph), on_lane_(graph.task_count(), no_id), on_memory_(graph.task_count(), no_id),
        same_memory_(graph.task_count(), no_id) {
    for (LaneId lane = 0; lane + std::size_t{1} < graph.lane_offset.size(); ++lane) {
      TaskId before = no_id;
      for (const TaskId task : graph.tasks_of(lane)) {
        if (before != no_id) {
          on_lane_[before] = task;
        }
        before = task;
      }
    }
    for (TaskId task = 0; task < graph.task_count(); ++task) {
      if (timeline.cause[task] == Cause::memory && timeline.cause_task[task] != no_id) {
        same_memory_[task] = on_memory_[timeline.cause_task[task]];
        on_memory_[timeline.cause_task[task]] = task;
      }
    }
  }

  template <class Visit>
  void each(TaskId task, const Visit& visit) const {
    for (const TaskId successor : graph_.successors_of(task)) {
      visit(successor);
    }
    if (on_lane_[task] != no_id) {
      visit(on_lane_[task]);
    }
    for (TaskId other = on_memory_[task]; other != no_id; other = same_memory_[other]) {
      visit(other);
    }
  }

private:
  const TaskGraph& graph_;
  std::vector<TaskId> on_lane_;
  std::vector<TaskId> on_memory_;   // the first that started on memory this task freed
  std::vector<TaskId> same_memory_; // the next one with the same cause
};

// Each task before its successors. Times alone do not order tasks that take none.
std::vector<TaskId> in_order(const Successors& successors, std::size_t count) {
  std::vector<std::uint32_t> unmet(count, 0);
  for (TaskId task = 0; task < count; ++task) {
    successors.each(task, [&](TaskId successor) { ++unmet[successor]; });
  }
  std::vector<TaskId> order;
  order.reserve(count);
  for (TaskId task = 0; task < count; ++task) {
    if (unmet[task] == 0) {
      order.push_back(task);
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    successors.each(order[i], [&](TaskId successor) {
      if (--unmet[successor] == 0) {
        order.push_back(successor);
      }
    });
  }
  return order;
}

} // namespace

std::vector<SimTime> slack_of(const TaskGraph& graph, const Timeline& timeline) {
  const Successors successors(graph, timeline);
  std::vector<TaskId> backward = in_order(successors, graph.task_count());
  std::reverse(backward.begin(), backward.end());
  std::vector<SimTime> latest_end(graph.task_count(), timeline.makespan);
  std::vector<SimTime> slack(graph.task_count());
  for (const TaskId task : backward) {
    SimTime& latest = latest_end[task];
    successors.each(task, [&](TaskId successor) {
      const SimTime duration = timeline.end[successor] - timeline.start[successor];
      latest = std::min(latest, latest_end[successor] - duration);
    });
    slack[task] = latest - timeline.end[task];
  }
  return slack;
}

} // namespace spillway
