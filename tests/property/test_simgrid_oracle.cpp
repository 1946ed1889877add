// The engine against SimGrid: other people's simulator, other arithmetic (time in
// doubles, rates by another max-min solver), the same times.
//
// What it covers: fixed tasks, lanes, dependencies, latencies, rate limits and
// max-min sharing with weights in quarters. Arbitrary weights, memory, causes and
// losses to sharing are what the naive engine of this project is compared on.
#include "sim/engine/engine.hpp"
#include "tests/support/oracle_graph.hpp"
#include "tests/support/simgrid_replay.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway::test {
namespace {

constexpr std::uint64_t cases_per_shape = 400;
// SimGrid's time a task grows with what runs side by side.
constexpr std::uint64_t cases_per_simulation = 10;
constexpr double tolerance = 1e-9; // relative; oracle_graph.hpp says why

// Empty when all ends agree.
std::string difference_between(const Timeline& timeline, const std::vector<double>& ends) {
  for (TaskId task = 0; task < ends.size(); ++task) {
    const double ours = to_seconds(timeline.tasks[task].end).count();
    if (!(std::abs(ours - ends[task]) <= tolerance * ours)) {
      return fmt::format("task {} ends at {:.12f} s, in SimGrid at {:.12f} s", task, ours,
                         ends[task]);
    }
  }
  return {};
}

bool anything_lost(const Timeline& timeline) {
  return std::ranges::any_of(
      timeline.tasks, [](const TaskTimes& task) { return task.lost_to_sharing > SimTime{0}; });
}

// The share of the cases in which a flow lost time to others: without sharing the
// comparison would say little.
double check_shape(Shape shape) {
  std::uint64_t shared = 0;
  for (std::uint64_t first = 1; first <= cases_per_shape; first += cases_per_simulation) {
    std::vector<OracleCase> cases;
    for (std::uint64_t seed = first; seed < first + cases_per_simulation; ++seed) {
      cases.push_back(oracle_case(shape, seed));
    }
    std::vector<SimgridCase> told;
    for (const OracleCase& made : cases) {
      told.push_back({&made.graph, &made.machine});
    }
    CAPTURE(first); // of the seeds, should SimGrid itself fail
    const SimgridResult simgrid = simgrid_replay(told);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::uint64_t seed = first + i;
      CAPTURE(seed);
      const Timeline timeline = replay(cases[i].graph, cases[i].machine);
      REQUIRE(difference_between(timeline, simgrid.ends[i]) == "");
      shared += anything_lost(timeline) ? 1U : 0U;
    }
  }
  return static_cast<double>(shared) / static_cast<double>(cases_per_shape);
}

TEST_CASE("SimGrid: chains end when the engine says") {
  CHECK(check_shape(Shape::chain) > 0.5);
}

TEST_CASE("SimGrid: fans end when the engine says") {
  CHECK(check_shape(Shape::fan) > 0.75);
}

TEST_CASE("SimGrid: diamonds end when the engine says") {
  CHECK(check_shape(Shape::diamond) > 0.75);
}

TEST_CASE("SimGrid: many small domains end when the engine says") {
  CHECK(check_shape(Shape::many_domains) > 0.75);
}

TEST_CASE("SimGrid: one big domain ends when the engine says") {
  CHECK(check_shape(Shape::one_domain) > 0.75);
}

TEST_CASE("SimGrid: tasks without time or work end when the engine says") {
  CHECK(check_shape(Shape::zero_size) > 0.5);
}

TEST_CASE("SimGrid: tasks that end together do so when the engine says") {
  CHECK(check_shape(Shape::equal_ends) > 0.75);
}

TEST_CASE("SimGrid: the graphs of the naive engine end when the engine says") {
  CHECK(check_shape(Shape::any) > 0.25);
}

} // namespace
} // namespace spillway::test
