#include "sim/engine/graph_checks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

namespace spillway {
namespace {

Machine lanes(std::size_t count) {
  Machine machine;
  machine.lanes.resize(count, {"lane"});
  machine.resources.push_back({"link", 1e12});
  return machine;
}

// Tasks of one picosecond, by lane, with (task, on) dependencies.
TaskGraph tasks(const std::vector<LaneId>& lane_of,
                const std::vector<std::pair<TaskId, TaskId>>& depend) {
  TaskGraphBuilder builder;
  for (const LaneId lane : lane_of) {
    static_cast<void>(builder.add_fixed(lane, SimTime{1}));
  }
  for (const auto& [task, on] : depend) {
    builder.depend(task, on);
  }
  return std::move(builder).build(lanes(*std::ranges::max_element(lane_of) + 1));
}

using Waits = std::vector<Wait>;

TEST_CASE("tasks are sorted after their dependencies and their lane") {
  const TaskGraph graph = tasks({0, 0, 1, 1}, {{0, 2}, {3, 1}});
  const std::vector<TaskId> sorted = TaskOrder(graph).sorted();
  CHECK(sorted == std::vector<TaskId>{2, 0, 1, 3});
  CHECK(TaskOrder(graph).circles(9).empty());
}

// The example of graph_checks.hpp: A 0, B 1, C 2, D 3.
TEST_CASE("a circle of dependencies and lanes is found with the reason of each step") {
  const TaskGraph graph = tasks({0, 0, 1, 1}, {{0, 3}, {2, 1}});
  const TaskOrder order(graph);
  CHECK(order.sorted().empty());
  REQUIRE(order.circles(9).size() == 1);
  CHECK(order.circles(9)[0] == Waits{{0, 3, false}, {3, 2, true}, {2, 1, false}, {1, 0, true}});
  CHECK(order.circles(0).empty());
}

TEST_CASE("a task that depends on what stands behind it on its lane waits in a circle of two") {
  const TaskGraph graph = tasks({0, 0, 0, 0}, {{1, 3}});
  CHECK(TaskOrder(graph).circles(9).at(0) == Waits{{1, 3, false}, {3, 1, true}});
}

// 0 -> 1 -> 2 -> 3 -> 0 are four dependencies; 2 also depends on 1's other side, so that
// 1 and 2 wait for each other. Tasks 4 and 5 make a second circle.
TEST_CASE("the shortest circle of each knot is found, the shorter knot first") {
  const TaskGraph graph =
      tasks({0, 1, 2, 3, 4, 5}, {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {1, 0}, {4, 5}, {5, 4}});
  const std::vector<Waits> circles = TaskOrder(graph).circles(9);
  REQUIRE(circles.size() == 2);
  CHECK(circles[0] == Waits{{0, 1, false}, {1, 0, false}});
  CHECK(circles[1] == Waits{{4, 5, false}, {5, 4, false}});
}

// A ride past any number of tasks is one wait, so the way over the lane (0 waits for 9,
// which is behind 0) is shorter than the way over three dependencies.
TEST_CASE("riding along a lane counts as one wait") {
  const TaskGraph graph =
      tasks({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2}, {{0, 9}, {0, 10}, {10, 11}, {11, 1}});
  CHECK(TaskOrder(graph).circles(9).at(0) == Waits{{0, 9, false}, {9, 0, true}});
}

TEST_CASE("tasks that take no part are as if they had ended") {
  const TaskGraph graph = tasks({0, 0, 1, 1}, {{0, 3}, {2, 1}});
  const std::vector<char> among{0, 1, 1, 1};
  const TaskOrder order(graph, among);
  CHECK(order.sorted() == std::vector<TaskId>{1, 2, 3});
  CHECK(order.circles(9).empty());
}

TEST_CASE("who waits for a task, and by which way") {
  const TaskGraph graph = tasks({0, 0, 1, 1, 2}, {{2, 1}, {4, 3}});
  const TaskOrder order(graph);
  CHECK(order.waiting_for(1) == std::vector<char>{0, 0, 1, 1, 1});
  CHECK(order.waiting_for(4) == std::vector<char>{0, 0, 0, 0, 0});
  CHECK(order.chain(4, 0) == Waits{{4, 3, false}, {3, 2, true}, {2, 1, false}, {1, 0, true}});
  CHECK(order.chain(0, 4).empty());
  CHECK(order.chain(0, 0).empty());
}

// Lane 0 takes 5 + 7; the flow of 20 units at 1 unit/ps waits for the first 5 and needs 3
// before it moves: 28. Another flow beside it would share, which does not count here.
TEST_CASE("the longest path knows no sharing") {
  const Machine machine = lanes(3);
  TaskGraphBuilder builder;
  const std::vector<Use> uses{{0, 1}};
  const RouteId link = builder.add_route(uses);
  const TaskId first = builder.add_fixed(0, SimTime{5});
  static_cast<void>(builder.add_fixed(0, SimTime{7}));
  builder.depend(builder.add_flow(1, SimTime{3}, 20, link), first);
  static_cast<void>(builder.add_flow(2, SimTime{0}, 20, link));
  CHECK(longest_path(std::move(builder).build(machine), machine) == SimTime{28});
}

TEST_CASE("a longest path that no clock can count is an overflow") {
  const Machine machine = lanes(1);
  const SimTime most{std::int64_t{1} << 62};
  TaskGraphBuilder twice;
  static_cast<void>(twice.add_fixed(0, most));
  static_cast<void>(twice.add_fixed(0, most));
  CHECK_THROWS_WITH_AS(static_cast<void>(longest_path(std::move(twice).build(machine), machine)),
                       "the simulated time exceeds 2^62 ps (53 days)", std::overflow_error);
  TaskGraphBuilder slow;
  const std::vector<Use> uses{{0, 1e200}};
  static_cast<void>(slow.add_flow(0, SimTime{0}, 1e200, slow.add_route(uses)));
  CHECK_THROWS_WITH_AS(static_cast<void>(longest_path(std::move(slow).build(machine), machine)),
                       "a flow takes longer than 2^62 ps (53 days)", std::overflow_error);
}

// A chain of lanes, each task behind one that waits for the next lane, closed at the end.
TEST_CASE("a circle through a hundred thousand tasks is found in a moment") {
  constexpr TaskId count = 100'000;
  std::vector<LaneId> lane_of;
  std::vector<std::pair<TaskId, TaskId>> depend;
  for (TaskId task = 0; task < count; ++task) {
    lane_of.push_back(task / 2);
    if (task % 2 == 0) {
      depend.emplace_back(task, (task + 3) % count);
    }
  }
  const std::vector<Waits> circles = TaskOrder(tasks(lane_of, depend)).circles(9);
  REQUIRE(circles.size() == 1);
  CHECK(circles[0].size() == count);
}

} // namespace
} // namespace spillway
