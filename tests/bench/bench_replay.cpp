// Prints how long building and replaying a task graph takes per task.
//
// A rank has four lanes: compute, in, out, network. Each step of a rank is a copy
// in over a host link that two ranks share, two pieces of compute and now and then
// a copy out or a transfer; a third of all tasks are copies.
#include "sim/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace {

using namespace spillway;

constexpr std::size_t lanes_per_rank = 4;

Machine make_machine(std::size_t ranks) {
  Machine machine;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const char* name : {"compute", "in", "out", "network"}) {
      machine.lanes.push_back({fmt::format("{} {}", name, rank)});
    }
    machine.resources.push_back({fmt::format("link {}", rank), 50e9});
    machine.pools.push_back({fmt::format("device {}", rank),
                             std::int64_t{1} << 40,
                             PoolMode::record,
                             {"weights", "buffers"}});
  }
  for (std::size_t pair = 0; pair < (ranks + 1) / 2; ++pair) {
    machine.resources.push_back({fmt::format("host {}", pair), 80e9});
  }
  return machine;
}

struct RankState {
  RouteId route = no_id;
  TaskId compute = no_id;
  TaskId older_compute = no_id;
};

void add_step(TaskGraphBuilder& builder, RankState& state, std::size_t rank, std::size_t step) {
  const auto lane = static_cast<LaneId>(rank * lanes_per_rank);
  const auto pool = static_cast<PoolId>(rank);
  const auto jitter = static_cast<std::int64_t>((rank * 7919 + step * 104'729) % 1000);
  const MemoryChange buffer{pool, 1, 100'000'000};
  const TaskId in = builder.add_flow(lane + 1, SimTime{2'000'000}, 1e8, state.route);
  builder.depend(in, state.older_compute); // double buffering
  builder.allocate_at_start(in, buffer);
  const TaskId first = builder.add_fixed(lane, SimTime{1'000'000'000 + jitter * 1'000'000});
  builder.depend(first, in);
  const TaskId second = builder.add_fixed(lane, SimTime{1'500'000'000 + jitter});
  builder.free_at_end(second, buffer);
  const TaskId out = builder.add_flow(lane + 2, SimTime{2'000'000}, 6e7, state.route);
  builder.depend(out, first);
  const TaskId network = builder.add_fixed(lane + 3, SimTime{400'000'000});
  builder.depend(network, second);
  const TaskId last = builder.add_fixed(lane, SimTime{200'000'000});
  builder.depend(last, out);
  state.older_compute = state.compute;
  state.compute = last;
}

TaskGraphBuilder make_builder(std::size_t ranks, std::size_t tasks) {
  TaskGraphBuilder builder;
  std::vector<RankState> states(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<Use> uses{{static_cast<ResourceId>(rank), 1},
                                {static_cast<ResourceId>(ranks + rank / 2), 1}};
    states[rank].route = builder.add_route(uses);
  }
  for (std::size_t step = 0; builder.task_count() < tasks; ++step) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      add_step(builder, states[rank], rank, step);
    }
  }
  return builder;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The best of a few runs: other programs only ever slow one down.
void measure(std::size_t ranks, std::size_t tasks) {
  const Machine machine = make_machine(ranks);
  double build = std::numeric_limits<double>::infinity();
  double run = std::numeric_limits<double>::infinity();
  std::size_t count = 0;
  Timeline timeline;
  for (int repeat = 0; repeat < 5; ++repeat) {
    TaskGraphBuilder builder = make_builder(ranks, tasks);
    auto begin = std::chrono::steady_clock::now();
    const TaskGraph graph = std::move(builder).build(machine);
    build = std::min(build, seconds_since(begin));
    begin = std::chrono::steady_clock::now();
    timeline = replay(graph, machine);
    run = std::min(run, seconds_since(begin));
    count = graph.task_count();
  }
  const double per_task = 1e9 / static_cast<double>(count);
  fmt::print("{:>6} {:>9} {:>13.1f} {:>14.1f} {:>13}\n", ranks, count, build * per_task,
             run * per_task, timeline.solver_calls);
}

} // namespace

int main() {
  fmt::print("{:>6} {:>9} {:>13} {:>14} {:>13}\n", "ranks", "tasks", "build ns/task",
             "replay ns/task", "solver calls");
  for (const std::size_t ranks : {1U, 8U, 64U}) {
    for (const std::size_t tasks : {100'000U, 300'000U, 1'000'000U}) {
      measure(ranks, tasks);
    }
  }
}
