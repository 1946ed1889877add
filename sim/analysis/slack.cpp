#include "sim/analysis/slack.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <stdexcept>

namespace spillway {
namespace {

// Calls with every task that could not start before `task` had ended, and whether the tie
// is a dependency.
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
      if (timeline.tasks[task].cause == Cause::memory && timeline.tasks[task].cause_task != no_id) {
        same_memory_[task] = on_memory_[timeline.tasks[task].cause_task];
        on_memory_[timeline.tasks[task].cause_task] = task;
      }
    }
  }

  template <class Visit>
  void each(TaskId task, const Visit& visit) const {
    for (const TaskId successor : graph_.successors_of(task)) {
      visit(successor, true);
    }
    if (on_lane_[task] != no_id) {
      visit(on_lane_[task], false);
    }
    for (TaskId other = on_memory_[task]; other != no_id; other = same_memory_[other]) {
      visit(other, false);
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
    successors.each(task, [&](TaskId successor, bool) { ++unmet[successor]; });
  }
  std::vector<TaskId> order;
  order.reserve(count);
  for (TaskId task = 0; task < count; ++task) {
    if (unmet[task] == 0) {
      order.push_back(task);
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    successors.each(order[i], [&](TaskId successor, bool) {
      if (--unmet[successor] == 0) {
        order.push_back(successor);
      }
    });
  }
  return order;
}

} // namespace

// One pass backward from the makespan: what comes after the repeated part, the part's runs
// from the last to the first, what comes before.
class SlackWalk {
public:
  SlackWalk(const TaskGraph& graph, const Timeline& timeline, SimTime most, Slack& slack)
      : graph_(graph), timeline_(timeline), most_(most), slack_(slack),
        successors_(graph, timeline) {
    if (timeline.repeats.size() > 1) {
      throw std::logic_error("slack of more than one repeated part");
    }
    repeat_ = timeline.repeats.empty() ? nullptr : &timeline.repeats.front();
    position_ = graph.positions();
  }

  void walk() {
    const std::size_t count = graph_.task_count();
    std::vector<TaskId> backward = in_order(successors_, count);
    std::reverse(backward.begin(), backward.end());
    std::array<std::vector<TaskId>, 3> parts; // by Part
    for (const TaskId task : backward) {
      parts[static_cast<std::size_t>(part_of(task))].push_back(task);
    }
    slack_.first_.assign(count, SimTime{0});
    for (const TaskId task : parts[after]) {
      slack_.first_[task] = slack_of(task, 0);
    }
    walk_runs(parts[inside]);
    for (const TaskId task : parts[before]) {
      slack_.first_[task] = slack_of(task, 0);
    }
  }

private:
  enum Part : std::uint8_t { before, inside, after };

  [[nodiscard]] Part part_of(TaskId task) const {
    if (repeat_ == nullptr) {
      return after;
    }
    const LaneId lane = graph_.tasks[task].lane;
    return position_[task] < repeat_->begin[lane] ? before
           : position_[task] < repeat_->end[lane] ? inside
                                                  : after;
  }

  // `tasks`: of the repeated part, each after its successors.
  void walk_runs(const std::vector<TaskId>& tasks) {
    if (tasks.empty()) {
      return;
    }
    slack_.index_.assign(graph_.task_count(), no_id);
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      slack_.index_[tasks[i]] = i;
    }
    for (std::int64_t run = times(); run >= 0; --run) {
      run_slack_.emplace_front(tasks.size(), SimTime{0});
      for (std::uint32_t i = 0; i < tasks.size(); ++i) {
        run_slack_.front()[i] = slack_of(tasks[i], run);
      }
      if (run_slack_.size() > 1 && run_slack_[0] == run_slack_[1]) {
        slack_.stages_.back().count += run + 1; // this one and all before it
        break;
      }
      slack_.stages_.push_back({1, run_slack_.front()});
    }
    for (const TaskId task : tasks) {
      slack_.first_[task] = slack_.stages_.back().slack[slack_.index_[task]];
    }
  }

  [[nodiscard]] std::int64_t times() const {
    return repeat_ == nullptr ? 0 : static_cast<std::int64_t>(repeat_->times);
  }

  // Of one run of a task; `run` counts only inside the repeated part.
  [[nodiscard]] SimTime slack_of(TaskId task, std::int64_t run) const {
    const Part part = part_of(task);
    SimTime end = timeline_.tasks[task].end;
    if (part == inside) {
      end += repeat_->period * run;
    }
    SimTime least = std::min(most_, timeline_.makespan - end);
    successors_.each(task, [&](TaskId successor, bool depends) {
      const auto [start, slack] = next_run(task, part, run, successor, depends);
      least = std::min(least, start - end + slack);
    });
    return least;
  }

  struct NextRun {
    SimTime start{0}, slack{0};
  };

  // The run of a successor that waits for this run of the task.
  [[nodiscard]] NextRun next_run(TaskId task, Part part, std::int64_t run, TaskId successor,
                                 bool depends) const {
    const Part there = part_of(successor);
    if (there == inside) {
      return at_run(successor, part == inside ? run : 0);
    }
    // Within reach of the part, a successor after it stands for its likes in earlier runs too.
    if (there == after && part != after && (!depends || maps(task, successor))) {
      for (std::int64_t last = part == inside ? run : 0; last < times(); ++last) {
        successor = moved(successor, false);
        if (part_of(successor) == inside) {
          return at_run(successor, last + 1);
        }
      }
    }
    return {timeline_.tasks[successor].start, slack_.first_[successor]};
  }

  [[nodiscard]] NextRun at_run(TaskId task, std::int64_t run) const {
    const std::size_t computed = run_slack_.size(); // of the last runs
    const auto back = static_cast<std::size_t>(times() - run);
    // Runs before the first one that was computed are like it.
    const std::vector<SimTime>& slack = run_slack_[computed - 1 - std::min(back, computed - 1)];
    return {timeline_.tasks[task].start + repeat_->period * run, slack[slack_.index_[task]]};
  }

  // A window later or earlier on the same lane; no_id = there is none.
  [[nodiscard]] TaskId moved(TaskId task, bool forward) const {
    const LaneId lane = graph_.tasks[task].lane;
    const std::int64_t length = repeat_->end[lane] - repeat_->begin[lane];
    const std::int64_t to = position_[task] + (forward ? length : -length);
    const bool there =
        length > 0 && to >= graph_.lane_offset[lane] && to < graph_.lane_offset[lane + 1];
    return there ? graph_.lane_tasks[static_cast<std::size_t>(to)] : no_id;
  }

  // Whether a dependency is one of those that repeat: a window later, or, at the end of a
  // lane, a window earlier.
  [[nodiscard]] bool maps(TaskId task, TaskId successor) const {
    return exists(moved(task, true), moved(successor, true)) ||
           exists(moved(task, false), moved(successor, false));
  }

  [[nodiscard]] bool exists(TaskId task, TaskId successor) const {
    if (task == no_id || successor == no_id) {
      return false;
    }
    const std::span<const TaskId> row = graph_.successors_of(task);
    return std::binary_search(row.begin(), row.end(), successor);
  }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  const SimTime most_;
  Slack& slack_;
  Successors successors_;
  const Repeat* repeat_ = nullptr;
  std::vector<std::uint32_t> position_;        // per task, on its lane
  std::deque<std::vector<SimTime>> run_slack_; // of the runs so far, the earliest first
};

Slack::Slack(const TaskGraph& graph, const Timeline& timeline, SimTime most) {
  SlackWalk(graph, timeline, most, *this).walk();
}

} // namespace spillway
