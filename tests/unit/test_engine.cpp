#include "sim/engine/engine.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr double per_ps = 1e12; // a rate of one unit per picosecond

Machine lanes(std::size_t count) {
  Machine machine;
  for (std::size_t i = 0; i < count; ++i) {
    machine.lanes.push_back({std::string(1, static_cast<char>('a' + i))});
  }
  return machine;
}

Pool pool(PoolMode mode, std::int64_t capacity) {
  return {"host", capacity, mode, {"weights", "buffers"}};
}

RouteId route(TaskGraphBuilder& builder, std::initializer_list<Use> uses) {
  return builder.add_route(std::span<const Use>(uses.begin(), uses.size()));
}

Timeline replay_built(TaskGraphBuilder&& builder, const Machine& machine) {
  return replay(std::move(builder).build(machine), machine);
}

// One field of every task.
template <class Field>
std::vector<Field> each(const Timeline& timeline, Field TaskTimes::*field) {
  std::vector<Field> values;
  for (const TaskTimes& task : timeline.tasks) {
    values.push_back(task.*field);
  }
  return values;
}

std::vector<std::int64_t> ps(const Timeline& timeline, SimTime TaskTimes::*field) {
  std::vector<std::int64_t> counts;
  for (const SimTime time : each(timeline, field)) {
    counts.push_back(time.count());
  }
  return counts;
}

using Counts = std::vector<std::int64_t>;

TEST_CASE("an empty graph takes no time") {
  const Machine machine = lanes(2);
  const Timeline timeline = replay_built(TaskGraphBuilder{}, machine);
  CHECK(timeline.makespan == SimTime{0});
  CHECK(timeline.tasks.empty());
}

TEST_CASE("a lane runs its tasks one after the other in the order of adding") {
  const Machine machine = lanes(1);
  TaskGraphBuilder builder;
  const TaskId first = builder.add_fixed(0, SimTime{5});
  const TaskId second = builder.add_fixed(0, SimTime{7});
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(ps(timeline, &TaskTimes::start) == Counts{0, 5});
  CHECK(ps(timeline, &TaskTimes::end) == Counts{5, 12});
  CHECK(timeline.makespan == SimTime{12});
  CHECK(timeline.tasks[first].cause == Cause::beginning);
  CHECK(timeline.tasks[first].cause_task == no_id);
  CHECK(timeline.tasks[second].cause == Cause::lane);
  CHECK(timeline.tasks[second].cause_task == first);
}

// Task 2 is ready at 3, but its lane is busy until 10. Task 3 finds its lane free
// at 10 + 1 and waits for nothing else.
TEST_CASE("a task that is ready early waits for its lane, and only the head may start") {
  const Machine machine = lanes(2);
  TaskGraphBuilder builder;
  const TaskId quick = builder.add_fixed(0, SimTime{3});
  const TaskId slow = builder.add_fixed(1, SimTime{10});
  const TaskId after = builder.add_fixed(1, SimTime{1});
  const TaskId last = builder.add_fixed(1, SimTime{1});
  builder.depend(after, quick);
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(ps(timeline, &TaskTimes::ready) == Counts{0, 0, 3, 0});
  CHECK(ps(timeline, &TaskTimes::start) == Counts{0, 0, 10, 11});
  CHECK(timeline.tasks[after].cause == Cause::lane);
  CHECK(timeline.tasks[after].cause_task == slow);
  CHECK(timeline.tasks[last].cause_task == after);
}

// All three predecessors end at 4. Among the dependencies the one on the highest
// lane counts; it is on another lane, so it goes before the lane.
TEST_CASE("at equal times a dependency on another lane is the cause before the lane") {
  const Machine machine = lanes(3);
  TaskGraphBuilder builder;
  const TaskId on_a = builder.add_fixed(0, SimTime{4});
  static_cast<void>(builder.add_fixed(1, SimTime{4}));
  const TaskId on_c = builder.add_fixed(2, SimTime{4});
  const TaskId task = builder.add_fixed(1, SimTime{1});
  builder.depend(task, on_c);
  builder.depend(task, on_a);
  const TaskId beside = builder.add_fixed(2, SimTime{1});
  builder.depend(beside, on_c);
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(timeline.tasks[task].cause == Cause::dependency);
  CHECK(timeline.tasks[task].cause_task == on_c);
  CHECK(timeline.tasks[beside].cause == Cause::lane);
  CHECK(timeline.tasks[beside].cause_task == on_c);
}

