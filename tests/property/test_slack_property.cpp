// Random graphs. Slack: never negative, none on the critical sequence, and, where every
// task takes a fixed time, exactly what a re-run with a longer task says. Waits: each
// instant of a gap belongs to one task.
#include "sim/analysis/explain.hpp"
#include "sim/analysis/waiting.hpp"
#include "sim/engine/engine.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/slack_list.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway::test {
namespace {

std::optional<Timeline> replay_of(const RandomCase& made) {
  try {
    return replay(made.graph, made.machine);
  } catch (const Deadlock&) {
    return std::nullopt;
  }
}

// The same graph without flows, and nothing waits for memory.
RandomCase only_fixed(RandomCase made) {
  for (Task& task : made.graph.tasks) {
    task.work = 0;
    task.route = no_id;
  }
  for (Pool& pool : made.machine.pools) {
    pool.mode = PoolMode::record;
  }
  return made;
}

SimTime makespan_with(RandomCase made, TaskId longer, SimTime by) {
  made.graph.tasks[longer].fixed_time += by;
  return replay(made.graph, made.machine).makespan;
}

} // namespace

TEST_CASE("Slack is never negative, and zero on the critical sequence") {
  std::uint64_t seen = 0;
  std::uint64_t with_memory_cause = 0;
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    const RandomCase made = random_case(seed);
    const std::optional<Timeline> timeline = replay_of(made);
    if (!timeline) {
      continue;
    }
    ++seen;
    const std::vector<SimTime> slack = slack_of(made.graph, *timeline);
    REQUIRE(slack.size() == made.graph.task_count());
    INFO("seed ", seed);
    CHECK(std::all_of(slack.begin(), slack.end(), [](SimTime s) { return s >= SimTime{0}; }));
    for (const auto& [task, runs] : critical_sequence(made.graph, *timeline)) {
      CHECK(runs == 1);
      CHECK(slack[task] == SimTime{0});
      with_memory_cause += timeline->tasks[task].cause == Cause::memory ? 1U : 0U;
    }
  }
  CHECK(seen > 2'000); // the others are short of memory
  CHECK(with_memory_cause > 100);
}

TEST_CASE("Delayed by its slack a task does not lengthen the run, by 1 ps more it does") {
  std::uint64_t with_room = 0;
  for (std::uint64_t seed = 0; seed < 1'500; ++seed) {
    const RandomCase made = only_fixed(random_case(seed));
    const Timeline timeline = replay(made.graph, made.machine);
    const std::vector<SimTime> slack = slack_of(made.graph, timeline);
    for (TaskId task = 0; task < made.graph.task_count(); ++task) {
      INFO("seed ", seed, ", task ", task);
      with_room += slack[task] > SimTime{0} ? 1U : 0U;
      CHECK(makespan_with(made, task, slack[task]) == timeline.makespan);
      CHECK(makespan_with(made, task, slack[task] + SimTime{1}) == timeline.makespan + SimTime{1});
    }
  }
  CHECK(with_room > 5'000);
}

TEST_CASE("The gaps of a lane are shared out to the tasks it waited for, and nothing else is") {
  std::uint64_t gaps_seen = 0;
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    const RandomCase made = random_case(seed);
    const std::optional<Timeline> timeline = replay_of(made);
    if (!timeline) {
      continue;
    }
    for (LaneId lane = 0; lane < made.machine.lanes.size(); ++lane) {
      INFO("seed ", seed, ", lane ", lane);
      SimTime gaps{0};
      for (const LaneGap& gap : gaps_of(made.graph, *timeline, lane)) {
        gaps += gap.length;
        ++gaps_seen;
      }
      const std::vector<SimTime> waited = waited_for(made.graph, *timeline, lane);
      SimTime sum{0};
      for (TaskId task = 0; task < waited.size(); ++task) {
        sum += waited[task];
        CHECK(waited[task] <= timeline->tasks[task].end - timeline->tasks[task].start);
      }
      CHECK(sum == gaps);
      for (const TaskId own : made.graph.tasks_of(lane)) {
        CHECK(waited[own] == SimTime{0});
      }
    }
  }
  CHECK(gaps_seen > 10'000);
}

} // namespace spillway::test
