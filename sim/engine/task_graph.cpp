#include "sim/engine/task_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

namespace spillway {

namespace {

void require(bool holds, std::size_t task, const char* what) {
  if (!holds) {
    throw std::logic_error(fmt::format("task {}: {}", task, what));
  }
}

void require_rows_fit(std::size_t item_count) {
  if (item_count >= no_id) {
    throw std::overflow_error("a task graph has 2^32 rows or more");
  }
}

// Groups `items` by key_of(item) < row_count, keeping their order within a row.
template <class Item, class KeyOf, class ValueOf, class Value>
void counting_sort(const std::vector<Item>& items, std::size_t row_count, KeyOf key_of,
                   ValueOf value_of, std::vector<std::uint32_t>& offset,
                   std::vector<Value>& sorted) {
  require_rows_fit(items.size());
  // Counts are kept one row late, so that filling advances offset[r + 1] from the
  // beginning of row r to its end and leaves the offsets in place.
  offset.assign(row_count + 2, 0);
  for (const Item& item : items) {
    ++offset[key_of(item) + 2];
  }
  std::partial_sum(offset.begin(), offset.end(), offset.begin());
  sorted.resize(items.size());
  for (const Item& item : items) {
    sorted[offset[key_of(item) + 1]++] = value_of(item);
  }
  offset.pop_back();
}

// Sorts each row, drops repeats and closes the gaps.
void make_rows_unique(std::vector<std::uint32_t>& offset, std::vector<TaskId>& successors) {
  std::uint32_t kept = 0;
  std::uint32_t begin = 0;
  for (std::size_t r = 0; r + 1 < offset.size(); ++r) {
    const std::uint32_t end = offset[r + 1];
    if (!std::is_sorted(successors.data() + begin, successors.data() + end)) {
      std::sort(successors.data() + begin, successors.data() + end);
    }
    const std::uint32_t row_begin = kept;
    for (std::uint32_t i = begin; i < end; ++i) {
      if (kept == row_begin || successors[kept - 1] != successors[i]) {
        successors[kept++] = successors[i];
      }
    }
    begin = end;
    offset[r + 1] = kept;
  }
  successors.resize(kept);
}

void sort_rows_by_pool(const std::vector<std::uint32_t>& offset,
                       std::vector<MemoryChange>& changes) {
  const auto before = [](const MemoryChange& a, const MemoryChange& b) {
    return std::tie(a.pool, a.owner, a.bytes) < std::tie(b.pool, b.owner, b.bytes);
  };
  for (std::size_t r = 0; r + 1 < offset.size(); ++r) {
    if (offset[r + 1] - offset[r] > 1) {
      std::sort(changes.data() + offset[r], changes.data() + offset[r + 1], before);
    }
  }
}

void check_machine(const Machine& machine) {
  for (const Resource& resource : machine.resources) {
    if (!(resource.capacity > 0) || !std::isfinite(resource.capacity)) {
      throw std::logic_error(fmt::format("resource '{}': capacity {} is not positive and finite",
                                         resource.name, resource.capacity));
    }
  }
  for (const Pool& pool : machine.pools) {
    if (pool.capacity < 0) {
      throw std::logic_error(
          fmt::format("pool '{}': capacity {} is negative", pool.name, pool.capacity));
    }
  }
}

// A flow at no rate would never end, and one at an infinite rate is bound by nothing.
void check_range(const Resource& resource, double weight) {
  if (const UseRange range = range_of_use(resource.capacity, weight); range != UseRange::sound) {
    throw std::logic_error(
        fmt::format("resource '{}': weight {} is too {} for capacity {}", resource.name, weight,
                    range == UseRange::weight_too_large ? "large" : "small", resource.capacity));
  }
}

[[nodiscard]] bool is_sound(const MemoryChange& change, const Machine& machine) {
  return change.pool < machine.pools.size() &&
         change.owner < machine.pools[change.pool].owners.size() && change.bytes > 0;
}

} // namespace

UseRange range_of_use(double capacity, double weight) {
  constexpr double most_weight = 1e298; // 2^32 times that is 4.3e307
  constexpr double least_rate = 1e-290; // a 2^32th of that is 2.3e-300
  const double rate = capacity / weight;
  if (weight > most_weight || rate < least_rate) {
    return UseRange::weight_too_large;
  }
  return std::isfinite(rate) ? UseRange::sound : UseRange::weight_too_small;
}

std::vector<std::uint32_t> TaskGraph::positions() const {
  std::vector<std::uint32_t> position(task_count());
  for (std::uint32_t at = 0; at < lane_tasks.size(); ++at) {
    position[lane_tasks[at]] = at;
  }
  return position;
}

TaskId TaskGraphBuilder::add_fixed(LaneId lane, SimTime duration) {
  Task& task = tasks_.emplace_back();
  task.fixed_time = duration;
  task.lane = lane;
  return static_cast<TaskId>(tasks_.size() - 1);
}

RouteId TaskGraphBuilder::add_route(std::span<const Use> uses) {
  const auto begin = static_cast<std::ptrdiff_t>(route_uses_.size());
  for (const Use& use : uses) {
    const auto same =
        std::find_if(route_uses_.begin() + begin, route_uses_.end(),
                     [&](const Use& other) { return other.resource == use.resource; });
    if (same == route_uses_.end()) {
      route_uses_.push_back(use);
    } else {
      same->weight += use.weight;
    }
  }
  require_rows_fit(route_uses_.size());
  route_offset_.push_back(static_cast<std::uint32_t>(route_uses_.size()));
  return static_cast<RouteId>(route_offset_.size() - 2);
}

TaskId TaskGraphBuilder::add_flow(LaneId lane, SimTime latency, double work, RouteId route,
                                  double rate_limit) {
  tasks_.push_back({latency, work, rate_limit, route, lane});
  return static_cast<TaskId>(tasks_.size() - 1);
}

void TaskGraphBuilder::depend(TaskId task, TaskId on) {
  if (on != no_id) {
    edges_.push_back({on, task});
  }
}

void TaskGraphBuilder::allocate_at_start(TaskId task, MemoryChange change) {
  if (change.bytes != 0) {
    allocations_.push_back({task, change});
  }
}

void TaskGraphBuilder::free_at_end(TaskId task, MemoryChange change) {
  if (change.bytes != 0) {
    frees_.push_back({task, change});
  }
}

void TaskGraphBuilder::hold_from_the_start(MemoryChange change) {
  if (change.bytes != 0) {
    initial_.push_back(change);
  }
}

void TaskGraphBuilder::check(const Machine& machine) const {
  check_machine(machine);
  require_rows_fit(tasks_.size());
  for (const Use& use : route_uses_) {
    if (use.resource >= machine.resources.size() || !(use.weight > 0) ||
        !std::isfinite(use.weight)) {
      throw std::logic_error(fmt::format("a route uses resource {} of {} with weight {}",
                                         use.resource, machine.resources.size(), use.weight));
    }
    check_range(machine.resources[use.resource], use.weight);
  }
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    const Task& task = tasks_[t];
    require(task.lane < machine.lanes.size(), t, "unknown lane");
    require(task.fixed_time >= SimTime{0}, t, "negative duration or latency");
    require(task.work >= 0 && std::isfinite(task.work), t, "work is negative or not finite");
    require(task.rate_limit > 0, t, "rate limit is not positive");
    if (task.route != no_id) {
      require(task.route + std::size_t{1} < route_offset_.size(), t, "unknown route");
      require(route_offset_[task.route] < route_offset_[task.route + 1] ||
                  std::isfinite(task.rate_limit),
              t, "a flow that uses nothing needs a finite rate limit");
    } else {
      require(task.work == 0, t, "a flow needs a route");
    }
  }
  for (const Edge& edge : edges_) {
    require(edge.from < tasks_.size(), edge.to, "depends on an unknown task");
    require(edge.to < tasks_.size(), edge.to, "unknown task depends on another");
    require(edge.from != edge.to, edge.to, "depends on itself");
  }
  for (const std::vector<TaskMemory>* changes : {&allocations_, &frees_}) {
    for (const TaskMemory& memory : *changes) {
      require(memory.task < tasks_.size(), memory.task, "unknown task changes memory");
      require(is_sound(memory.change, machine), memory.task,
              "unknown pool or owner, or negative bytes");
    }
  }
  for (const MemoryChange& change : initial_) {
    if (!is_sound(change, machine)) {
      throw std::logic_error("held from the start: unknown pool or owner, or negative bytes");
    }
  }
}