TEST_CASE("tasks of no duration pass an instant on along a chain") {
  const Machine machine = lanes(3);
  TaskGraphBuilder builder;
  const TaskId first = builder.add_fixed(2, SimTime{6});
  const TaskId second = builder.add_fixed(1, SimTime{0});
  const TaskId third = builder.add_fixed(0, SimTime{0});
  const TaskId fourth = builder.add_fixed(2, SimTime{2});
  builder.depend(second, first);
  builder.depend(third, second);
  builder.depend(fourth, third);
  builder.depend(fourth, third); // twice: harmless
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(ps(timeline, &TaskTimes::start) == Counts{0, 6, 6, 6});
  CHECK(ps(timeline, &TaskTimes::end) == Counts{6, 6, 6, 8});
  CHECK(timeline.tasks[fourth].cause == Cause::dependency);
  CHECK(timeline.tasks[fourth].cause_task == third);
}

// The example of engine.hpp: 1e9 bytes at 10e9 / 2 bytes/s take 0.2 s, alone 0.1 s.
TEST_CASE("two copies over one link take twice as long and know what they lost") {
  Machine machine = lanes(2);
  machine.resources.push_back({"link", 10e9});
  TaskGraphBuilder builder;
  const RouteId link = route(builder, {{0, 1}});
  for (const LaneId lane : {0U, 1U}) {
    static_cast<void>(builder.add_flow(lane, SimTime{0}, 1e9, link));
  }
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(ps(timeline, &TaskTimes::end) == Counts{200'000'000'000, 200'000'000'000});
  CHECK(ps(timeline, &TaskTimes::lost_to_sharing) == Counts{100'000'000'000, 100'000'000'000});
  CHECK(each(timeline, &TaskTimes::bound_by) == std::vector<ResourceId>{0, 0});
}

// Link of 4 units/ps. Flow a (latency 10, work 100) has moved 40 at time 20, when
// flow b (latency 20, work 20) joins; both get 2, b ends at 30, a has 40 left and
// ends at 40. Alone a would end at 35 and b at 25: each lost 5.
TEST_CASE("latency uses nothing, and a rate changes when a flow joins or leaves") {
  Machine machine = lanes(2);
  machine.resources.push_back({"link", 4 * per_ps});
  TaskGraphBuilder builder;
  const RouteId link = route(builder, {{0, 1}});
  static_cast<void>(builder.add_flow(0, SimTime{10}, 100, link));
  static_cast<void>(builder.add_flow(1, SimTime{20}, 20, link));
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(ps(timeline, &TaskTimes::end) == Counts{40, 30});
  CHECK(ps(timeline, &TaskTimes::lost_to_sharing) == Counts{5, 5});
  // a joins, b joins, b leaves; nothing is left to solve when a leaves.
  CHECK(timeline.solver_calls == 3);
}

// Flow a crosses link 0 (4 units/ps) and link 1 (8). With b on link 0 it gets 2
// from 0 to 10; then c and three more flows fill link 1 and a gets 8 / 5 = 1.6 from
// 10 to 60 (80 units). 20 + 80 = 100 units; alone 25 ps, so 35 are lost.
TEST_CASE("the resource that binds a flow for the longest time is named") {
  Machine machine = lanes(6);
  machine.resources.push_back({"link", 4 * per_ps});
  machine.resources.push_back({"memory", 8 * per_ps});
  TaskGraphBuilder builder;
  const RouteId both = route(builder, {{0, 1}, {1, 1}});
  const RouteId link = route(builder, {{0, 1}});
  const RouteId memory = route(builder, {{1, 1}});
  const TaskId a = builder.add_flow(0, SimTime{0}, 100, both);
  const TaskId b = builder.add_flow(1, SimTime{0}, 20, link);
  for (LaneId lane = 2; lane < 6; ++lane) {
    static_cast<void>(builder.add_flow(lane, SimTime{10}, 1000, memory));
  }
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(timeline.tasks[b].end == SimTime{10});
  CHECK(timeline.tasks[a].end == SimTime{60});
  CHECK(timeline.tasks[a].lost_to_sharing == SimTime{35});
  CHECK(timeline.tasks[a].bound_by == 1);
}

