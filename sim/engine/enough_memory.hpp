// With which pools a graph that starved would run to its end.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

// Per pool: a capacity, no less than the pool has, so that no task starves for ever.
// Found by replaying, so it holds for this graph on this machine as a whole, although
// another order of starts with a little more room may starve again. It need not be the
// least: each replay adds what the first task lacks, and where `most_tasks` tasks have
// been replayed in vain it is what the graph takes when nothing ever waits for room.
//
// None where tasks wait in a circle, or where more room makes a task free what its owner
// does not hold yet or exceeds what the engine counts.
[[nodiscard]] std::optional<std::vector<std::int64_t>> enough_memory(
    const TaskGraph& graph, const Machine& machine, std::size_t most_tasks = 500'000);

} // namespace spillway
