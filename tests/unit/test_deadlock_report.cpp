// What a deadlock says, word by word. Tasks have no names here; files give them some.
#include "sim/engine/engine.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

Machine machine_of(std::size_t lanes, std::int64_t capacity) {
  Machine machine;
  for (std::size_t i = 0; i < lanes; ++i) {
    machine.lanes.push_back({std::string(1, static_cast<char>('a' + i))});
  }
  machine.pools.push_back({"host", capacity, PoolMode::stall, {"weights", "buffers"}});
  return machine;
}

constexpr MemoryChange weights(std::int64_t bytes) {
  return {0, 0, bytes};
}
constexpr MemoryChange buffers(std::int64_t bytes) {
  return {0, 1, bytes};
}

struct Stop {
  std::string text;
  bool out_of_memory = false;
  std::vector<StuckLane> stuck;
  TaskId at_fault = no_id;
};

Stop stop_of(TaskGraphBuilder&& builder, const Machine& machine) {
  const TaskGraph graph = std::move(builder).build(machine);
  try {
    static_cast<void>(replay(graph, machine));
  } catch (const Deadlock& deadlock) {
    return {deadlock.what(), deadlock.out_of_memory(), deadlock.stuck(), deadlock.at_fault()};
  }
  return {"no deadlock", false, {}, no_id};
}

TEST_CASE("a task that asks for more than the pool says so") {
  const Machine machine = machine_of(2, 10);
  TaskGraphBuilder builder;
  const TaskId big = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(big, weights(5));
  builder.allocate_at_start(big, buffers(6));
  builder.depend(builder.add_fixed(1, SimTime{1}), big);
  const Stop stop = stop_of(std::move(builder), machine);
  CHECK(stop.out_of_memory);
  REQUIRE(stop.stuck.size() == 2);
  REQUIRE(stop.stuck[0].lacks.size() == 1);
  CHECK(stop.stuck[0].lacks[0].pool == 0);
  CHECK(stop.stuck[0].lacks[0].free_bytes == 10);
  CHECK(stop.stuck[1].lacks.empty());
  CHECK(stop.text == "2 of 2 tasks can never start: there is no room in pool 'host'\n"
                     "lane 'a': task 0 asks for 11 B of pool 'host', which has 10 B of 10 B free\n"
                     "  that is more than the whole pool: task 0 never fits\n"
                     "lane 'b': task 1 waits for task 0: dependency\n"
                     "  task 0 waits for room in pool 'host'");
}

// 5000 PB twice are more than 2^63 bytes.
TEST_CASE("a task that asks for more bytes than can be counted asks for at least as many") {
  const Machine machine = machine_of(1, 6'000'000'000'000'000'000);
  TaskGraphBuilder builder;
  const TaskId task = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(task, weights(5'000'000'000'000'000'000));
  builder.allocate_at_start(task, buffers(5'000'000'000'000'000'000));
  CHECK(stop_of(std::move(builder), machine)
            .text.starts_with("1 of 1 task can never start: there is no room in pool 'host'\n"
                              "lane 'a': task 0 asks for at least 9223 PB (9223372036854775807 B) "
                              "of pool 'host', "));
}

// The example of deadlock_report.hpp, with 3 bytes more from the start that task 0 gives
// back: 4 of the 6 bytes of 'buffers' are what is left of task 0's.
TEST_CASE("bytes that nobody frees leave no room, and who took them is said") {
  const Machine machine = machine_of(1, 10);
  TaskGraphBuilder builder;
  builder.hold_from_the_start(weights(3));
  builder.hold_from_the_start(buffers(2));
  const TaskId first = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(first, buffers(5));
  builder.free_at_end(first, buffers(1));
  builder.free_at_end(first, weights(3));
  builder.allocate_at_start(builder.add_fixed(0, SimTime{1}), weights(5));
  const Stop stop = stop_of(std::move(builder), machine);
  CHECK(stop.out_of_memory);
  CHECK(stop.text == "1 of 2 tasks can never start: there is no room in pool 'host'\n"
                     "lane 'a': task 1 asks for 5 B of pool 'host', which has 4 B of 10 B free\n"
                     "  held: 6 B by 'buffers' (from the start and task 0)\n"
                     "  never freed: 6 B, so at most 4 B can ever be free");
}

