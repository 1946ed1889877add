// With which pools a graph that starved would run to its end.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

// Per pool: a capacity, no less than the pool has, with which a replay ended every task.
// That holds for this graph on this machine as a whole; another order of starts, with a
// little more room, may starve again. Nor is it the least: each replay adds what the most
// modest of the first tasks to starve lacks, and at the end each pool that can do without
// is put back to what it has. Where `most_tasks` tasks have been replayed in vain, or more
// room leads to a mistake of the graph, stalling pools get what it takes when nothing waits.
//
// Where even that is a mistake, what replay() throws then: NotHeld, std::overflow_error, or
// Deadlock because tasks wait in a circle.
[[nodiscard]] std::vector<std::int64_t> enough_memory(const TaskGraph& graph,
                                                      const Machine& machine,
                                                      std::size_t most_tasks = 500'000);

} // namespace spillway