// 10 units at 4 units/ps take 2.5 ps, so 3; at the limit of 3 units/ps 3.3, so 4.
TEST_CASE("a flow alone ends at the next whole picosecond and loses nothing") {
  Machine machine = lanes(2);
  machine.resources.push_back({"link", 4 * per_ps});
  machine.resources.push_back({"other link", 4 * per_ps});
  TaskGraphBuilder builder;
  const TaskId full = builder.add_flow(0, SimTime{0}, 10, route(builder, {{0, 1}}));
  const TaskId limited = builder.add_flow(1, SimTime{0}, 10, route(builder, {{1, 1}}), 3 * per_ps);
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(timeline.tasks[full].end == SimTime{3});
  CHECK(timeline.tasks[limited].end == SimTime{4});
  CHECK(ps(timeline, &TaskTimes::lost_to_sharing) == Counts{0, 0});
  CHECK(each(timeline, &TaskTimes::bound_by) == std::vector<ResourceId>{no_id, no_id});
}

TEST_CASE("a flow without work ends after its latency, one without uses runs at its limit") {
  Machine machine = lanes(2);
  machine.resources.push_back({"link", per_ps});
  TaskGraphBuilder builder;
  static_cast<void>(builder.add_flow(0, SimTime{9}, 0, route(builder, {{0, 1}})));
  static_cast<void>(builder.add_flow(1, SimTime{1}, 20, route(builder, {}), 4 * per_ps));
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(ps(timeline, &TaskTimes::end) == Counts{9, 6}); // 1 + 20 / 4
  CHECK(timeline.solver_calls == 0);
}

// Links 0 and 1 share no route, so the flow that joins link 1 must not solve link 0.
TEST_CASE("flows that share nothing are solved apart") {
  Machine machine = lanes(2);
  machine.resources.push_back({"link", per_ps});
  machine.resources.push_back({"other link", per_ps});
  TaskGraphBuilder builder;
  static_cast<void>(builder.add_flow(0, SimTime{0}, 10, route(builder, {{0, 1}})));
  static_cast<void>(builder.add_flow(1, SimTime{3}, 10, route(builder, {{1, 1}})));
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(ps(timeline, &TaskTimes::end) == Counts{10, 13});
  CHECK(timeline.solver_calls == 2);
}

// A resource that a route names twice counts with the sum, 1 + 3, so 8 / 4 = 2.
TEST_CASE("weights of one resource on a route add up") {
  Machine machine = lanes(1);
  machine.resources.push_back({"memory", 8 * per_ps});
  TaskGraphBuilder builder;
  static_cast<void>(builder.add_flow(0, SimTime{0}, 10, route(builder, {{0, 1}, {0, 3}})));
  CHECK(ps(replay_built(std::move(builder), machine), &TaskTimes::end) == Counts{5});
}

// 5 from the start. Task 0 holds 10 from 0 to 4, task 1 20 from 4 to 8 (the free
// comes first, so 25 and not 35). Task 2 reaches 25 again, later.
TEST_CASE("a recording pool counts, frees before it allocates and keeps the first peak") {
  Machine machine = lanes(1);
  machine.pools.push_back(pool(PoolMode::record, 1));
  TaskGraphBuilder builder;
  builder.hold_from_the_start({0, 0, 5});
  for (const std::int64_t bytes : {10, 20, 20}) {
    const TaskId task = builder.add_fixed(0, SimTime{4});
    builder.allocate_at_start(task, {0, 1, bytes});
    builder.free_at_end(task, {0, 1, bytes});
  }
  const Timeline timeline = replay_built(std::move(builder), machine);
  REQUIRE(timeline.peaks.size() == 1);
  CHECK(timeline.peaks[0].bytes == 25);
  CHECK(timeline.peaks[0].time == SimTime{4});
  CHECK(timeline.peaks[0].task == 1);
  CHECK(timeline.peaks[0].owners == Counts{5, 20});
  CHECK(timeline.final_bytes == Counts{5});
}