// Task 1 asks for 6 of 10 bytes; task 0 took 5, which task 2 frees, which waits for task
// 3 and that for task 1.
TEST_CASE("bytes that are freed too late are followed to the task that waits for them") {
  const Machine machine = machine_of(3, 10);
  TaskGraphBuilder builder;
  builder.allocate_at_start(builder.add_fixed(0, SimTime{1}), buffers(5));
  const TaskId asks = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(asks, weights(6));
  const TaskId frees = builder.add_fixed(1, SimTime{1});
  builder.free_at_end(frees, buffers(5));
  const TaskId between = builder.add_fixed(2, SimTime{1});
  builder.depend(frees, between);
  builder.depend(between, asks);
  const Stop stop = stop_of(std::move(builder), machine);
  CHECK(stop.out_of_memory);
  CHECK(stop.text == "3 of 4 tasks can never start: there is no room in pool 'host'\n"
                     "lane 'a': task 1 asks for 6 B of pool 'host', which has 5 B of 10 B free\n"
                     "  held: 5 B by 'buffers' (task 0)\n"
                     "  task 2 frees 5 B of 'buffers' when it ends\n"
                     "    task 2 waits for task 3: dependency\n"
                     "    task 3 waits for task 1: dependency\n"
                     "  so at most 5 B can be free before task 1 starts\n"
                     "lane 'c': task 3 waits for task 1: dependency\n"
                     "  task 1 waits for room in pool 'host'\n"
                     "lane 'b': task 2 waits for task 3: dependency\n"
                     "  task 3 waits, see lane 'c'");
}

TEST_CASE("a task that would free the bytes itself at its end waits for itself") {
  const Machine machine = machine_of(1, 10);
  TaskGraphBuilder builder;
  builder.hold_from_the_start(weights(6));
  const TaskId task = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(task, buffers(5));
  builder.free_at_end(task, weights(6));
  CHECK(stop_of(std::move(builder), machine).text ==
        "1 of 1 task can never start: there is no room in pool 'host'\n"
        "lane 'a': task 0 asks for 5 B of pool 'host', which has 4 B of 10 B free\n"
        "  held: 6 B by 'weights' (from the start)\n"
        "  task 0 frees 6 B of 'weights' when it ends\n"
        "  so at most 4 B can be free before task 0 starts");
}

// Each lane holds half of the pool and frees it behind a task that asks for the other.
TEST_CASE("lanes that starve each other are both explained") {
  const Machine machine = machine_of(2, 2);
  TaskGraphBuilder builder;
  for (const LaneId lane : {0U, 1U}) {
    builder.allocate_at_start(builder.add_fixed(lane, SimTime{1}), {0, lane, 1});
    builder.allocate_at_start(builder.add_fixed(lane, SimTime{1}), {0, lane, 1});
    builder.free_at_end(builder.add_fixed(lane, SimTime{1}), {0, lane, 2});
  }
  const Stop stop = stop_of(std::move(builder), machine);
  CHECK(stop.out_of_memory);
  CHECK(stop.text == "4 of 6 tasks can never start: there is no room in pool 'host'\n"
                     "lane 'a': task 1 asks for 1 B of pool 'host', which has 0 B of 2 B free\n"
                     "  held: 1 B by 'weights' (task 0) and 1 B by 'buffers' (task 3)\n"
                     "  task 5 frees 1 B of 'buffers' when it ends\n"
                     "    task 5 waits for task 4: lane 'b' runs it first\n"
                     "    task 4 waits for room in pool 'host'\n"
                     "lane 'b': task 4 asks for 1 B of pool 'host', which has 0 B of 2 B free\n"
                     "  held: 1 B by 'weights' (task 0) and 1 B by 'buffers' (task 3)\n"
                     "  task 2 frees 1 B of 'weights' when it ends\n"
                     "    task 2 waits for task 1: lane 'a' runs it first\n"
                     "    task 1 waits for room in pool 'host'");
}

// Task 0 waits for task 3, which is behind task 2, which waits for task 1, which is
// behind task 0.
TEST_CASE("lanes that wait for each other are a circle, not out of memory") {
  const Machine machine = machine_of(2, 0);
  TaskGraphBuilder builder;
  for (const LaneId lane : {0U, 0U, 1U, 1U}) {
    static_cast<void>(builder.add_fixed(lane, SimTime{1}));
  }
  builder.depend(0, 3);
  builder.depend(2, 1);
  const Stop stop = stop_of(std::move(builder), machine);
  CHECK_FALSE(stop.out_of_memory);
  CHECK(stop.at_fault == 0);
  CHECK(stop.text == "4 of 4 tasks can never start: they wait for each other in a circle\n"
                     "a circle of 4 waits\n"
                     "  task 0 waits for task 3: dependency\n"
                     "  task 3 waits for task 2: lane 'b' runs it first\n"
                     "  task 2 waits for task 1: dependency\n"
                     "  task 1 waits for task 0: lane 'a' runs it first");
}

