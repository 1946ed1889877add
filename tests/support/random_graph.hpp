// Small random machines and task graphs, the same on every platform for a seed.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"
#include "sim/graph_file/named_graph.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace spillway::test {

// SplitMix64; std::uniform_int_distribution differs between standard libraries.
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
  }
  // In [low, high]; the bias of the remainder does not matter here.
  [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) {
    const auto range = static_cast<std::uint64_t>(high - low + 1);
    return low + static_cast<std::int64_t>(bits() % range);
  }
  [[nodiscard]] std::uint32_t below(std::size_t count) {
    return static_cast<std::uint32_t>(bits() % count);
  }
  [[nodiscard]] double real(double low, double high) {
    return low + (high - low) * (static_cast<double>(bits() >> 11U) * 0x1p-53);
  }
  [[nodiscard]] bool one_in(std::int64_t n) { return integer(1, n) == 1; }

private:
  std::uint64_t state_;
};

struct RandomCase {
  Machine machine;
  TaskGraph graph;
  bool everything_is_freed = true; // each allocation has its free; initial bytes have none
};

class RandomCaseMaker {
public:
  explicit RandomCaseMaker(std::uint64_t seed) : random_(seed) {
    // Three kinds of numbers: a few picoseconds per task, so that many things
    // happen at one instant; microseconds in round numbers; and arbitrary reals.
    kind_ = random_.integer(0, 2);
  }

  [[nodiscard]] RandomCase make() {
    make_machine();
    make_routes();
    const std::int64_t count = random_.integer(1, 40);
    for (std::int64_t i = 0; i < count; ++i) {
      add_task();
    }
    add_memory();
    RandomCase made;
    made.machine = machine_;
    made.everything_is_freed = everything_is_freed_;
    made.graph = std::move(builder_).build(machine_);
    return made;
  }

private:
  void make_machine() {
    for (std::int64_t i = random_.integer(1, 6); i > 0; --i) {
      machine_.lanes.push_back({"lane " + std::to_string(machine_.lanes.size())});
    }
    for (std::int64_t i = random_.integer(1, 4); i > 0; --i) {
      const double capacity =
          kind_ == 2 ? random_.real(1e9, 1e11) : 1e12 * static_cast<double>(random_.integer(1, 8));
      machine_.resources.push_back(
          {"resource " + std::to_string(machine_.resources.size()), capacity});
    }
    for (std::int64_t i = random_.integer(0, 3); i > 0; --i) {
      Pool pool;
      pool.name = "pool " + std::to_string(machine_.pools.size());
      pool.capacity = random_.integer(14, 30);
      pool.mode = random_.one_in(3) ? PoolMode::record : PoolMode::stall;
      for (std::int64_t owner = random_.integer(1, 3); owner > 0; --owner) {
        pool.owners.push_back("owner " + std::to_string(pool.owners.size()));
      }
      machine_.pools.push_back(pool);
    }
  }

  void make_routes() {
    for (std::int64_t i = random_.integer(1, 5); i > 0; --i) {
      std::vector<Use> uses;
      for (ResourceId resource = 0; resource < machine_.resources.size(); ++resource) {
        if (random_.one_in(2)) {
          uses.push_back({resource, kind_ == 2 ? random_.real(0.1, 4.0)
                                               : 0.5 * static_cast<double>(random_.integer(1, 6))});
        }
      }
      routes_.push_back(builder_.add_route(uses));
      route_is_empty_.push_back(uses.empty());
    }
  }

  void add_task() {
    const std::uint32_t lane = random_.below(machine_.lanes.size());
    const SimTime scale{kind_ == 0 ? 1 : 1'000'000};
    TaskId task = 0;
    if (random_.one_in(2)) {
      task = builder_.add_fixed(lane, scale * random_.integer(0, 12));
    } else {
      const std::uint32_t route = random_.below(routes_.size());
      const double amount = kind_ == 2
                                ? random_.real(0, 2e5)
                                : static_cast<double>(scale.count() * random_.integer(0, 30));
      const bool limited = route_is_empty_[route] || random_.one_in(3);
      const double limit = !limited     ? std::numeric_limits<double>::infinity()
                           : kind_ == 2 ? random_.real(1e8, 1e11)
                                        : 5e11 * static_cast<double>(random_.integer(1, 6));
      task = builder_.add_flow(lane, scale * random_.integer(0, 3), amount, routes_[route], limit);
    }
    for (std::int64_t i = random_.integer(0, 3); i > 0 && task > 0; --i) {
      builder_.depend(task, random_.below(task));
    }
  }

  void add_memory() {
    if (machine_.pools.empty()) {
      return;
    }
    for (PoolId pool = 0; pool < machine_.pools.size(); ++pool) {
      if (random_.one_in(3)) {
        const MemoryChange held{pool, 0, random_.integer(1, 5)};
        builder_.hold_from_the_start(held);
        if (random_.one_in(3)) {
          builder_.free_at_end(random_.below(builder_.task_count()), held);
          everything_is_freed_ = false;
        }
      }
    }
    for (TaskId task = 0; task < builder_.task_count(); ++task) {
      for (std::int64_t i = random_.integer(0, 2); i > 0; --i) {
        const PoolId pool = random_.below(machine_.pools.size());
        const MemoryChange change{pool, random_.below(machine_.pools[pool].owners.size()),
                                  random_.integer(1, 14)};
        builder_.allocate_at_start(task, change);
        free_later(task, change);
      }
    }
  }

  // At the end of the task itself or of a later one, rarely never.
  void free_later(TaskId task, MemoryChange change) {
    if (random_.one_in(100)) {
      everything_is_freed_ = false;
      return;
    }
    TaskId at = task;
    if (random_.one_in(6)) {
      at += random_.below(std::min<std::size_t>(builder_.task_count() - task, 4));
    }
    builder_.free_at_end(at, change);
    builder_.depend(at, at == task ? no_id : task);
  }

  Random random_;
  std::int64_t kind_ = 0;
  Machine machine_;
  TaskGraphBuilder builder_;
  std::vector<RouteId> routes_;
  std::vector<bool> route_is_empty_;
  bool everything_is_freed_ = true;
};

[[nodiscard]] inline RandomCase random_case(std::uint64_t seed) {
  return RandomCaseMaker(seed).make();
}

[[nodiscard]] inline NamedGraph named(const RandomCase& made) {
  NamedGraph graph{made.machine, made.graph, {}};
  for (TaskId task = 0; task < made.graph.task_count(); ++task) {
    graph.task_names.push_back("task " + std::to_string(task));
  }
  return graph;
}

} // namespace spillway::test
