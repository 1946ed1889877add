// What a replayed task graph says: how long it takes and why, in the words of the
// graph itself.
#pragma once

#include "sim/engine/timeline.hpp"
#include "sim/graph_file/named_graph.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace spillway {

// How one lane spends the makespan; the four times add up to it.
struct LaneUse {
  std::size_t tasks = 0;
  SimTime busy{0};
  SimTime waits_for_tasks{0}; // free, but what the next task depends on has not ended
  SimTime waits_for_memory{0};
  SimTime done{0}; // after the last task
};
[[nodiscard]] LaneUse use_of_lane(const TaskGraph& graph, const Timeline& timeline, LaneId lane);

// What flows lost because a resource was shared, by resource: those with a loss, the
// largest first.
struct ResourceLoss {
  ResourceId resource = no_id;
  SimTime lost{0};
  std::vector<TaskId> tasks; // the most first
};
[[nodiscard]] std::vector<ResourceLoss> losses(const TaskGraph& graph, const Timeline& timeline);

// The makespan, the critical sequence with the cause of each start, time lost to
// sharing, how busy the lanes are, and the peak of each pool with its owners. `title`
// names the graph; `top` lines per section.
[[nodiscard]] std::string replay_text(const std::string& title, const NamedGraph& named,
                                      const Timeline& timeline, std::size_t top);

// The same in full, and every task. Times are whole picoseconds.
[[nodiscard]] std::string replay_json(const NamedGraph& named, const Timeline& timeline);

// What the graph's author may want to know before trusting it, one line each: names
// that nothing uses, and counting pools that exceed their capacity.
[[nodiscard]] std::vector<std::string> replay_remarks(const NamedGraph& named,
                                                      const Timeline& timeline);

} // namespace spillway