TEST_CASE("a pool that never grows has its peak at the start") {
  Machine machine = lanes(1);
  machine.pools.push_back(pool(PoolMode::record, 100));
  TaskGraphBuilder builder;
  builder.hold_from_the_start({0, 0, 5});
  builder.free_at_end(builder.add_fixed(0, SimTime{1}), {0, 0, 5});
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(timeline.peaks[0].bytes == 5);
  CHECK(timeline.peaks[0].task == no_id);
  CHECK(timeline.peaks[0].owners == Counts{5, 0});
  CHECK(timeline.final_bytes == Counts{0});
}

// Capacity 10, task a holds 8 until 20. b (6 bytes) waits from 0 on. c (2 bytes)
// becomes ready at 5 and overtakes. At 20 b fits.
TEST_CASE("a task waits for bytes, and a later one that fits overtakes it") {
  Machine machine = lanes(3);
  machine.pools.push_back(pool(PoolMode::stall, 10));
  TaskGraphBuilder builder;
  const TaskId a = builder.add_fixed(0, SimTime{20});
  const TaskId b = builder.add_fixed(1, SimTime{1});
  const TaskId before_c = builder.add_fixed(2, SimTime{5});
  const TaskId c = builder.add_fixed(2, SimTime{1});
  for (const auto& [task, bytes] : {std::pair{a, 8}, std::pair{b, 6}, std::pair{c, 2}}) {
    builder.allocate_at_start(task, {0, 0, bytes});
    builder.free_at_end(task, {0, 0, bytes});
  }
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(ps(timeline, &TaskTimes::start) == Counts{0, 20, 0, 5});
  CHECK(timeline.tasks[b].cause == Cause::memory);
  CHECK(timeline.tasks[b].cause_task == a);
  CHECK(timeline.tasks[b].cause_pool == 0);
  CHECK(timeline.tasks[c].cause == Cause::lane);
  CHECK(timeline.tasks[c].cause_task == before_c);
  CHECK(timeline.tasks[c].cause_pool == no_id);
  CHECK(timeline.peaks[0].bytes == 10);
}

// Capacity 10, all held by c until 9. b waits since 2, a since 4. Only one of them
// fits at 9: b, which waited longer, although a is on the lower lane. a follows.
TEST_CASE("who waited longer gets the memory first") {
  Machine machine = lanes(3);
  machine.pools.push_back(pool(PoolMode::stall, 10));
  TaskGraphBuilder builder;
  static_cast<void>(builder.add_fixed(0, SimTime{4}));
  static_cast<void>(builder.add_fixed(1, SimTime{2}));
  const TaskId a = builder.add_fixed(0, SimTime{3});
  const TaskId b = builder.add_fixed(1, SimTime{3});
  const TaskId c = builder.add_fixed(2, SimTime{9});
  for (const TaskId task : {a, b, c}) {
    builder.allocate_at_start(task, {0, 0, 10});
    builder.free_at_end(task, {0, 0, 10});
  }
  const Timeline timeline = replay_built(std::move(builder), machine);
  CHECK(timeline.tasks[b].start == SimTime{9});
  CHECK(timeline.tasks[a].start == SimTime{12});
  CHECK(timeline.tasks[a].cause_task == b);
}

TEST_CASE("zero bytes never wait") {
  Machine machine = lanes(1);
  machine.pools.push_back(pool(PoolMode::stall, 0));
  TaskGraphBuilder builder;
  const TaskId task = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(task, {0, 0, 0});
  CHECK(replay_built(std::move(builder), machine).makespan == SimTime{1});
}

