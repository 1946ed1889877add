// What SimGrid, a simulator of other people, says of a task graph.
//
// How a graph is told to it
//   A lane is a host of speed 1, so a fixed task or a latency of d seconds is a
//   computation of d on it. A route, with a rate limit, is a pair of hosts and a
//   flow a message between them: the network model CM02 shares links max-min
//   fairly. Latencies of its own it would let weigh on the shares. Each activity
//   is created when the lane and the dependencies release it; this file does that,
//   so SimGrid answers for the sharing of resources and for all times.
//
// Weights
//   A link that a route names n times carries n units for one of the message, so
//   SimGrid is asked about weights that are whole numbers of quarters; a resource
//   with weights of 3/4 and 2 becomes a link of 4 times the capacity that its
//   routes name 3 and 8 times. Its parallel tasks take any weights, but share by
//   another rule.
//
// SimGrid has no memory pools, no causes and no losses to sharing.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace spillway::test {

struct SimgridCase {
  const TaskGraph* graph = nullptr;
  const Machine* machine = nullptr;
};

struct SimgridResult {
  std::vector<std::vector<double>> ends; // seconds, per case and task
  double setup_seconds = 0;              // of processor time: the platform
  double run_seconds = 0;                // of processor time: first activity to last
  std::size_t activities = 0;            // two for a flow with a latency, else one a task
  std::size_t peak_bytes = 0;            // of the process
};

// Runs all cases side by side in one simulation, in a process of its own:
// SimGrid is made to be set up once per process. std::runtime_error when that
// process fails; std::logic_error for a graph that SimGrid cannot be told:
// weights that are no quarters, work that is no whole number, or a pool that a
// task may wait for.
[[nodiscard]] SimgridResult simgrid_replay(std::span<const SimgridCase> cases);

} // namespace spillway::test
