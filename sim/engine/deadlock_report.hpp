// What a Deadlock says.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace spillway {

// A lane that has tasks left although nothing can run.
struct StuckLane {
  LaneId lane = no_id;
  TaskId head = no_id;
  PoolId short_of = no_id; // no_id = the head depends on a task that never ended
  std::int64_t free_bytes = 0;
};

// One line with the count and one for each of the first eight lanes. `stuck`
// holds every lane that has tasks left, in ascending order.
[[nodiscard]] std::string describe_deadlock(const TaskGraph& graph, const Machine& machine,
                                            std::span<const StuckLane> stuck);

} // namespace spillway
