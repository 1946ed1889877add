// Tasks, their dependencies and their memory, as flat arrays.
//
// A task belongs to one lane and lanes run their tasks in the order in which
// they were added. A task starts when (a) it is at the head of its lane, (b) all
// tasks it depends on have ended and (c) its bytes fit in every stalling pool.
// A fixed task then runs for its duration. A flow first spends its latency
// without using anything, then moves `work` units along its route at the rate
// that sharing gives it (fair_share.hpp), never above its rate limit.
#pragma once

#include "sim/base/units.hpp"
#include "sim/engine/machine.hpp"

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace spillway {

// One unit of flow per second uses `weight` units per second of the resource.
struct Use {
  ResourceId resource = no_id;
  double weight = 1; // > 0
};

// Where doubles end although capacity and weight are sound: up to 2^32 flows of this
// weight must neither sum up to infinity nor be left with a rate of zero, and one alone
// must not be infinitely fast.
enum class UseRange { sound, weight_too_large, weight_too_small };
[[nodiscard]] UseRange range_of_use(double capacity, double weight);

struct MemoryChange {
  PoolId pool = 0;
  OwnerId owner = 0;
  std::int64_t bytes = 0; // > 0
};

struct Task {
  SimTime fixed_time{0}; // duration of a fixed task, latency of a flow
  double work = 0;       // units to move; 0 for fixed tasks
  double rate_limit = std::numeric_limits<double>::infinity(); // units per second
  RouteId route = no_id;                                       // no_id for fixed tasks
  LaneId lane = no_id;

  friend bool operator==(const Task&, const Task&) = default;
};

// Frozen; made by TaskGraphBuilder::build.
class TaskGraph {
public:
  [[nodiscard]] std::size_t task_count() const { return tasks.size(); }

  // Per task.
  std::vector<Task> tasks;
  std::vector<std::uint32_t> dependency_count;

  // Compressed rows: the row of task t is [offset[t], offset[t + 1]). Memory rows
  // ascend by (pool, owner).
  std::vector<std::uint32_t> successor_offset;
  std::vector<TaskId> successors; // ascending within a row, no duplicates
  std::vector<std::uint32_t> allocate_offset;
  std::vector<MemoryChange> allocations; // at start
  std::vector<std::uint32_t> free_offset;
  std::vector<MemoryChange> frees; // at end

  // Per lane: its tasks in order.
  std::vector<std::uint32_t> lane_offset;
  std::vector<TaskId> lane_tasks;

  std::vector<std::uint32_t> route_offset;
  std::vector<Use> route_uses;
  std::vector<MemoryChange> initial; // held before time zero

  [[nodiscard]] std::span<const TaskId> successors_of(TaskId task) const {
    return row(successor_offset, successors, task);
  }
  [[nodiscard]] std::span<const TaskId> tasks_of(LaneId lane_id) const {
    return row(lane_offset, lane_tasks, lane_id);
  }
  [[nodiscard]] std::span<const Use> uses_of(RouteId route_id) const {
    return row(route_offset, route_uses, route_id);
  }
  [[nodiscard]] std::span<const MemoryChange> allocations_of(TaskId task) const {
    return row(allocate_offset, allocations, task);
  }
  [[nodiscard]] std::span<const MemoryChange> frees_of(TaskId task) const {
    return row(free_offset, frees, task);
  }
  // By task: where it stands in lane_tasks.
  [[nodiscard]] std::vector<std::uint32_t> positions() const;

private:
  template <class Item>
  [[nodiscard]] static std::span<const Item> row(const std::vector<std::uint32_t>& offset,
                                                 const std::vector<Item>& items,
                                                 std::size_t index) {
    return {items.data() + offset[index], items.data() + offset[index + 1]};
  }
};

// How many bytes a task takes of a pool when it starts; 2^63 - 1 where it is more.
[[nodiscard]] std::int64_t asked_of(const TaskGraph& graph, TaskId task, PoolId pool);

class TaskGraphBuilder {
public:
  [[nodiscard]] TaskId add_fixed(LaneId lane, SimTime duration);
  // Weights of a resource that is named twice add up.
  [[nodiscard]] RouteId add_route(std::span<const Use> uses);
  [[nodiscard]] TaskId add_flow(LaneId lane, SimTime latency, double work, RouteId route,
                                double rate_limit = std::numeric_limits<double>::infinity());
  void depend(TaskId task, TaskId on); // duplicates are harmless; on == no_id is ignored
  void allocate_at_start(TaskId task, MemoryChange change); // zero bytes are ignored
  void free_at_end(TaskId task, MemoryChange change);
  void hold_from_the_start(MemoryChange change);
  [[nodiscard]] std::size_t task_count() const { return tasks_.size(); }
  [[nodiscard]] LaneId lane_of(TaskId task) const { return tasks_[task].lane; }

  // Checks ids, signs and finiteness (std::logic_error: the graph comes from our
  // own code) and freezes. `machine` supplies the counts.
  [[nodiscard]] TaskGraph build(const Machine& machine) &&;

private:
  void check(const Machine& machine) const;

  struct Edge {
    TaskId from;
    TaskId to;
  };
  struct TaskMemory {
    TaskId task;
    MemoryChange change;
  };
  std::vector<Task> tasks_;
  std::vector<Edge> edges_;
  std::vector<TaskMemory> allocations_;
  std::vector<TaskMemory> frees_;
  std::vector<MemoryChange> initial_;
  std::vector<std::uint32_t> route_offset_{0};
  std::vector<Use> route_uses_;
};

} // namespace spillway
