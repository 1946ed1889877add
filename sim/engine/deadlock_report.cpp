#include "sim/engine/deadlock_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace spillway {

namespace {

constexpr std::size_t most_listed_lanes = 8;

// Per task: whether it never ended.
std::vector<char> find_unfinished(const TaskGraph& graph, std::span<const StuckLane> stuck) {
  std::vector<char> unfinished(graph.task_count(), 0);
  for (const StuckLane& lane : stuck) {
    const std::span<const TaskId> tasks = graph.tasks_of(lane.lane);
    for (auto task = std::ranges::find(tasks, lane.head); task != tasks.end(); ++task) {
      unfinished[*task] = 1;
    }
  }
  return unfinished;
}

// The lowest unfinished task that this one depends on. Dependencies are stored
// only as successors, so this walks the whole graph.
TaskId find_blocker(const TaskGraph& graph, const std::vector<char>& unfinished, TaskId blocked) {
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    if (unfinished[task] != 0 && std::ranges::binary_search(graph.successors_of(task), blocked)) {
      return task;
    }
  }
  return no_id;
}

std::string describe_lane(const TaskGraph& graph, const Machine& machine,
                          const std::vector<char>& unfinished, const StuckLane& lane) {
  std::string text =
      fmt::format("lane '{}': task {} waits for ", machine.lanes[lane.lane].name, lane.head);
  if (lane.short_of == no_id) {
    const TaskId blocker = find_blocker(graph, unfinished, lane.head);
    return text +
           fmt::format("task {} on lane '{}'", blocker, machine.lanes[graph.lane[blocker]].name);
  }
  std::int64_t bytes = 0;
  for (const MemoryChange& change : graph.allocations_of(lane.head)) {
    bytes += change.pool == lane.short_of ? change.bytes : 0;
  }
  const Pool& pool = machine.pools[lane.short_of];
  return text + fmt::format("{} bytes of pool '{}', {} of {} are free", bytes, pool.name,
                            lane.free_bytes, pool.capacity);
}

} // namespace

std::string describe_deadlock(const TaskGraph& graph, const Machine& machine,
                              std::span<const StuckLane> stuck) {
  const std::vector<char> unfinished = find_unfinished(graph, stuck);
  const std::size_t listed = std::min(stuck.size(), most_listed_lanes);
  std::string text = fmt::format("{} of {} tasks can never start",
                                 std::ranges::count(unfinished, 1), graph.task_count());
  for (const StuckLane& lane : stuck.first(listed)) {
    text += "\n  " + describe_lane(graph, machine, unfinished, lane);
  }
  if (listed < stuck.size()) {
    text += fmt::format("\n  and {} more lanes", stuck.size() - listed);
  }
  return text;
}

} // namespace spillway
