// Random loops: a graph that leaves iterations out gives the timeline of the graph that
// holds them all.
#include "sim/analysis/explain.hpp"
#include "sim/analysis/slack.hpp"
#include "sim/engine/engine.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/unfold.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace spillway::test {
namespace {

constexpr std::uint64_t case_count = 4'000;
constexpr std::int64_t whole_length = 60; // iterations of the loop

// A body of random tasks that is run again and again, with dependencies inside an iteration
// and on the one before, memory that iterations keep, hand on or give back, and something
// before and after the loop.
class RandomLoop {
public:
  explicit RandomLoop(std::uint64_t seed) : random_(seed) {
    round_ = random_.one_in(2);
    make_machine();
    make_body();
  }

  [[nodiscard]] const Machine& machine() const { return machine_; }

  // The body's part of the loop that is run for each outer iteration as well.
  [[nodiscard]] TaskGraph graph(std::int64_t inner, std::int64_t outer, std::vector<Loop>& loops,
                                std::int64_t left_out_inner, std::int64_t left_out_outer) const {
    TaskGraphBuilder builder;
    std::vector<RouteId> routes;
    for (const std::vector<Use>& uses : routes_) {
      routes.push_back(builder.add_route(uses));
    }
    if (held_ > 0) {
      builder.hold_from_the_start({0, 0, held_});
    }
    Loop around{{}, {}, static_cast<std::uint64_t>(left_out_outer)};
    around.tasks = tasks_of_iterations(inner);
    ++around.tasks[body_[leader_].lane];
    std::vector<TaskId> before;
    for (std::int64_t o = 0; o < outer; ++o) {
      Loop loop{{}, tasks_of_iterations(1), static_cast<std::uint64_t>(left_out_inner)};
      for (std::int64_t i = 0; i < inner; ++i) {
        before = add_iteration(builder, routes, before);
        loop.ends.push_back(before[leader_]);
      }
      const TaskId last = builder.add_fixed(body_[leader_].lane, SimTime{17});
      for (const TaskId task : before) {
        builder.depend(last, task);
      }
      if (kept_per_iteration_ > 0) { // given back by the end of each outer iteration
        builder.free_at_end(last, {0, 0, kept_per_iteration_ * (inner + left_out_inner)});
      }
      before.assign(body_.size(), last);
      around.ends.push_back(last);
      loops.push_back(std::move(loop));
    }
    loops.push_back(std::move(around));
    return std::move(builder).build(machine_);
  }

private:
  struct BodyTask {
    LaneId lane = 0;
    std::int64_t fixed = 0;
    double work = 0;
    std::size_t route = 0;
    bool is_flow = false;
    std::vector<std::size_t> on_same, on_previous; // dependencies
    std::int64_t scratch = 0;                      // bytes while it runs
  };

  void make_machine() {
    for (std::int64_t i = random_.integer(1, 4); i > 0; --i) {
      machine_.lanes.push_back({"lane " + std::to_string(machine_.lanes.size())});
    }
    for (std::int64_t i = random_.integer(1, 3); i > 0; --i) {
      machine_.resources.push_back(
          {"resource " + std::to_string(machine_.resources.size()),
           round_ ? 1e12 * static_cast<double>(random_.integer(1, 4)) : random_.real(1e11, 4e12)});
    }
    machine_.pools.push_back({"record", 1000, PoolMode::record, {"kept", "scratch"}});
    machine_.pools.push_back({"stall", random_.integer(20, 60), PoolMode::stall, {"scratch"}});
    for (std::int64_t i = random_.integer(1, 3); i > 0; --i) {
      std::vector<Use> uses;
      for (ResourceId r = 0; r < machine_.resources.size(); ++r) {
        if (uses.empty() || random_.one_in(2)) {
          uses.push_back({r, round_ ? 1.0 : random_.real(0.5, 2.0)});
        }
      }
      routes_.push_back(uses);
    }
    held_ = random_.one_in(2) ? random_.integer(1, 9) : 0;
    kept_per_iteration_ = random_.one_in(2) ? random_.integer(1, 5) : 0;
  }

