// What each task contributes to the waits of one lane.
//
// A lane that stands still waits for the cause of its next task, and that task may have
// waited itself: for the task before it on its lane, for one that it depends on. Walking
// back from the end of a gap along the causes, starts and ends meet, so that each instant
// of the gap belongs to exactly one task, as far back as its lane waited.
//
// Example: compute A (0-2) and C (7-8); the copies X (1-4) and Y (4-7) share a lane and C
// depends on Y. The gap (2-7) is Y's from 4 to 7 and X's from 2 to 4.
#pragma once

#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <vector>

namespace spillway {

// By task: for how long `lane` stood still for it. Sums to the gaps before the lane's
// tasks.
[[nodiscard]] std::vector<SimTime> waited_for(const TaskGraph& graph, const Timeline& timeline,
                                              LaneId lane);

} // namespace spillway
