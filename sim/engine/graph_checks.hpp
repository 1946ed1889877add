// The order that a task graph prescribes, whatever the machine does: a task comes
// after those that it depends on, and after those before it on its lane.
//
// For questions that are asked once, before or after a replay; nothing here runs
// while the engine does.
//
// Example: lane a holds A, B and lane b holds C, D; A depends on D and C on B. Then
// A waits for D (dependency), D for C (lane b runs C first), C for B (dependency)
// and B for A (lane a runs A first): a circle of four.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace spillway {

// One reason why `task` cannot start before `on` has ended.
struct Wait {
  TaskId task = no_id;
  TaskId on = no_id;
  bool by_lane = false; // their lane runs `on` first, perhaps with others in between

  friend bool operator==(const Wait&, const Wait&) = default;
};

class TaskOrder {
public:
  // `among`: per task, whether it takes part; the others are as if they had ended.
  // With one task of a lane, those behind it take part too.
  TaskOrder(const TaskGraph& graph, std::span<const char> among);
  explicit TaskOrder(const TaskGraph& graph); // all tasks
  TaskOrder(const TaskOrder&) = delete;
  TaskOrder& operator=(const TaskOrder&) = delete;
  ~TaskOrder();

  // Every task after those it waits for; none at all when some wait in a circle.
  [[nodiscard]] std::vector<TaskId> sorted() const;

  // A shortest circle out of each set of tasks that all wait for each other: those
  // with the fewest waits first, at most `most` of them. The waits follow each other
  // (each `on` is the next `task`) and begin with the lowest id. Where sets are huge
  // the search ends early and the circles may not be the shortest.
  [[nodiscard]] std::vector<std::vector<Wait>> circles(std::size_t most) const;

  // Per task: whether it waits for this one, directly or not; the task itself does not.
  [[nodiscard]] std::vector<char> waiting_for(TaskId task) const;

  // The fewest waits that lead from `task` to `on`; empty when it does not wait for it.
  [[nodiscard]] std::vector<Wait> chain(TaskId task, TaskId on) const;

private:
  class Impl;
  std::unique_ptr<const Impl> impl_;
};

// How long a task takes when nothing shares with it. std::overflow_error above 2^62 ps.
[[nodiscard]] SimTime time_alone(const TaskGraph& graph, const Machine& machine, TaskId task);

// How long the tasks take when no flow shares and every pool has room: no replay is
// shorter, but for a picosecond of rounding at each change of a flow's rate. Zero
// when tasks wait in a circle. std::overflow_error above 2^62 ps.
[[nodiscard]] SimTime longest_path(const TaskGraph& graph, const Machine& machine);

} // namespace spillway