// Tasks 1 and 2 of lane b wait for each other. Task 3 asks for bytes that task 4 frees,
// which waits for task 2: a larger pool helps task 3, but not the circle.
TEST_CASE("a circle comes before the pool that it keeps full") {
  const Machine machine = machine_of(4, 10);
  TaskGraphBuilder builder;
  builder.hold_from_the_start(weights(6));
  static_cast<void>(builder.add_fixed(0, SimTime{1}));
  for (const LaneId lane : {1U, 1U, 2U, 3U}) {
    static_cast<void>(builder.add_fixed(lane, SimTime{1}));
  }
  builder.depend(1, 2);
  builder.allocate_at_start(3, buffers(5));
  builder.depend(4, 2);
  builder.free_at_end(4, weights(6));
  const Stop stop = stop_of(std::move(builder), machine);
  CHECK_FALSE(stop.out_of_memory);
  CHECK(stop.text == "4 of 5 tasks can never start: they wait for each other in a circle\n"
                     "a circle of 2 waits\n"
                     "  task 1 waits for task 2: dependency\n"
                     "  task 2 waits for task 1: lane 'b' runs it first\n"
                     "lane 'c': task 3 asks for 5 B of pool 'host', which has 4 B of 10 B free\n"
                     "  held: 6 B by 'weights' (from the start)\n"
                     "  task 4 frees 6 B of 'weights' when it ends\n"
                     "    task 4 waits for task 2: dependency\n"
                     "    task 2 waits in a circle, see above\n"
                     "lane 'd': task 4 waits for task 2: dependency\n"
                     "  task 2 waits in a circle, see above");
}

TEST_CASE("a circle beside a pool that is too small names both") {
  const Machine machine = machine_of(2, 10);
  TaskGraphBuilder builder;
  builder.allocate_at_start(builder.add_fixed(0, SimTime{1}), buffers(11));
  static_cast<void>(builder.add_fixed(1, SimTime{1}));
  static_cast<void>(builder.add_fixed(1, SimTime{1}));
  builder.depend(1, 2);
  const Stop stop = stop_of(std::move(builder), machine);
  CHECK_FALSE(stop.out_of_memory);
  CHECK(stop.text.starts_with("3 of 3 tasks can never start: they wait for each other in a circle "
                              "and there is no room in pool 'host'\n"));
}

// Ten lanes whose tasks ask for too much, of two pools; the last two are not listed.
TEST_CASE("eight lanes are listed, the others counted, and all their pools named") {
  Machine machine = machine_of(10, 1'234'567);
  machine.pools.push_back({"other", 1, PoolMode::stall, {"buffers"}});
  TaskGraphBuilder builder;
  for (LaneId lane = 0; lane < 10; ++lane) {
    const TaskId task = builder.add_fixed(lane, SimTime{1});
    builder.allocate_at_start(task, lane == 9 ? MemoryChange{1, 0, 2} : buffers(2'000'000));
  }
  const std::string text = stop_of(std::move(builder), machine).text;
  CHECK(text.starts_with(
      "10 of 10 tasks can never start: there is no room in pools 'host' and 'other'\n"
      "lane 'a': task 0 asks for 2 MB of pool 'host', which has 1.235 MB "
      "(1234567 B) of 1.235 MB (1234567 B) free\n"));
  CHECK(text.find("lane 'h'") != std::string::npos);
  CHECK(text.find("lane 'i'") == std::string::npos);
  CHECK(text.ends_with("\nand 2 more lanes"));
}

