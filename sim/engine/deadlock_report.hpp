// What a Deadlock says: why tasks can never start, the root causes first.
//
//   circles    tasks that wait for each other, with every step of the circle
//   pools      a task asks for more than there can ever be: how much it asks, who
//              holds the rest, and what would have to end first
//   lanes      blocked behind these: who waits for whom, down to the cause
//
// Example, pool 'buffers' of 10 B of which task 0 took 6 and task 1 asks for 5:
//
//   1 of 2 tasks can never start: there is no room in pool 'buffers'
//   lane 'copies': task 1 asks for 5 B of pool 'buffers', which has 4 B of 10 B free
//     held: 6 B by 'prefetch' (task 0)
//     never freed: 6 B, so at most 4 B can ever be free
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spillway {

// A pool in which a task does not fit.
struct Shortage {
  PoolId pool = no_id;
  std::int64_t free_bytes = 0; // below zero where a pool holds more than its capacity
};

// A lane that has tasks left although nothing can run.
struct StuckLane {
  LaneId lane = no_id;
  TaskId head = no_id;
  std::vector<Shortage> lacks; // by pool; empty: the head depends on a task that never ended
};

struct DeadlockText {
  std::string text; // several lines, none of them ends the text
  // False when tasks wait in a circle or lack no memory, so that no amount of it helps.
  bool out_of_memory = false;
  // Where to look first: a task of a circle, one that asks for more than there can be, or
  // else the first of those that are stuck.
  TaskId at_fault = no_id;
};

// `stuck` holds every lane that has tasks left, in ascending order. `task_names` is
// empty, or has a name for every task; without one, tasks go by their number.
[[nodiscard]] DeadlockText describe_deadlock(const TaskGraph& graph, const Machine& machine,
                                             std::span<const StuckLane> stuck,
                                             std::span<const std::string> task_names = {});

} // namespace spillway