// 2^62 ps is 4611686018427387904 ps.
TEST_CASE("times beyond 2^62 picoseconds are an overflow, not a wrong number") {
  Machine machine = lanes(1);
  machine.resources.push_back({"link", 1.0});
  TaskGraphBuilder longest;
  static_cast<void>(longest.add_fixed(0, SimTime{std::int64_t{1} << 62}));
  CHECK(replay_built(std::move(longest), machine).makespan == SimTime{std::int64_t{1} << 62});

  TaskGraphBuilder too_long;
  static_cast<void>(too_long.add_fixed(0, SimTime{std::int64_t{1} << 62}));
  static_cast<void>(too_long.add_fixed(0, SimTime{1}));
  CHECK_THROWS_WITH_AS(static_cast<void>(replay_built(std::move(too_long), machine)),
                       "the simulated time exceeds 2^62 ps (53 days)", std::overflow_error);

  TaskGraphBuilder slow;
  static_cast<void>(slow.add_flow(0, SimTime{0}, 1e300, route(slow, {{0, 1}})));
  CHECK_THROWS_WITH_AS(static_cast<void>(replay_built(std::move(slow), machine)),
                       "a flow takes longer than 2^62 ps (53 days)", std::overflow_error);
}

TEST_CASE("freeing more than an owner holds is an internal error") {
  Machine machine = lanes(1);
  machine.pools.push_back(pool(PoolMode::record, 10));
  TaskGraphBuilder builder;
  builder.hold_from_the_start({0, 0, 5});
  builder.free_at_end(builder.add_fixed(0, SimTime{1}), {0, 1, 4});
  CHECK_THROWS_WITH_AS(static_cast<void>(replay_built(std::move(builder), machine)),
                       "4 bytes freed in pool 'host' by 'buffers', which holds 0",
                       std::logic_error);
}

TEST_CASE("a graph for another machine is an internal error") {
  TaskGraphBuilder builder;
  const TaskGraph graph = std::move(builder).build(lanes(2));
  CHECK_THROWS_WITH_AS(static_cast<void>(replay(graph, lanes(3))),
                       "the task graph was built for another machine", std::logic_error);
}

TEST_CASE("successors are ascending and unique, and only unique ones are counted") {
  const Machine machine = lanes(1);
  TaskGraphBuilder builder;
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(builder.add_fixed(0, SimTime{1}));
  }
  builder.depend(3, 0);
  builder.depend(1, 0);
  builder.depend(3, 0);
  builder.depend(3, 2);
  builder.depend(2, no_id);
  const TaskGraph graph = std::move(builder).build(machine);
  const auto successors = [&graph](TaskId task) {
    const std::span<const TaskId> row = graph.successors_of(task);
    return std::vector<TaskId>(row.begin(), row.end());
  };
  CHECK(successors(0) == std::vector<TaskId>{1, 3});
  CHECK(successors(1).empty());
  CHECK(successors(2) == std::vector<TaskId>{3});
  CHECK(graph.dependency_count == std::vector<std::uint32_t>{0, 1, 0, 2});
}

