// Replays a task graph on a machine: discrete events in integer picoseconds. This comment
// is the specification; the naive engine of the tests implements it a second time.
//
// Starting
//   Each lane runs its tasks in the order in which they were added, one at a time. Task t
//   starts at the first instant at which
//
//     the task before it on its lane has ended,
//     every task that it depends on has ended, and
//     for every stalling pool p:  held_p + (what t allocates in p)  <=  capacity_p.
//
//   It then holds its allocations; at its end it gives back its frees.
//
// Running
//   A fixed task ends after its duration. A flow first spends its latency without using
//   anything. Flows past it share resources by weighted max-min fairness: with rates x_i,
//   weights w_ri and capacities C_r,
//
//     sum over flows i of  w_ri * x_i  <=  C_r     for every resource r
//     x_i  <=  rate limit of flow i
//
//   rates grow together from zero; a flow stops growing when a resource on its route is
//   full or its limit is reached (progressive filling). Rates change only when a flow begins
//   to move or ends; then, once per instant and after everything else, the connected set of
//   resources is solved anew. A flow ends at now + ceil(remaining / rate) picoseconds.
//
// Order within an instant
//   Rounds of ends, then starts, until nothing more happens. Ends come in ascending lane
//   order. Starts come in the order in which heads became ready (lane free, dependencies
//   ended), so that whoever waits longest for memory is served first; then by lane. A later
//   head that fits may start while an earlier one still waits: lanes do not block each other.
//
// Example: a link of 10 units a second, a pool of two buffers in which tasks wait. Each in
// moves 10 units and takes a buffer, c computes 2 s and gives the buffer back, out moves 10.
//
//   seconds  0    1    2    3    4    5    6    7    8
//   in       |in 1|in 2|    |in 3     |                    in 3 waits for the buffer of c 1
//   compute       |c 1      |c 2      |c 3      |          c 1, c 3 depend on in 1, in 3
//   out                     |out 1    |out 2|   |out 3|
//
//   From 3 to 5 in 3 and out 1 share the link, 5 units a second each, and lose a second each.
//   The causes lead from out 3 back to the beginning: out 3 <- c 3 (dependency) <- in 3
//   (dependency) <- c 1 (memory) <- in 1 (dependency): 1 + 2 + 2 + 2 + 1 seconds.
//
// Same graph, same bytes out, on any compiler (build with -ffp-contract=off) and thread.
//
// Cost: O(log lanes) per event, one solve of the touched domain where its set of flows is
// new (share_cache.hpp); nothing is allocated inside the loop. Working memory: 4 bytes a
// task beside the timeline, and a table of at most 1 MiB.
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

// No task can run and some never did. what() says why (deadlock_report.hpp); stuck() is
// what that text is made from.
class Deadlock : public std::runtime_error {
public:
  Deadlock(const DeadlockText& why, std::vector<StuckLane> stuck)
      : std::runtime_error(why.text), out_of_memory_(why.out_of_memory), at_fault_(why.at_fault),
        stuck_(std::move(stuck)) {}
  // True when larger pools would let every task run, false when tasks wait in a circle.
  [[nodiscard]] bool out_of_memory() const { return out_of_memory_; }
  [[nodiscard]] TaskId at_fault() const { return at_fault_; }
  [[nodiscard]] const std::vector<StuckLane>& stuck() const { return stuck_; }

private:
  bool out_of_memory_;
  TaskId at_fault_;
  std::vector<StuckLane> stuck_;
};

// `loops`: what the graph leaves out of a longer schedule (loop.hpp). The result is
// that of the whole schedule, or NoRecurrence is thrown. `task_names` is for the text of a
// Deadlock alone: empty, so that tasks go by their number, or a name for every task.
[[nodiscard]] Timeline replay(const TaskGraph& graph, const Machine& machine,
                              std::span<const Loop> loops = {},
                              std::span<const std::string> task_names = {});

} // namespace spillway
