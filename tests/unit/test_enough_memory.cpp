// With which pools a graph that starved ends, and what is said where none are known.
#include "sim/engine/engine.hpp"
#include "sim/engine/enough_memory.hpp"
#include "sim/engine/memory_ledger.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace spillway {
namespace {

using Capacities = std::vector<std::int64_t>;

// Two lanes, and stalling pools of these capacities with two owners.
Machine machine_of(const Capacities& capacities) {
  Machine machine;
  machine.lanes = {{"a"}, {"b"}};
  for (const std::int64_t capacity : capacities) {
    machine.pools.push_back({"pool", capacity, PoolMode::stall, {"old", "new"}});
  }
  return machine;
}

// What is enough, after a replay with it.
Capacities enough(TaskGraphBuilder&& builder, Machine machine, std::size_t most_tasks = 500'000) {
  const TaskGraph graph = std::move(builder).build(machine);
  Capacities capacities = enough_memory(graph, machine, most_tasks);
  for (PoolId pool = 0; pool < machine.pools.size(); ++pool) {
    machine.pools[pool].capacity = capacities.at(pool);
  }
  CHECK_NOTHROW(static_cast<void>(replay(graph, machine)));
  return capacities;
}

// Task 1 lacks 3 bytes of pool 1, which task 0 frees once it has 3 bytes of pool 0. Both
// pools grow at first.
TEST_CASE("a pool that can do without more is put back") {
  TaskGraphBuilder builder;
  builder.hold_from_the_start({1, 0, 4});
  const TaskId frees = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(frees, {0, 1, 3});
  builder.free_at_end(frees, {1, 0, 3});
  builder.allocate_at_start(builder.add_fixed(1, SimTime{1}), {1, 1, 3});
  TaskGraphBuilder twice = builder;
  CHECK(enough(std::move(builder), machine_of({0, 4})) == Capacities{3, 4});
  // Two replays of two tasks, which count as three, leave nothing to try that with.
  CHECK(enough(std::move(twice), machine_of({0, 4}), 6) == Capacities{3, 7});
}

// Pool 1 only counts, so that its capacity of 1 holds nobody up.
TEST_CASE("a pool that only counts is never enlarged") {
  Machine machine = machine_of({1, 1});
  machine.pools[1].mode = PoolMode::record;
  TaskGraphBuilder builder;
  const TaskId task = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(task, {0, 0, 2});
  builder.allocate_at_start(task, {1, 0, 2});
  TaskGraphBuilder without_search = builder;
  CHECK(enough(std::move(builder), machine) == Capacities{2, 1});
  CHECK(enough(std::move(without_search), machine, 0) == Capacities{2, 1});
}

// With 3 bytes of pool 0 task 1 runs alone and frees the bytes of pool 1 that task 0 has not
// taken yet. With room for both it frees them after that.
TEST_CASE("bytes that are not held yet with a little room are no reason to give up") {
  TaskGraphBuilder builder;
  for (const LaneId lane : {1U, 0U}) {
    const TaskId task = builder.add_fixed(lane, SimTime{lane});
    builder.allocate_at_start(task, {0, 0, 3});
    builder.allocate_at_start(task, {1, 0, 3});
  }
  builder.free_at_end(1, {1, 0, 6});
  CHECK(enough(std::move(builder), machine_of({2, 3})) == Capacities{6, 6});
}

TEST_CASE("where no room helps, the mistake is what a replay with room for all makes") {
  const Machine machine = machine_of({1});
  TaskGraphBuilder frees;
  frees.allocate_at_start(frees.add_fixed(0, SimTime{1}), {0, 0, 2});
  frees.free_at_end(frees.add_fixed(0, SimTime{1}), {0, 0, 3});
  CHECK_THROWS_AS(static_cast<void>(enough_memory(std::move(frees).build(machine), machine)),
                  NotHeld);
  TaskGraphBuilder huge;
  for (const LaneId lane : {0U, 1U}) {
    huge.allocate_at_start(huge.add_fixed(lane, SimTime{1}),
                           {0, 0, std::numeric_limits<std::int64_t>::max()});
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(enough_memory(std::move(huge).build(machine), machine)),
                       "pool 'pool' holds more than 2^63 bytes", std::overflow_error);
  TaskGraphBuilder circle;
  circle.depend(circle.add_fixed(0, SimTime{1}), 1);
  circle.depend(circle.add_fixed(1, SimTime{1}), 0);
  CHECK_THROWS_AS(static_cast<void>(enough_memory(std::move(circle).build(machine), machine)),
                  Deadlock);
}

} // namespace
} // namespace spillway
