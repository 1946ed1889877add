// Reading a timeline whose graph leaves iterations of loops out: how often each task
// ran, and what the tasks before a repeated part really were.
#pragma once

#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <cstdint>
#include <vector>

namespace spillway {

// How often each task ran in the whole schedule.
class RunCounts {
public:
  RunCounts(const TaskGraph& graph, const Timeline& timeline);
  [[nodiscard]] std::int64_t of(TaskId task) const { return counts_.empty() ? 1 : counts_[task]; }

private:
  std::vector<std::int64_t> counts_; // empty: every task once
};

// What the repeats up to a position of a lane add to the end of the task before it:
// the task that stands before a repeat's end is the last of its runs there.
[[nodiscard]] SimTime time_skipped_at(const Timeline& timeline, LaneId lane,
                                      std::uint32_t position);

} // namespace spillway
