// What a timeline must obey whatever engine made it: flows move their work and no more,
// resources and pools are never overdrawn, and threads do not disturb each other. All of
// it is worked out from the starts and ends alone.
#include "tests/support/engine_outcome.hpp"
#include "tests/support/random_graph.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace spillway::test {
namespace {

constexpr std::uint64_t case_count = 10'000;

// ---- Flows ----

struct Moved {
  double units = 0;
  double highest_rate = 0;
};

struct Integral {
  std::vector<Moved> moved; // per task
  double fullest = 0;       // of any resource at any time, as a share of its capacity
};

// The flows that are past their latency, by lane.
std::vector<TaskId> flows_between(const TaskGraph& graph, const Timeline& timeline, SimTime from,
                                  SimTime to) {
  std::vector<TaskId> flows;
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    if (graph.tasks[task].work > 0 &&
        timeline.tasks[task].start + graph.tasks[task].fixed_time <= from &&
        timeline.tasks[task].end >= to) {
      flows.push_back(task);
    }
  }
  std::ranges::sort(flows, {}, [&](TaskId task) { return graph.tasks[task].lane; });
  return flows;
}

void integrate_between(const RandomCase& made, const Timeline& timeline, SimTime from, SimTime to,
                       Integral& integral) {
  const TaskGraph& graph = made.graph;
  const std::vector<TaskId> tasks = flows_between(graph, timeline, from, to);
  std::vector<NaiveFlow> flows;
  for (const TaskId task : tasks) {
    flows.push_back(
        {graph.uses_of(graph.tasks[task].route), graph.tasks[task].rate_limit, 0, no_id});
  }
  naive_max_min(flows, made.machine.resources);
  std::vector<double> used(made.machine.resources.size(), 0.0);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    Moved& moved = integral.moved[tasks[i]];
    moved.units += flows[i].rate * to_seconds(to - from).count();
    moved.highest_rate = std::max(moved.highest_rate, flows[i].rate);
    for (const Use& use : flows[i].uses) {
      used[use.resource] += use.weight * flows[i].rate;
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    integral.fullest = std::max(integral.fullest, used[i] / made.machine.resources[i].capacity);
  }
}

// Fair rates of the flows that run, from one start or end to the next.
Integral integrate(const RandomCase& made, const Timeline& timeline) {
  std::set<SimTime> instants;
  for (TaskId task = 0; task < made.graph.task_count(); ++task) {
    instants.insert(timeline.tasks[task].start + made.graph.tasks[task].fixed_time);
    instants.insert(timeline.tasks[task].end);
  }
  Integral integral{std::vector<Moved>(made.graph.task_count()), 0};
  for (auto to = instants.begin(); to != instants.end(); ++to) {
    if (to != instants.begin()) {
      integrate_between(made, timeline, *std::prev(to), *to, integral);
    }
  }
  return integral;
}

// A flow ends at the first whole picosecond at which all has been moved.
TEST_CASE("what a flow moves at fair rates between its start and end is its work") {
  for (std::uint64_t seed = 1; seed <= case_count; ++seed) {
    CAPTURE(seed);
    const RandomCase made = random_case(seed);
    const Outcome outcome = run(made.graph, made.machine);
    if (!outcome.timeline.has_value()) {
      continue;
    }
    const Integral integral = integrate(made, *outcome.timeline);
    REQUIRE(integral.fullest <= 1 + 1e-12);
    for (TaskId task = 0; task < made.graph.task_count(); ++task) {
      CAPTURE(task);
      const double work = made.graph.tasks[task].work;
      const Moved& moved = integral.moved[task];
      REQUIRE(moved.units >= work * (1 - 1e-9));
      REQUIRE(moved.units <= work * (1 + 1e-9) + moved.highest_rate * 1e-12);
    }
  }
}

// ---- Pools ----

struct Level {
  std::vector<std::int64_t> owners;
  [[nodiscard]] std::int64_t sum() const {
    std::int64_t bytes = 0;
    for (const std::int64_t owner : owners) {
      bytes += owner;
    }
    return bytes;
  }
};