  void make_body() {
    const std::int64_t count = random_.integer(1, 8);
    for (std::int64_t i = 0; i < count; ++i) {
      BodyTask task;
      task.lane = random_.below(machine_.lanes.size());
      task.fixed = random_.integer(0, 40);
      task.is_flow = random_.one_in(2);
      task.work = task.is_flow
                      ? (round_ ? static_cast<double>(random_.integer(0, 60)) : random_.real(0, 60))
                      : 0;
      task.route = random_.below(routes_.size());
      for (std::int64_t d = random_.integer(0, 2); d > 0 && i > 0; --d) {
        task.on_same.push_back(random_.below(static_cast<std::size_t>(i)));
      }
      for (std::int64_t d = random_.integer(0, 1); d > 0; --d) {
        task.on_previous.push_back(random_.below(static_cast<std::size_t>(count)));
      }
      task.scratch = random_.one_in(2) ? random_.integer(1, 20) : 0;
      body_.push_back(task);
    }
    leader_ = random_.below(body_.size());
  }

  [[nodiscard]] std::vector<std::uint32_t> tasks_of_iterations(std::int64_t count) const {
    std::vector<std::uint32_t> tasks(machine_.lanes.size(), 0);
    for (const BodyTask& body : body_) {
      tasks[body.lane] += static_cast<std::uint32_t>(count);
    }
    return tasks;
  }

  [[nodiscard]] std::vector<TaskId> add_iteration(TaskGraphBuilder& builder,
                                                  const std::vector<RouteId>& routes,
                                                  const std::vector<TaskId>& before) const {
    std::vector<TaskId> tasks;
    for (const BodyTask& body : body_) {
      const TaskId task = body.is_flow ? builder.add_flow(body.lane, SimTime{body.fixed}, body.work,
                                                          routes[body.route])
                                       : builder.add_fixed(body.lane, SimTime{body.fixed});
      for (const std::size_t on : body.on_same) {
        builder.depend(task, tasks[on]);
      }
      for (const std::size_t on : body.on_previous) {
        builder.depend(task, before.empty() ? no_id : before[on]);
      }
      if (body.scratch > 0) {
        builder.allocate_at_start(task, {1, 0, body.scratch});
        builder.free_at_end(task, {1, 0, body.scratch});
      }
      tasks.push_back(task);
    }
    if (kept_per_iteration_ > 0) {
      builder.allocate_at_start(tasks[leader_], {0, 0, kept_per_iteration_});
      builder.allocate_at_start(tasks[leader_], {0, 1, 2});
      builder.free_at_end(tasks[leader_], {0, 1, 2});
    }
    return tasks;
  }

  Random random_;
  bool round_ = false;
  Machine machine_;
  std::vector<std::vector<Use>> routes_;
  std::vector<BodyTask> body_;
  std::size_t leader_ = 0;
  std::int64_t held_ = 0;
  std::int64_t kept_per_iteration_ = 0;
};

// What differs between the timeline of the part, unfolded, and that of the whole.
std::string difference(const TaskGraph& part, const Timeline& folded, const TaskGraph& whole,
                       const Timeline& full) {
  if (folded.makespan != full.makespan || folded.final_bytes != full.final_bytes ||
      folded.solver_calls != full.solver_calls) {
    return "makespan, final bytes or solver calls";
  }
  const std::vector<std::vector<UnfoldedRun>> lanes = unfold(part, folded);
  std::vector<TaskId> part_of(whole.task_count(), no_id);
  for (LaneId lane = 0; lane < lanes.size(); ++lane) {
    const std::span<const TaskId> tasks = whole.tasks_of(lane);
    if (tasks.size() != lanes[lane].size()) {
      return fmt::format("number of tasks on lane {}", lane);
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      part_of[tasks[i]] = lanes[lane][i].task;
    }
  }
  for (LaneId lane = 0; lane < lanes.size(); ++lane) {
    const std::span<const TaskId> tasks = whole.tasks_of(lane);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto& [task, later] = lanes[lane][i];
      const TaskId in_full = tasks[i];
      if (folded.tasks[task].start + later != full.tasks[in_full].start ||
          folded.tasks[task].end + later != full.tasks[in_full].end) {
        return fmt::format("times of task {} on lane {}", i, lane);
      }
      const bool released = part.dependency_count[task] > 0;
      if (released && folded.tasks[task].ready + later != full.tasks[in_full].ready) {
        return fmt::format("ready of task {} on lane {}", i, lane);
      }
      if (folded.tasks[task].cause != full.tasks[in_full].cause ||
          folded.tasks[task].cause_pool != full.tasks[in_full].cause_pool ||
          folded.tasks[task].lost_to_sharing != full.tasks[in_full].lost_to_sharing ||
          folded.tasks[task].bound_by != full.tasks[in_full].bound_by) {
        return fmt::format("cause or loss of task {} on lane {}", i, lane);
      }
    }
  }
  for (std::size_t pool = 0; pool < full.peaks.size(); ++pool) {
    const Timeline::PoolPeak& a = folded.peaks[pool];
    const Timeline::PoolPeak& b = full.peaks[pool];
    if (a.bytes != b.bytes || a.time != b.time || a.owners != b.owners ||
        a.task != (b.task == no_id ? no_id : part_of[b.task])) {
      return fmt::format("peak of pool {}", pool);
    }
  }
  return {};
}

