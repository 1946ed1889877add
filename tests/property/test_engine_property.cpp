#include "sim/engine/engine.hpp"
#include "sim/engine/enough_memory.hpp"
#include "tests/support/engine_outcome.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/shrink_graph.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway::test {
namespace {

constexpr std::uint64_t case_count = 20'000;

Outcome run(const RandomCase& made) {
  return test::run(made.graph, made.machine);
}

// What must hold whatever the engine does, by the definition of a task graph.
std::string broken_rule(const RandomCase& made, const Timeline& timeline) {
  const TaskGraph& graph = made.graph;
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    if (timeline.tasks[task].start < timeline.tasks[task].ready ||
        timeline.tasks[task].end < timeline.tasks[task].start ||
        timeline.tasks[task].end - timeline.tasks[task].start < graph.tasks[task].fixed_time) {
      return fmt::format("task {} is out of order in itself", task);
    }
    for (const TaskId successor : graph.successors_of(task)) {
      if (timeline.tasks[successor].ready < timeline.tasks[task].end) {
        return fmt::format("task {} is ready before task {} ends", successor, task);
      }
    }
    const TaskId by = timeline.tasks[task].cause_task;
    if (by == no_id ? timeline.tasks[task].start != SimTime{0}
                    : timeline.tasks[task].start != timeline.tasks[by].end) {
      return fmt::format("task {} does not start when its cause ends", task);
    }
  }
  for (LaneId lane = 0; lane < made.machine.lanes.size(); ++lane) {
    const std::span<const TaskId> tasks = graph.tasks_of(lane);
    for (std::size_t i = 1; i < tasks.size(); ++i) {
      if (timeline.tasks[tasks[i]].start < timeline.tasks[tasks[i - 1]].end) {
        return fmt::format("tasks {} and {} overlap", tasks[i - 1], tasks[i]);
      }
    }
  }
  for (PoolId pool = 0; pool < made.machine.pools.size(); ++pool) {
    const Timeline::PoolPeak& peak = timeline.peaks[pool];
    std::int64_t initial = 0;
    for (const MemoryChange& change : graph.initial) {
      initial += change.pool == pool ? change.bytes : 0;
    }
    std::int64_t owners = 0;
    for (const std::int64_t bytes : peak.owners) {
      owners += bytes;
    }
    if (owners != peak.bytes) {
      return fmt::format("the owners of pool {} do not sum to its peak", pool);
    }
    if (made.everything_is_freed && timeline.final_bytes[pool] != initial) {
      return fmt::format("pool {} does not return to its initial bytes", pool);
    }
    if (made.machine.pools[pool].mode == PoolMode::stall &&
        peak.bytes > made.machine.pools[pool].capacity) {
      return fmt::format("pool {} overflows", pool);
    }
  }
  return {};
}

// No order of flows beats every task running alone along the longest path. Sums
// of rounded parts may be a picosecond short for each change of rate.
SimTime longest_path(const RandomCase& made) {
  const TaskGraph& graph = made.graph;
  std::vector<SimTime> earliest(graph.task_count(), SimTime{0});
  std::vector<SimTime> lane_end(made.machine.lanes.size(), SimTime{0});
  SimTime longest{0};
  for (TaskId task = 0; task < graph.task_count(); ++task) { // dependencies come first
    SimTime end =
        std::max(earliest[task], lane_end[graph.tasks[task].lane]) + graph.tasks[task].fixed_time;
    if (graph.tasks[task].work > 0) {
      double rate = graph.tasks[task].rate_limit;
      for (const Use& use : graph.uses_of(graph.tasks[task].route)) {
        rate = std::min(rate, made.machine.resources[use.resource].capacity / use.weight);
      }
      end += SimTime{static_cast<std::int64_t>(std::floor(graph.tasks[task].work / rate * 1e12))};
    }
    lane_end[graph.tasks[task].lane] = end;
    for (const TaskId successor : graph.successors_of(task)) {
      earliest[successor] = std::max(earliest[successor], end);
    }
    longest = std::max(longest, end);
  }
  return longest;
}

// Seconds that the busiest resource needs for everything that crosses it.
double busiest_resource(const RandomCase& made) {
  std::vector<double> amount(made.machine.resources.size(), 0.0);
  for (TaskId task = 0; task < made.graph.task_count(); ++task) {
    if (made.graph.tasks[task].work > 0) {
      for (const Use& use : made.graph.uses_of(made.graph.tasks[task].route)) {
        amount[use.resource] += use.weight * made.graph.tasks[task].work;
      }
    }
  }
  double longest = 0;
  for (std::size_t i = 0; i < amount.size(); ++i) {
    longest = std::max(longest, amount[i] / made.machine.resources[i].capacity);
  }
  return longest;
}