// Pool 'other' holds 4 bytes, 3 of which task 0 frees once it has room in 'host': more room
// there is enough, although task 1 lacks 'other' now.
TEST_CASE("a pool that is short only because of another one is not to blame") {
  Machine machine = machine_of(2, 0);
  machine.pools.push_back({"other", 4, PoolMode::stall, {"old", "new"}});
  TaskGraphBuilder builder;
  builder.hold_from_the_start({1, 0, 4});
  const TaskId frees = builder.add_fixed(0, SimTime{1});
  builder.allocate_at_start(frees, buffers(3));
  builder.free_at_end(frees, {1, 0, 3});
  builder.allocate_at_start(builder.add_fixed(1, SimTime{1}), {1, 1, 3});
  const Stop stop = stop_of(std::move(builder), machine);
  CHECK(stop.at_fault == frees);
  CHECK(stop.text == "2 of 2 tasks can never start: there is no room in pool 'host'\n"
                     "lane 'a': task 0 asks for 3 B of pool 'host', which has 0 B of 0 B free\n"
                     "  that is more than the whole pool: task 0 never fits\n"
                     "lane 'b': task 1 asks for 3 B of pool 'other', which has 0 B of 4 B free\n"
                     "  held: 4 B by 'old' (from the start)\n"
                     "  task 0 frees 3 B of 'old' when it ends\n"
                     "    task 0 waits for room in pool 'host'");
}

TEST_CASE("every pool that a task lacks is explained") {
  Machine machine = machine_of(2, 1);
  machine.pools.push_back({"enough", 2, PoolMode::stall, {"buffers"}});
  machine.pools.push_back({"other", 1, PoolMode::stall, {"buffers"}});
  machine.pools.push_back({"counted", 1, PoolMode::record, {"buffers"}});
  TaskGraphBuilder builder;
  const TaskId task = builder.add_fixed(0, SimTime{1});
  for (PoolId pool = 0; pool < machine.pools.size(); ++pool) {
    builder.allocate_at_start(task, {pool, 0, 2});
  }
  builder.depend(builder.add_fixed(1, SimTime{1}), task);
  CHECK(stop_of(std::move(builder), machine).text ==
        "2 of 2 tasks can never start: there is no room in pools 'host' and 'other'\n"
        "lane 'a': task 0 asks for 2 B of pool 'host', which has 1 B of 1 B free\n"
        "  that is more than the whole pool: task 0 never fits\n"
        "lane 'a': task 0 asks for 2 B of pool 'other', which has 1 B of 1 B free\n"
        "  that is more than the whole pool: task 0 never fits\n"
        "lane 'b': task 1 waits for task 0: dependency\n"
        "  task 0 waits for room in pools 'host' and 'other'");
}

TEST_CASE("a pool that holds more than its capacity has nothing free") {
  const Machine machine = machine_of(1, 1);
  TaskGraphBuilder builder;
  builder.hold_from_the_start(weights(3));
  builder.allocate_at_start(builder.add_fixed(0, SimTime{1}), buffers(1));
  CHECK(stop_of(std::move(builder), machine).text ==
        "1 of 1 task can never start: there is no room in pool 'host'\n"
        "lane 'a': task 0 asks for 1 B of pool 'host', which has 0 B of 1 B free\n"
        "  held: 3 B by 'weights' (from the start)\n"
        "  never freed: 3 B, so at most 0 B can ever be free");
}

// No replay stops so: the builder refuses rates of zero.
TEST_CASE("a task that runs and never ends is a cause, too") {
  const Machine machine = machine_of(2, 0);
  TaskGraphBuilder builder;
  static_cast<void>(builder.add_fixed(1, SimTime{1}));
  static_cast<void>(builder.add_fixed(0, SimTime{1}));
  builder.depend(0, 1);
  const TaskGraph graph = std::move(builder).build(machine);
  const std::vector<StuckLane> stuck{{0, 1, {}}, {1, 0, {}}};
  CHECK_FALSE(describe_deadlock(graph, machine, stuck).out_of_memory);
  CHECK(describe_deadlock(graph, machine, stuck).at_fault == 1);
  CHECK(describe_deadlock(graph, machine, stuck).text ==
        "2 of 2 tasks can never start: others never end\n"
        "lane 'a': task 1 never ends\n"
        "lane 'b': task 0 waits for task 1: dependency\n"
        "  task 1 never ends");
}

