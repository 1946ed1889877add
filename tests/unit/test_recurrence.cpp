#include "sim/engine/engine.hpp"
#include "sim/engine/repeats.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spillway::test {
namespace {

// One lane that runs `length` tasks of 5 ps; each keeps 3 bytes.
struct Chain {
  Machine machine;
  TaskGraph graph;
  std::vector<Loop> loops;
};

Chain chain(std::int64_t length, std::uint64_t left_out, PoolMode mode, std::int64_t capacity) {
  Chain made;
  made.machine.lanes.push_back({"compute"});
  made.machine.pools.push_back({"memory", capacity, mode, {"kept"}});
  TaskGraphBuilder builder;
  Loop loop{{}, {1}, left_out};
  for (std::int64_t i = 0; i < length; ++i) {
    const TaskId task = builder.add_fixed(0, SimTime{5});
    builder.allocate_at_start(task, {0, 0, 3});
    loop.ends.push_back(task);
  }
  made.graph = std::move(builder).build(made.machine);
  made.loops.push_back(std::move(loop));
  return made;
}

Timeline run(const Chain& chain) {
  return replay(chain.graph, chain.machine, chain.loops);
}

std::optional<std::uint64_t> possible_without(const Chain& chain) {
  try {
    static_cast<void>(run(chain));
  } catch (const NoRecurrence& none) {
    CHECK(none.loop() == 0);
    CHECK(none.what() == std::string("the schedule does not repeat"));
    return none.possible();
  }
  return std::nullopt;
}

// The example of recurrence.hpp. The second task starts because its lane is free, the first
// from the beginning: the states after them differ in that alone, so the third end is the
// first one that recurs.
TEST_CASE("A thousand equal tasks are six and a skip") {
  const Timeline timeline = run(chain(6, 994, PoolMode::record, 0));
  CHECK(timeline.makespan == SimTime{5000});
  CHECK(timeline.final_bytes == std::vector<std::int64_t>{3000});
  REQUIRE(timeline.peaks.size() == 1);
  CHECK(timeline.peaks[0].bytes == 3000);
  CHECK(timeline.peaks[0].time == SimTime{4995});
  CHECK(timeline.peaks[0].task == 5);
  REQUIRE(timeline.repeats.size() == 1);
  CHECK(timeline.repeats[0].times == 994);
  CHECK(timeline.repeats[0].period == SimTime{5});
}

TEST_CASE("Tasks of a repeated part count as often as they ran") {
  const Chain made = chain(6, 10, PoolMode::record, 0);
  const Timeline timeline = run(made);
  const RunCounts runs(made.graph, timeline);
  std::int64_t all = 0;
  for (TaskId task = 0; task < 6; ++task) {
    all += runs.of(task);
  }
  CHECK(all == 16);
  const RunCounts once(made.graph, replay(made.graph, made.machine));
  CHECK(once.of(0) == 1);
}

// 16 tasks need 48 bytes: with 48 the last skipped one, the 12th, surely fits.
TEST_CASE("A stalling pool that surely has room is skipped over") {
  const Timeline timeline = run(chain(6, 10, PoolMode::stall, 48));
  CHECK(timeline.final_bytes == std::vector<std::int64_t>{48});
  CHECK(timeline.repeats.size() == 1);
}

// 20 tasks of 3 bytes are too many for 40 bytes: 13 of them fit. As far as the
// skipped ones surely fit, so many may be left out; then the replay would go on and find
// the deadlock itself.
TEST_CASE("Nothing is skipped past the point where a pool could be full") {
  const std::optional<std::uint64_t> possible = possible_without(chain(6, 14, PoolMode::stall, 40));
  REQUIRE(possible.has_value());
  CHECK(*possible > 0);
  CHECK(*possible <= 13);
  Chain shorter = chain(20 - static_cast<std::int64_t>(*possible), *possible, PoolMode::stall, 40);
  CHECK_THROWS_AS(static_cast<void>(run(shorter)), Deadlock);
}

// A task that runs at the end of the window took its bytes before the skip; without another
// one after it nothing would show that the level rose.
TEST_CASE("Too short a rest after the window is not folded") {
  for (std::int64_t length = 2; length <= 6; ++length) {
    CAPTURE(length);
    const Chain made =
        chain(length, static_cast<std::uint64_t>(1000 - length), PoolMode::record, 0);
    try {
      const Timeline timeline = run(made);
      CHECK(timeline.peaks[0].bytes == 3000);
      CHECK(length >= 4);
    } catch (const NoRecurrence&) {
      CHECK(length <= 4);
    }
  }
}

TEST_CASE("A loop whose tasks differ is not folded") {
  Chain made = chain(6, 10, PoolMode::record, 0);
  for (TaskId task = 0; task < 6; ++task) {
    made.graph.tasks[task].fixed_time += SimTime{task * task};
  }
  CHECK(possible_without(made) == std::optional<std::uint64_t>(0));
}

// A period of two: 5 and 7 ps in turn. An odd number of iterations cannot be left out.
TEST_CASE("The period may be two iterations, if it divides what is left out") {
  for (const std::uint64_t left_out : {10U, 11U}) {
    Chain made = chain(8, left_out, PoolMode::record, 0);
    for (TaskId task = 0; task < 8; task += 2) {
      made.graph.tasks[task].fixed_time = SimTime{7};
    }
    if (left_out == 10) {
      CHECK(run(made).makespan == SimTime{9 * 12});
      CHECK(run(made).repeats.at(0).times == 5);
    } else {
      CHECK(possible_without(made) == std::optional<std::uint64_t>(0));
    }
  }
}

TEST_CASE("Loops that could not be skipped are refused") {
  const auto refuses = [](Chain made) {
    CHECK_THROWS_WITH_AS(static_cast<void>(run(made)),
                         "a loop that leaves iterations out needs ends, all on one lane, and its "
                         "tasks by lane",
                         std::logic_error);
  };
  Chain without_ends = chain(6, 10, PoolMode::record, 0);
  without_ends.loops[0].ends.clear();
  refuses(without_ends);
  Chain unknown_end = chain(6, 10, PoolMode::record, 0);
  unknown_end.loops[0].ends.back() = 6;
  refuses(unknown_end);
  Chain other_lanes = chain(6, 10, PoolMode::record, 0);
  other_lanes.loops[0].tasks.push_back(1);
  refuses(other_lanes);
  // Ends on two lanes, of one loop or of two; one that leaves nothing out counts, too.
  Chain two_lanes;
  two_lanes.machine.lanes = {{"a"}, {"b"}};
  TaskGraphBuilder builder;
  static_cast<void>(builder.add_fixed(0, SimTime{5}));
  static_cast<void>(builder.add_fixed(1, SimTime{5}));
  two_lanes.graph = std::move(builder).build(two_lanes.machine);
  two_lanes.loops = {{{0, 1}, {1, 1}, 10}};
  refuses(two_lanes);
  two_lanes.loops = {{{0}, {1, 1}, 10}, {{1}, {1, 1}, 0}};
  refuses(two_lanes);
}

TEST_CASE("Time that would pass 53 days is refused when it is skipped") {
  const Chain made = chain(6, std::uint64_t{1} << 61U, PoolMode::record, 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(run(made)), "the simulated time exceeds 2^62 ps (53 days)",
                       std::overflow_error);
}

TEST_CASE("Bytes that would pass 2^63 are refused when they are skipped") {
  Chain made = chain(6, std::uint64_t{1} << 60U, PoolMode::record, 0);
  for (MemoryChange& change : made.graph.allocations) {
    change.bytes = 1'000;
  }
  for (Task& task : made.graph.tasks) {
    task.fixed_time = SimTime{1};
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(run(made)), "pool 'memory' holds more than 2^63 bytes",
                       std::overflow_error);
}

} // namespace
} // namespace spillway::test
