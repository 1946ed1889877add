// Replays a task graph on a machine: discrete events in integer picoseconds.
//
// The model
//   Each lane runs its tasks in order, one at a time. A fixed task takes its
//   duration. The flows that are past their latency share resources by weighted
//   max-min fairness: with rates x_i, weights w_ri and capacities C_r,
//
//       sum over flows i of  w_ri * x_i  <=  C_r     for every resource r
//       x_i <= rate limit of flow i
//
//   rates grow together from zero; a flow stops growing when a resource on its
//   route is full or its limit is reached (progressive filling). A change in
//   the set of flows re-solves only its connected set of resources, once per
//   instant. A flow ends at now + ceil(remaining / rate) picoseconds.
//
// Ties: everything that happens at one instant is processed in ascending lane
// order; ends come before starts. Same graph, same bytes out, on any compiler
// (build with -ffp-contract=off) and thread.
//
// Example: lanes A and B copy 1e9 bytes each over a link of 10e9 bytes/s. Each
// gets 5e9 bytes/s, both end at 0.2 s, and lost_to_sharing is 0.1 s for both.
//
// Cost: O(log lanes) per event plus one solve of the touched domain; nothing is
// allocated inside the loop.
#pragma once

#include "sim/engine/deadlock_report.hpp"
#include "sim/engine/loop.hpp"
#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

// No task can run and some never did. what() says why, with tasks by their number
// (deadlock_report.hpp); stuck() is what that text is made from.
class Deadlock : public std::runtime_error {
public:
  Deadlock(const DeadlockText& why, std::vector<StuckLane> stuck)
      : std::runtime_error(why.text), out_of_memory_(why.out_of_memory), stuck_(std::move(stuck)) {}
  // True when larger pools would let every task run, false when tasks wait in a circle.
  [[nodiscard]] bool out_of_memory() const { return out_of_memory_; }
  [[nodiscard]] const std::vector<StuckLane>& stuck() const { return stuck_; }

private:
  bool out_of_memory_;
  std::vector<StuckLane> stuck_;
};

// `loops`: what the graph leaves out of a longer schedule (loop.hpp). The result is
// that of the whole schedule, or NoRecurrence is thrown.
[[nodiscard]] Timeline replay(const TaskGraph& graph, const Machine& machine,
                              std::span<const Loop> loops = {});

} // namespace spillway
