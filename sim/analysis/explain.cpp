#include "sim/analysis/explain.hpp"

#include "sim/engine/repeats.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace spillway {
namespace {

// Walks from a task to its cause and so on back to the beginning. Inside a repeated part
// it counts which run of the part it is in: run `times` is the last, 0 the first, the one
// that the timeline shows. Where two runs are entered at the same task, all earlier ones
// are walked through alike and only counted.
class BackwardWalk {
public:
  BackwardWalk(const TaskGraph& graph, const Timeline& timeline)
      : graph_(graph), timeline_(timeline), inside_(timeline.repeats.size()) {
    if (timeline.repeats.empty()) {
      return;
    }
    position_ = graph.positions();
  }

  [[nodiscard]] std::vector<CriticalTask> from(TaskId task) {
    enter(task);
    while (task != no_id) {
      sequence_.push_back({task, 1});
      task = step(task);
    }
    std::reverse(sequence_.begin(), sequence_.end());
    return std::move(sequence_);
  }

private:
  struct Inside {
    std::uint64_t run = 0;
    TaskId entered_at = no_id;       // the last time, from the run after it
    std::size_t sequence_length = 0; // then
  };

  [[nodiscard]] bool holds(const Repeat& repeat, TaskId task) const {
    return repeat.holds(graph_.tasks[task].lane, position_[task]);
  }

  // Inner parts come first: they end before those around them.
  [[nodiscard]] TaskId step(TaskId task) {
    TaskId cause = timeline_.tasks[task].cause_task;
    if (cause == no_id) {
      return no_id;
    }
    std::size_t left = 0; // parts before this one are in another run of a part around them
    for (std::size_t r = 0; r < inside_.size(); ++r) {
      const Repeat& repeat = timeline_.repeats[r];
      if (inside_[r].run > 0 && holds(repeat, task) && !holds(repeat, cause)) {
        cause = run_before(r, cause);
        left = r;
      }
    }
    for (std::size_t r = 0; r < inside_.size(); ++r) {
      const Repeat& repeat = timeline_.repeats[r];
      if (holds(repeat, cause) && (r < left || !holds(repeat, task))) {
        inside_[r] = {repeat.times, no_id, 0};
      }
    }
    return cause;
  }

  // Before the first task there is nothing: the last run of all parts that hold it.
  void enter(TaskId task) {
    for (std::size_t r = 0; r < timeline_.repeats.size() && task != no_id; ++r) {
      if (holds(timeline_.repeats[r], task)) {
        inside_[r] = {timeline_.repeats[r].times, no_id, 0};
      }
    }
  }

  // A task before the part, as the cause of one in a run that is not the first, stands for
  // its image in an earlier run.
  [[nodiscard]] TaskId run_before(std::size_t r, TaskId task) {
    const Repeat& repeat = timeline_.repeats[r];
    Inside& inside = inside_[r];
    const LaneId lane = graph_.tasks[task].lane;
    while (inside.run > 0 && !holds(repeat, task)) {
      task = graph_.lane_tasks[position_[task] + repeat.end[lane] - repeat.begin[lane]];
      --inside.run;
    }
    if (inside.entered_at == task && inside.run > 0) {
      for (std::size_t i = inside.sequence_length; i < sequence_.size(); ++i) {
        sequence_[i].runs *= 1 + static_cast<std::int64_t>(inside.run);
      }
      inside.run = 0;
    }
    inside.entered_at = task;
    inside.sequence_length = sequence_.size();
    return task;
  }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<std::uint32_t> position_; // per task, on its lane
  std::vector<Inside> inside_;          // by repeat
  std::vector<CriticalTask> sequence_;  // last task first
};

} // namespace

std::vector<CriticalTask> critical_sequence(const TaskGraph& graph, const Timeline& timeline) {
  TaskId last = no_id;
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    // Of several, the last one of the lowest lane: symmetric ranks end together, and the
    // first one is the one that reports are about.
    if (timeline.tasks[task].end == timeline.makespan &&
        (last == no_id || graph.tasks[task].lane <= graph.tasks[last].lane)) {
      last = task;
    }
  }
  return BackwardWalk(graph, timeline).from(last);
}

std::vector<LaneGap> gaps_of(const TaskGraph& graph, const Timeline& timeline, LaneId lane) {
  const RunCounts runs(graph, timeline);
  std::vector<LaneGap> gaps;
  SimTime free{0};
  std::uint32_t position = graph.lane_offset[lane];
  for (const TaskId task : graph.tasks_of(lane)) {
    free += time_skipped_at(timeline, lane, position++);
    if (timeline.tasks[task].start > free) {
      gaps.push_back({task, timeline.tasks[task].start - free, runs.of(task)});
    }
    free = timeline.tasks[task].end;
  }
  return gaps;
}

} // namespace spillway