// Time and number of tasks on the critical sequence by lane and duration: what a task is
// called does not depend on how many iterations the graph holds.
std::map<std::pair<LaneId, SimTime>, std::int64_t> critical_runs(const TaskGraph& graph,
                                                                 const Timeline& timeline) {
  std::map<std::pair<LaneId, SimTime>, std::int64_t> runs;
  for (const CriticalTask& critical : critical_sequence(graph, timeline)) {
    runs[{graph.tasks[critical.task].lane,
          timeline.tasks[critical.task].end - timeline.tasks[critical.task].start}] +=
        critical.runs;
  }
  return runs;
}

std::map<SimTime, std::int64_t> gap_runs(const TaskGraph& graph, const Timeline& timeline,
                                         LaneId lane) {
  std::map<SimTime, std::int64_t> runs;
  for (const LaneGap& gap : gaps_of(graph, timeline, lane)) {
    runs[gap.length] += gap.runs;
  }
  return runs;
}

// By lane, duration and slack.
std::map<std::tuple<LaneId, SimTime, SimTime>, std::int64_t> slack_runs(const TaskGraph& graph,
                                                                        const Timeline& timeline) {
  std::map<std::tuple<LaneId, SimTime, SimTime>, std::int64_t> all;
  const Slack slack(graph, timeline);
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    slack.each_run(task, [&](SimTime room, std::int64_t runs) {
      all[{graph.tasks[task].lane, timeline.tasks[task].end - timeline.tasks[task].start, room}] +=
          runs;
    });
  }
  return all;
}

struct Tally {
  std::uint64_t folded = 0;
  std::uint64_t memory = 0; // of them, with tasks that waited for memory
  std::uint64_t kept = 0;   // of them, with a ledger that grows
};

void check_loop(std::uint64_t seed, std::int64_t outer, std::int64_t outer_left_out, Tally& tally) {
  CAPTURE(seed);
  const RandomLoop loop(seed);
  const auto part_length = static_cast<std::int64_t>(6 + seed % 13); // some are too short
  std::vector<Loop> no_loops;
  std::vector<Loop> loops;
  const TaskGraph whole = loop.graph(whole_length, outer + outer_left_out, no_loops, 0, 0);
  const TaskGraph part =
      loop.graph(part_length, outer, loops, whole_length - part_length, outer_left_out);
  const Timeline full = replay(whole, loop.machine());
  Timeline folded;
  try {
    folded = replay(part, loop.machine(), loops);
  } catch (const NoRecurrence&) {
    return;
  }
  REQUIRE(difference(part, folded, whole, full) == "");
  REQUIRE(critical_runs(part, folded) == critical_runs(whole, full));
  for (LaneId lane = 0; lane < loop.machine().lanes.size(); ++lane) {
    REQUIRE(gap_runs(part, folded, lane) == gap_runs(whole, full, lane));
  }
  if (folded.repeats.size() == 1) {
    REQUIRE(slack_runs(part, folded) == slack_runs(whole, full));
  }
  ++tally.folded;
  const auto waited = [](const TaskTimes& task) { return task.cause == Cause::memory; };
  tally.memory += std::ranges::any_of(full.tasks, waited) ? 1U : 0U;
  tally.kept += folded.peaks[0].bytes > 100 ? 1U : 0U;
}

TEST_CASE("A loop with iterations left out gives the timeline of the whole loop") {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= case_count; ++seed) {
    check_loop(seed, 1, 0, tally);
  }
  // The interesting paths are reached, else equality says little.
  CHECK(tally.folded > case_count / 2);
  CHECK(tally.memory > case_count / 50);
  CHECK(tally.kept > case_count / 5);
}

TEST_CASE("Loops inside a loop, both with iterations left out, give the whole timeline") {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= case_count / 4; ++seed) {
    check_loop(seed, 6, 12, tally);
  }
  CHECK(tally.folded > case_count / 8);
  CHECK(tally.memory > case_count / 200);
  CHECK(tally.kept > case_count / 20);
}

} // namespace
} // namespace spillway::test
