// Why a run took as long as it did, in the engine's own terms.
//
// The critical sequence is found by walking back from the task that ended last:
// each task started because another one ended (its cause), so the ends and starts
// meet and the sequence covers the whole run without a gap.
//
// Example: compute A (0-2), copy B after A (2-5), compute C waits for B (5-6).
// Walking back from C: C by dependency on B, B by dependency on A, A from the
// beginning; 3 of the 6 seconds are the copy's.
#pragma once

#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <cstdint>
#include <vector>

namespace spillway {

// A task on the critical sequence, and how many of its runs are on it: more than one
// only where the graph leaves iterations out.
struct CriticalTask {
  TaskId task = no_id;
  std::int64_t runs = 1;
};

// In order of time. The sequence starts at time zero and ends at the makespan; times
// of tasks, times their runs, add up to it. Where a repeated part is walked through in
// different ways, a task stands there once for each.
[[nodiscard]] std::vector<CriticalTask> critical_sequence(const TaskGraph& graph,
                                                          const Timeline& timeline);

// Time during which a lane runs nothing, before each of its tasks.
struct LaneGap {
  TaskId before = no_id; // the task that ends the gap
  SimTime length{0};
  std::int64_t runs = 1; // of that task; each waits as long
};
[[nodiscard]] std::vector<LaneGap> gaps_of(const TaskGraph& graph, const Timeline& timeline,
                                           LaneId lane);

} // namespace spillway