// Twenty tasks in a ring, and four rings of two beside it.
TEST_CASE("long circles are shortened and many circles counted") {
  const Machine machine = machine_of(28, 0);
  TaskGraphBuilder builder;
  for (LaneId lane = 0; lane < 28; ++lane) {
    static_cast<void>(builder.add_fixed(lane, SimTime{1}));
  }
  for (TaskId task = 0; task < 20; ++task) {
    builder.depend(task, (task + 1) % 20);
  }
  TaskGraphBuilder many = builder;
  const auto add_pair = [](TaskGraphBuilder& to, TaskId task) {
    to.depend(task, task + 1);
    to.depend(task + 1, task);
  };
  add_pair(builder, 20);
  const std::string two = stop_of(std::move(builder), machine).text;
  CHECK(two.find("in a circle\na circle of 2 waits\n  task 20 waits for task 21: dependency\n") !=
        std::string::npos);
  CHECK(two.find("a circle of 20 waits\n  task 0 waits for task 1: dependency\n") !=
        std::string::npos);
  CHECK(two.ends_with("\n  task 7 waits for task 8: dependency\n"
                      "  ... 11 more waits ...\n"
                      "  task 19 waits for task 0: dependency"));
  for (const TaskId task : {20U, 22U, 24U, 26U}) {
    add_pair(many, task);
  }
  CHECK(stop_of(std::move(many), machine).text.ends_with("\nand 2 more circles"));
}

// Task 1 lacks bytes that task 2 frees. From there it is a line of lanes, each waiting for
// the next, to task 11, which asks for more than the pool.
TEST_CASE("a long way to the cause is cut short") {
  const Machine machine = machine_of(11, 2);
  TaskGraphBuilder builder;
  builder.allocate_at_start(builder.add_fixed(0, SimTime{1}), buffers(1));
  builder.allocate_at_start(builder.add_fixed(0, SimTime{1}), weights(2));
  for (LaneId lane = 1; lane < 11; ++lane) {
    static_cast<void>(builder.add_fixed(lane, SimTime{1}));
  }
  builder.free_at_end(2, buffers(1));
  for (TaskId task = 2; task < 11; ++task) {
    builder.depend(task, task + 1);
  }
  builder.allocate_at_start(11, buffers(3));
  const std::string text = stop_of(std::move(builder), machine).text;
  CHECK(text.find("\n  task 2 frees 1 B of 'buffers' when it ends\n"
                  "    task 2 waits for task 3: dependency\n"
                  "    task 3 waits for task 4: dependency\n"
                  "    task 4 waits for task 5: dependency\n"
                  "    task 5 waits for task 6: dependency\n"
                  "    task 6 waits for task 7: dependency\n"
                  "    task 7 waits for task 8: dependency\n"
                  "    task 8 waits for others in turn\n"
                  "lane 'k': task 11 asks for 3 B") != std::string::npos);
  // The lanes that wait follow, the nearest to the cause first.
  CHECK(text.ends_with("\nlane 'j': task 10 waits for task 11: dependency\n"
                       "  task 11 waits for room in pool 'host'\n"
                       "lane 'i': task 9 waits for task 10: dependency\n"
                       "  task 10 waits, see lane 'j'\n"
                       "lane 'h': task 8 waits for task 9: dependency\n"
                       "  task 9 waits, see lane 'i'\n"
                       "lane 'g': task 7 waits for task 8: dependency\n"
                       "  task 8 waits, see lane 'h'\n"
                       "lane 'f': task 6 waits for task 7: dependency\n"
                       "  task 7 waits, see lane 'g'\n"
                       "lane 'e': task 5 waits for task 6: dependency\n"
                       "  task 6 waits, see lane 'f'\n"
                       "and 3 more lanes"));
}

// Tasks 0, 1 and 2 wait in a circle of three, 3 and 4 in one of two, and both for each
// other: the smaller one is shown. Going by the lowest dependency, lane f never comes there.
TEST_CASE("a lane that waits for a larger circle is led to the one shown") {
  const Machine machine = machine_of(6, 0);
  TaskGraphBuilder builder;
  for (LaneId lane = 0; lane < 6; ++lane) {
    static_cast<void>(builder.add_fixed(lane, SimTime{1}));
  }
  for (const auto& [task, on] :
       {std::pair{0U, 1U}, {1U, 2U}, {2U, 0U}, {3U, 4U}, {4U, 3U}, {2U, 3U}, {3U, 0U}, {5U, 0U}}) {
    builder.depend(task, on);
  }
  CHECK(stop_of(std::move(builder), machine).text ==
        "6 of 6 tasks can never start: they wait for each other in a circle\n"
        "a circle of 2 waits\n"
        "  task 3 waits for task 4: dependency\n"
        "  task 4 waits for task 3: dependency\n"
        "lane 'c': task 2 waits for task 3: dependency\n"
        "  task 3 waits in a circle, see above\n"
        "lane 'b': task 1 waits for task 2: dependency\n"
        "  task 2 waits, see lane 'c'\n"
        "lane 'a': task 0 waits for task 1: dependency\n"
        "  task 1 waits, see lane 'b'\n"
        "lane 'f': task 5 waits for task 0: dependency\n"
        "  task 0 waits, see lane 'a'");
}