TEST_CASE("the engine does exactly what the naive engine does on random graphs") {
  std::uint64_t deadlocks = 0;
  std::uint64_t waited_for_memory = 0;
  std::uint64_t lost_to_sharing = 0;
  for (std::uint64_t seed = 1; seed <= case_count; ++seed) {
    CAPTURE(seed);
    const RandomCase made = random_case(seed);
    const Outcome outcome = run(made);
    if (difference_to_reference(outcome, made.graph, made.machine) != "") {
      FAIL(shrunk_report(
          seed, named(made),
          [](const NamedGraph& graph) { return engine_difference(graph.graph, graph.machine); },
          SPILLWAY_FAILED_GRAPHS));
    }
    if (!outcome.timeline.has_value()) {
      ++deadlocks;
      continue;
    }
    const auto waited = [](const TaskTimes& task) { return task.cause == Cause::memory; };
    const auto lost = [](const TaskTimes& task) { return task.lost_to_sharing > SimTime{0}; };
    waited_for_memory += std::ranges::any_of(outcome.timeline->tasks, waited) ? 1U : 0U;
    lost_to_sharing += std::ranges::any_of(outcome.timeline->tasks, lost) ? 1U : 0U;
  }
  // The generator must reach the interesting paths, else equality says little.
  CHECK(deadlocks > case_count / 100);
  CHECK(deadlocks < case_count / 2);
  CHECK(waited_for_memory > case_count / 20);
  CHECK(lost_to_sharing > case_count / 4);
}

TEST_CASE("lanes, dependencies and pools are respected on random graphs") {
  for (std::uint64_t seed = 1; seed <= case_count; ++seed) {
    CAPTURE(seed);
    const RandomCase made = random_case(seed);
    const Outcome outcome = run(made);
    if (outcome.timeline.has_value()) {
      REQUIRE(broken_rule(made, *outcome.timeline) == "");
    }
  }
}

TEST_CASE("no makespan is below the longest path or the busiest resource") {
  for (std::uint64_t seed = 1; seed <= case_count; ++seed) {
    CAPTURE(seed);
    const RandomCase made = random_case(seed);
    const Outcome outcome = run(made);
    if (outcome.timeline.has_value()) {
      REQUIRE(outcome.timeline->makespan >= longest_path(made));
      const double seconds = to_seconds(outcome.timeline->makespan).count();
      REQUIRE(seconds >= busiest_resource(made) * (1 - 1e-12));
    }
  }
}

// Both what replays found step by step and what a graph takes when nothing waits.
TEST_CASE("a random graph that starves runs with the pools that are said to be enough") {
  std::size_t starved = 0;
  for (std::uint64_t seed = 1; seed <= case_count; ++seed) {
    CAPTURE(seed);
    const RandomCase made = random_case(seed);
    if (!run(made).out_of_memory) {
      continue;
    }
    ++starved;
    for (const std::size_t most_tasks : {0U, 500'000U}) {
      const auto enough = enough_memory(made.graph, made.machine, most_tasks);
      Machine larger = made.machine;
      for (PoolId pool = 0; pool < larger.pools.size(); ++pool) {
        REQUIRE(enough[pool] >= larger.pools[pool].capacity);
        larger.pools[pool].capacity = enough[pool];
      }
      REQUIRE(test::run(made.graph, larger).timeline.has_value());
    }
  }
  CHECK(starved > case_count / 100);
}

TEST_CASE("a second replay of a random graph gives the same timeline") {
  for (std::uint64_t seed = 1; seed <= case_count; seed += 10) {
    CAPTURE(seed);
    const RandomCase made = random_case(seed);
    const Outcome first = run(made);
    const Outcome second = run(made);
    REQUIRE(first.timeline.has_value() == second.timeline.has_value());
    if (first.timeline.has_value()) {
      REQUIRE(difference_between(*first.timeline, *second.timeline) == "");
      REQUIRE(first.timeline->solver_calls == second.timeline->solver_calls);
    }
  }
}

// The constant was printed by this test; g++ -O0, g++ -O2, clang++ -O3 and the
// sanitizer builds agree on it. It changes when the engine's arithmetic, its order
// of events or the generator changes.
TEST_CASE("all compilers and optimization levels give the same times") {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    const RandomCase made = random_case(seed);
    const Outcome outcome = run(made);
    mix(hash, outcome.timeline.has_value() ? 1 : 0);
    for (TaskId task = 0; outcome.timeline.has_value() && task < made.graph.task_count(); ++task) {
      const TaskTimes& times = outcome.timeline->tasks[task];
      mix(hash, static_cast<std::uint64_t>(times.start.count()));
      mix(hash, static_cast<std::uint64_t>(times.end.count()));
    }
  }
  CHECK(hash == 12789770448990281012U);
}

} // namespace
} // namespace spillway::test