TEST_CASE("the builder refuses what makes no sense") {
  Machine machine = lanes(1);
  machine.resources.push_back({"link", 1.0});
  machine.pools.push_back(pool(PoolMode::record, 10));
  const auto message_of = [&machine](auto&& change) -> std::string {
    TaskGraphBuilder builder;
    change(builder);
    try {
      static_cast<void>(std::move(builder).build(machine));
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message_of([](TaskGraphBuilder& b) { static_cast<void>(b.add_fixed(1, SimTime{1})); }) ==
        "task 0: unknown lane");
  CHECK(message_of([](TaskGraphBuilder& b) { static_cast<void>(b.add_fixed(0, SimTime{-1})); }) ==
        "task 0: negative duration or latency");
  CHECK(message_of([](TaskGraphBuilder& b) {
          static_cast<void>(b.add_flow(0, SimTime{0}, std::numeric_limits<double>::quiet_NaN(),
                                       route(b, {{0, 1}})));
        }) == "task 0: work is negative or not finite");
  CHECK(message_of([](TaskGraphBuilder& b) {
          static_cast<void>(b.add_flow(0, SimTime{0}, 1, route(b, {{0, 1}}), 0));
        }) == "task 0: rate limit is not positive");
  CHECK(message_of([](TaskGraphBuilder& b) {
          static_cast<void>(b.add_flow(0, SimTime{0}, 1, 7));
        }) == "task 0: unknown route");
  CHECK(message_of([](TaskGraphBuilder& b) {
          static_cast<void>(b.add_flow(0, SimTime{0}, 1, route(b, {})));
        }) == "task 0: a flow that uses nothing needs a finite rate limit");
  CHECK(message_of([](TaskGraphBuilder& b) {
          static_cast<void>(route(b, {{1, 1}}));
        }) == "a route uses resource 1 of 1 with weight 1");
  CHECK(message_of([](TaskGraphBuilder& b) { b.depend(b.add_fixed(0, SimTime{1}), 9); }) ==
        "task 0: depends on an unknown task");
  CHECK(message_of([](TaskGraphBuilder& b) {
          const TaskId task = b.add_fixed(0, SimTime{1});
          b.depend(task, task);
        }) == "task 0: depends on itself");
  CHECK(message_of([](TaskGraphBuilder& b) {
          b.allocate_at_start(b.add_fixed(0, SimTime{1}), {0, 2, 1});
        }) == "task 0: unknown pool or owner, or negative bytes");
  CHECK(message_of([](TaskGraphBuilder& b) {
          b.hold_from_the_start({0, 0, -1});
        }) == "held from the start: unknown pool or owner, or negative bytes");
  const auto build_flow_of_weight = [](double weight) {
    return [weight](TaskGraphBuilder& b) {
      static_cast<void>(b.add_flow(0, SimTime{0}, 1, route(b, {{0, weight}})));
    };
  };
  machine.resources[0].capacity = 5e-324;
  CHECK(message_of(build_flow_of_weight(9)) ==
        "resource 'link': weight 9 is too large for capacity 5e-324");
  machine.resources[0].capacity = 1e308;
  CHECK(message_of(build_flow_of_weight(1e-12)) ==
        "resource 'link': weight 1e-12 is too small for capacity 1e+308");
  machine.resources[0].capacity = 0;
  CHECK(message_of([](TaskGraphBuilder&) {}) ==
        "resource 'link': capacity 0 is not positive and finite");
}

// ---- the example of engine.hpp ----

TEST_CASE("the example of the specification runs as its timeline says") {
  constexpr std::int64_t second = 1'000'000'000'000;
  Machine machine = lanes(3);
  machine.resources.push_back({"link", 10.0});
  machine.pools.push_back({"buffers", 2, PoolMode::stall, {"buffer"}});
  TaskGraphBuilder builder;
  const std::vector<Use> over{{0, 1.0}};
  const RouteId link = builder.add_route(over);
  for (int i = 0; i < 3; ++i) {
    const TaskId in = builder.add_flow(0, SimTime{0}, 10, link);
    const TaskId compute = builder.add_fixed(1, SimTime{2 * second});
    const TaskId out = builder.add_flow(2, SimTime{0}, 10, link);
    builder.depend(compute, in);
    builder.depend(out, compute);
    builder.allocate_at_start(in, {0, 0, 1});
    builder.free_at_end(compute, {0, 0, 1});
  }
  const Timeline timeline = replay(std::move(builder).build(machine), machine);
  Counts seconds;
  for (SimTime TaskTimes::*const field : {&TaskTimes::start, &TaskTimes::end}) {
    for (const SimTime time : each(timeline, field)) {
      seconds.push_back(time.count() / second);
      CHECK(time.count() % second == 0);
    }
  }
  // Starts of in 1, c 1, out 1, in 2 and so on; then their ends.
  CHECK(seconds == Counts{0, 1, 3, 1, 3, 5, 3, 5, 7, 1, 3, 5, 2, 5, 6, 5, 7, 8});
  CHECK(ps(timeline, &TaskTimes::lost_to_sharing) == Counts{0, 0, second, 0, 0, 0, second, 0, 0});
  CHECK(each(timeline, &TaskTimes::cause_task) ==
        std::vector<TaskId>{no_id, 0, 1, 0, 1, 4, 1, 6, 7});
  CHECK(timeline.tasks[6].cause == Cause::memory);
  CHECK(timeline.tasks[7].cause == Cause::dependency);
}

} // namespace
} // namespace spillway