// Task 2 depends on task 1, three waits from the pool, and on task 4, which is one from it.
TEST_CASE("the way to the cause is the shortest") {
  const Machine machine = machine_of(5, 0);
  TaskGraphBuilder builder;
  for (LaneId lane = 0; lane < 5; ++lane) {
    static_cast<void>(builder.add_fixed(lane, SimTime{1}));
  }
  builder.allocate_at_start(0, buffers(1));
  for (const auto& [task, on] : {std::pair{4U, 0U}, {3U, 4U}, {1U, 3U}, {2U, 1U}, {2U, 4U}}) {
    builder.depend(task, on);
  }
  const std::string text = stop_of(std::move(builder), machine).text;
  CHECK(text.find("\nlane 'c': task 2 waits for task 4: dependency\n"
                  "  task 4 waits, see lane 'e'\n") != std::string::npos);
}

// Six owners hold bytes, one of them by six tasks; four tasks would free some of them,
// but all behind the one that asks.
TEST_CASE("many holders and many who would free are counted") {
  Machine machine = machine_of(1, 12);
  machine.pools[0].owners = {"a", "b", "c", "d", "e", "f"};
  TaskGraphBuilder builder;
  for (OwnerId owner = 1; owner < 6; ++owner) {
    builder.hold_from_the_start({0, owner, 1});
  }
  for (int i = 0; i < 6; ++i) {
    builder.allocate_at_start(builder.add_fixed(0, SimTime{1}), {0, 0, 1});
  }
  builder.allocate_at_start(builder.add_fixed(0, SimTime{1}), {0, 0, 2});
  for (OwnerId owner = 1; owner < 5; ++owner) {
    builder.free_at_end(builder.add_fixed(0, SimTime{1}), {0, owner, 1});
  }
  CHECK(
      stop_of(std::move(builder), machine).text ==
      "5 of 11 tasks can never start: there is no room in pool 'host'\n"
      "lane 'a': task 6 asks for 2 B of pool 'host', which has 1 B of 12 B free\n"
      "  held: 6 B by 'a' (task 0, task 1, task 2, task 3 and 2 more tasks), 1 B by 'b' (from the "
      "start), 1 B by 'c' (from the start), 1 B by 'd' (from the start) and 2 more\n"
      "  task 7 frees 1 B of 'b' when it ends\n"
      "    task 7 waits for task 6: lane 'a' runs it first\n"
      "  task 8 frees 1 B of 'c' when it ends\n"
      "    task 8 waits for task 6: lane 'a' runs it first\n"
      "  and 2 more would free some\n"
      "  so at most 1 B can be free before task 6 starts");
}

// Forty thousand lots of as many sizes, of each of which another task frees all but a byte:
// a search through all lots for each of them would take seconds.
TEST_CASE("many lots that are freed in pieces are counted in no time") {
  constexpr std::int64_t count = 40'000;
  const Machine machine = machine_of(3, 1'000'000'000'000);
  TaskGraphBuilder builder;
  for (std::int64_t i = 1; i <= count; ++i) {
    const TaskId takes = builder.add_fixed(0, SimTime{1});
    const TaskId frees = builder.add_fixed(1, SimTime{1});
    builder.allocate_at_start(takes, buffers(10 * i));
    builder.free_at_end(frees, buffers(10 * i - 1));
    builder.depend(frees, takes);
  }
  const TaskId asks = builder.add_fixed(2, SimTime{1});
  builder.depend(asks, 2 * count - 1);
  builder.allocate_at_start(asks, weights(1'000'000'000'000));
  const TaskGraph graph = std::move(builder).build(machine);
  const std::vector<StuckLane> stuck{{2, asks, {{0, 1'000'000'000'000 - count}}}};
  const auto start = std::chrono::steady_clock::now();
  const std::string text = describe_deadlock(graph, machine, stuck).text;
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
  CHECK(text.find("\n  held: 40 kB by 'buffers' (task 79998)\n") != std::string::npos);
}

} // namespace
} // namespace spillway
