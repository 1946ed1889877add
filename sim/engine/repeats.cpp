#include "sim/engine/repeats.hpp"

namespace spillway {

RunCounts::RunCounts(const TaskGraph& graph, const Timeline& timeline) {
  if (timeline.repeats.empty()) {
    return;
  }
  counts_.assign(graph.task_count(), 1);
  for (const Repeat& repeat : timeline.repeats) {
    for (std::size_t lane = 0; lane < repeat.begin.size(); ++lane) {
      for (std::uint32_t at = repeat.begin[lane]; at < repeat.end[lane]; ++at) {
        counts_[graph.lane_tasks[at]] *= 1 + static_cast<std::int64_t>(repeat.times);
      }
    }
  }
}

SimTime time_skipped_at(const Timeline& timeline, LaneId lane, std::uint32_t position) {
  SimTime skipped{0};
  for (const Repeat& repeat : timeline.repeats) {
    if (repeat.end[lane] == position && repeat.begin[lane] < position) {
      skipped += repeat.period * static_cast<std::int64_t>(repeat.times);
    }
  }
  return skipped;
}

} // namespace spillway
