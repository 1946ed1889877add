// How much each task of a run may be delayed without making the run longer.
//
// Durations are taken as they ran, and so is the order on each lane. A task must end
// before its successors start; successors are the tasks that depend on it, the next
// one on its lane, and those that started on memory that it freed (Cause::memory).
// Going backward from the makespan,
//
//   latest end of t  =  min over successors s of (latest end of s - duration of s),
//                       the makespan where there is none
//   slack of t       =  latest end of t - end of t     >= 0, 0 on the critical sequence
//
// Each value is for a delay of that task alone: tasks in a row share their room. With
// flows it is what the run leaves, not a promise: a delayed flow may meet others on
// its resources and take longer than it did.
//
// Example: compute A (0-2), C (5-6); copies B (2-5) and D (2-3) on lanes of their own,
// all after A, and C after B and D. B has slack 0, D may end at 5: slack 2.
#pragma once

#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <vector>

namespace spillway {

// By task. `timeline` is a replay of `graph`. Time: tasks + dependencies.
[[nodiscard]] std::vector<SimTime> slack_of(const TaskGraph& graph, const Timeline& timeline);

} // namespace spillway