// Bytes by owner once everything that happens at an instant has happened, by instant.
std::map<SimTime, Level> levels_of(const RandomCase& made, const Timeline& timeline, PoolId pool) {
  std::map<SimTime, Level> changes;
  const std::size_t owners = made.machine.pools[pool].owners.size();
  const auto add = [&](SimTime when, std::span<const MemoryChange> rows, std::int64_t sign) {
    Level& level =
        changes.try_emplace(when, Level{std::vector<std::int64_t>(owners, 0)}).first->second;
    for (const MemoryChange& change : rows) {
      if (change.pool == pool) {
        level.owners[change.owner] += sign * change.bytes;
      }
    }
  };
  add(SimTime{0}, made.graph.initial, 1);
  for (TaskId task = 0; task < made.graph.task_count(); ++task) {
    add(timeline.tasks[task].start, made.graph.allocations_of(task), 1);
    add(timeline.tasks[task].end, made.graph.frees_of(task), -1);
  }
  Level before{std::vector<std::int64_t>(owners, 0)};
  for (auto& [when, level] : changes) {
    for (std::size_t owner = 0; owner < owners; ++owner) {
      level.owners[owner] += before.owners[owner];
    }
    before = level;
  }
  return changes;
}

bool takes_no_time(const Timeline& timeline) {
  for (std::size_t task = 0; task < timeline.tasks.size(); ++task) {
    if (timeline.tasks[task].start == timeline.tasks[task].end) {
      return true;
    }
  }
  return false;
}

// Tasks of no time come and go within an instant, so that more may have been held for a
// moment than before and after. Without them the peak is a level that is seen.
std::string wrong_pool(const RandomCase& made, const Timeline& timeline, PoolId pool) {
  const std::map<SimTime, Level> levels = levels_of(made, timeline, pool);
  const Timeline::PoolPeak& peak = timeline.peaks[pool];
  auto highest = levels.begin();
  for (auto at = levels.begin(); at != levels.end(); ++at) {
    if (std::ranges::any_of(at->second.owners, [](std::int64_t bytes) { return bytes < 0; })) {
      return "an owner holds less than nothing";
    }
    if (made.machine.pools[pool].mode == PoolMode::stall &&
        at->second.sum() > made.machine.pools[pool].capacity) {
      return "more is held than there is";
    }
    highest = at->second.sum() > highest->second.sum() ? at : highest;
  }
  if (levels.rbegin()->second.sum() != timeline.final_bytes[pool]) {
    return "the last level is not what is held at the end";
  }
  if (highest->second.sum() > peak.bytes) {
    return "more is held than the peak says";
  }
  if (!takes_no_time(timeline) && peak.bytes != 0 &&
      (highest->second.sum() != peak.bytes || highest->first != peak.time ||
       highest->second.owners != peak.owners)) {
    return "the peak is not the first highest level";
  }
  return {};
}

TEST_CASE("the bytes of every owner at every instant agree with the recorded peaks") {
  std::uint64_t seen_exactly = 0;
  for (std::uint64_t seed = 1; seed <= case_count; ++seed) {
    CAPTURE(seed);
    const RandomCase made = random_case(seed);
    const Outcome outcome = run(made.graph, made.machine);
    for (PoolId pool = 0; outcome.timeline.has_value() && pool < made.machine.pools.size();
         ++pool) {
      CAPTURE(pool);
      REQUIRE(wrong_pool(made, *outcome.timeline, pool) == "");
      seen_exactly += takes_no_time(*outcome.timeline) ? 0U : 1U;
    }
  }
  CHECK(seen_exactly > case_count / 20);
}

// ---- Threads ----

void mix_task(std::uint64_t& hash, const TaskTimes& task) {
  for (const SimTime time : {task.start, task.end, task.lost_to_sharing}) {
    mix(hash, static_cast<std::uint64_t>(time.count()));
  }
  mix(hash, task.cause_task);
  mix(hash, task.bound_by);
}

std::uint64_t hash_of(const std::vector<RandomCase>& cases) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const RandomCase& made : cases) {
    const Outcome outcome = run(made.graph, made.machine);
    mix(hash, outcome.timeline.has_value() ? 1 : 0);
    if (outcome.timeline.has_value()) {
      for (const TaskTimes& task : outcome.timeline->tasks) {
        mix_task(hash, task);
      }
      mix(hash, outcome.timeline->solver_calls);
    }
  }
  return hash;
}

// All threads replay the same graphs, which they share.
TEST_CASE("several threads at once come to the same as one") {
  std::vector<RandomCase> cases;
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    cases.push_back(random_case(seed));
  }
  const std::uint64_t alone = hash_of(cases);
  std::array<std::uint64_t, 8> hashes{};
  std::vector<std::thread> threads;
  for (std::uint64_t& hash : hashes) {
    threads.emplace_back([&cases, &hash] { hash = hash_of(cases); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::uint64_t hash : hashes) {
    CHECK(hash == alone);
  }
}

} // namespace
} // namespace spillway::test
