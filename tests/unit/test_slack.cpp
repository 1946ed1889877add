#include "sim/analysis/explain.hpp"
#include "sim/engine/engine.hpp"
#include "tests/support/slack_list.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

using namespace spillway;

namespace {

// Lanes by number, one pool of `room` bytes that tasks wait for.
struct Bench {
  explicit Bench(std::size_t lanes, std::int64_t room = 100) {
    machine.lanes.resize(lanes);
    machine.pools.push_back({"pool", room, PoolMode::stall, {"owner"}});
  }
  [[nodiscard]] TaskId task(LaneId lane, std::int64_t ps, const std::vector<TaskId>& after = {}) {
    const TaskId added = builder.add_fixed(lane, SimTime{ps});
    for (const TaskId on : after) {
      builder.depend(added, on);
    }
    return added;
  }
  [[nodiscard]] std::vector<std::int64_t> slack() {
    const TaskGraph graph = std::move(builder).build(machine);
    std::vector<std::int64_t> list;
    for (const SimTime time : test::slack_of(graph, replay(graph, machine))) {
      list.push_back(time.count());
    }
    return list;
  }
  Machine machine;
  TaskGraphBuilder builder;
};

using Times = std::vector<std::int64_t>;

} // namespace

// A 0-2, B 2-5, D 2-3, C 5-6: D may end when B does.
TEST_CASE("A task beside the longest path may end when that path needs it") {
  Bench bench(3);
  const TaskId a = bench.task(0, 2);
  const TaskId b = bench.task(1, 3, {a});
  const TaskId d = bench.task(2, 1, {a});
  static_cast<void>(bench.task(0, 1, {b, d}));
  CHECK(bench.slack() == Times{0, 0, 2, 0});
}

// One lane of 10; the other runs 2, then 3, and nothing waits for either. The second may
// end at 10 (slack 5), and so the first at 7 (slack 5): they share the same room.
TEST_CASE("Tasks in a row on a lane share their room") {
  Bench bench(2);
  static_cast<void>(bench.task(0, 10));
  static_cast<void>(bench.task(1, 2));
  static_cast<void>(bench.task(1, 3));
  CHECK(bench.slack() == Times{0, 5, 5});
}

// A 0-4 gives X its start at 4; X takes 6 of the 10. B runs 0-7 and C, behind B on its
// lane, 7-8: C may end at 10, B at 9. Nothing else hangs on them.
TEST_CASE("A lane's order counts like a dependency") {
  Bench bench(3);
  const TaskId a = bench.task(0, 4);
  static_cast<void>(bench.task(1, 6, {a}));
  static_cast<void>(bench.task(2, 7));
  static_cast<void>(bench.task(2, 1));
  CHECK(bench.slack() == Times{0, 0, 2, 2});
}

// The pool holds 10. A (0-5) has 8 of them, so that B, with 4, starts at 5 and ends the
// run at 8. C takes 1 and no memory. Without the memory edge A's slack would be 3.
TEST_CASE("Memory that a task frees ties it to the one that waited for it") {
  Bench bench(3, 10);
  const TaskId a = bench.task(0, 5);
  const TaskId b = bench.task(1, 3);
  static_cast<void>(bench.task(2, 1));
  for (const auto& [task, bytes] : {std::pair{a, 8}, std::pair{b, 4}}) {
    bench.builder.allocate_at_start(task, {0, 0, bytes});
    bench.builder.free_at_end(task, {0, 0, bytes});
  }
  CHECK(bench.slack() == Times{0, 0, 7});
}

// A 0-3 releases the chain N, M of tasks that take no time, added in the other order; C
// 3-7 waits for M. B 0-1 also leads to N: it may end at 3.
TEST_CASE("Tasks that take no time pass the limit on, in whatever order they were added") {
  Bench bench(4);
  const TaskId m = bench.task(2, 0);
  const TaskId n = bench.task(3, 0);
  const TaskId a = bench.task(0, 3);
  const TaskId b = bench.task(1, 1);
  static_cast<void>(bench.task(0, 4, {m}));
  bench.builder.depend(m, n);
  bench.builder.depend(n, a);
  bench.builder.depend(n, b);
  CHECK(bench.slack() == Times{0, 0, 0, 2, 0});
}

// Two flows of 10 units over a link of 10 units a second: 2 s each, both critical. One of
// them then lets a task of 1 s start, so that the other has 1 s of room.
TEST_CASE("Flows count with the time they took beside others") {
  Machine machine;
  machine.lanes.resize(3);
  machine.resources.push_back({"link", 10});
  TaskGraphBuilder builder;
  const RouteId route = builder.add_route(std::vector<Use>{{0, 1.0}});
  const TaskId one = builder.add_flow(0, SimTime{0}, 10, route);
  static_cast<void>(builder.add_flow(1, SimTime{0}, 10, route));
  const TaskId last = builder.add_fixed(2, SimTime{1'000'000'000'000});
  builder.depend(last, one);
  const TaskGraph graph = std::move(builder).build(machine);
  const std::vector<SimTime> slack = test::slack_of(graph, replay(graph, machine));
  CHECK(slack == std::vector<SimTime>{SimTime{0}, SimTime{1'000'000'000'000}, SimTime{0}});
}

TEST_CASE("A graph without tasks has no slack to report") {
  Bench bench(1);
  CHECK(bench.slack().empty());
}
