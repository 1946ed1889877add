// The state in which a replay stopped because nothing can run, worked out from the
// tasks at the heads of the lanes alone: all tasks before a head have ended, the
// head and all tasks behind it have not started.
#pragma once

#include "sim/engine/deadlock_report.hpp"
#include "sim/engine/graph_checks.hpp"
#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spillway {

class Standstill {
public:
  Standstill(const TaskGraph& graph, const Machine& machine, std::span<const StuckLane> stuck);

  [[nodiscard]] bool is_left(TaskId task) const { return left_[task] != 0; } // never ended
  [[nodiscard]] std::size_t left_count() const;
  [[nodiscard]] const TaskOrder& order() const { return order_; } // among tasks that are left

  // Tasks that wait for each other, out of each set of such tasks the shortest circle.
  [[nodiscard]] const std::vector<std::vector<Wait>>& circles() const { return circles_; }
  [[nodiscard]] bool is_in_circle(TaskId task) const { return in_circle_[task] != 0; }

  // The fewest waits that lead from a task to a cause: a task in one of these circles, or
  // a head that waits for no task. The first `most` of them.
  [[nodiscard]] std::vector<Wait> way_to_cause(TaskId task, std::size_t most) const;
  // How many waits that takes.
  [[nodiscard]] std::size_t distance_to_cause(TaskId task) const { return distance_[task]; }

  // Who holds bytes of a pool, the most first. Where bytes of an owner have been freed,
  // which task's they were is a guess: a task's own first, then as many as it took at
  // once, then the oldest.
  struct Holder {
    OwnerId owner = 0;
    std::int64_t bytes = 0;
    std::int64_t from_start = 0;
    std::vector<TaskId> tasks; // that took the rest, ascending
  };
  [[nodiscard]] std::vector<Holder> holders(PoolId pool) const;

  // Tasks that are left and give back bytes held now, more than they take themselves;
  // the most first.
  struct Release {
    TaskId task = no_id;
    OwnerId owner = 0;
    std::int64_t bytes = 0;
  };
  [[nodiscard]] std::vector<Release> releases(PoolId pool) const;

  // The least that is held of a pool once all tasks have ended of which `counts` is true
  // (per task) and nobody else has taken anything.
  [[nodiscard]] std::int64_t held_after(PoolId pool, std::span<const char> counts) const;

private:
  [[nodiscard]] std::vector<TaskId> find_causes() const;
  void find_ways(std::vector<TaskId> reached);

  const TaskGraph& graph_;
  const Machine& machine_;
  std::vector<char> left_;
  std::vector<TaskId> head_;            // per lane, no_id = none left
  std::vector<char> lacks_memory_;      // per lane
  std::vector<Wait> next_;              // per task that is left and no cause
  std::vector<std::uint32_t> distance_; // per task that is left: of waits to a cause
  TaskOrder order_;
  std::vector<std::vector<Wait>> circles_;
  std::vector<char> in_circle_; // per task
};

} // namespace spillway