std::int64_t asked_of(const TaskGraph& graph, TaskId task, PoolId pool) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t asked = 0;
  for (const MemoryChange& change : graph.allocations_of(task)) {
    if (change.pool == pool) {
      asked = change.bytes > most - asked ? most : asked + change.bytes;
    }
  }
  return asked;
}

TaskGraph TaskGraphBuilder::build(const Machine& machine) && {
  check(machine);
  const std::size_t count = tasks_.size();
  TaskGraph graph;

  counting_sort(
      edges_, count, [](const Edge& edge) { return edge.from; },
      [](const Edge& edge) { return edge.to; }, graph.successor_offset, graph.successors);
  make_rows_unique(graph.successor_offset, graph.successors);
  graph.dependency_count.assign(count, 0);
  for (const TaskId task : graph.successors) {
    ++graph.dependency_count[task];
  }

  const auto task_of = [](const TaskMemory& memory) { return memory.task; };
  const auto change_of = [](const TaskMemory& memory) { return memory.change; };
  counting_sort(allocations_, count, task_of, change_of, graph.allocate_offset, graph.allocations);
  counting_sort(frees_, count, task_of, change_of, graph.free_offset, graph.frees);
  sort_rows_by_pool(graph.allocate_offset, graph.allocations);
  sort_rows_by_pool(graph.free_offset, graph.frees);

  // Task ids in order, so that each lane gets its tasks in the order of adding.
  TaskId next = 0;
  counting_sort(
      tasks_, machine.lanes.size(), [](const Task& task) { return task.lane; },
      [&next](const Task&) { return next++; }, graph.lane_offset, graph.lane_tasks);

  graph.tasks = std::move(tasks_);
  graph.route_offset = std::move(route_offset_);
  graph.route_uses = std::move(route_uses_);
  graph.initial = std::move(initial_);
  return graph;
}

} // namespace spillway
