// Replays what came from a file.
#pragma once

#include "sim/engine/timeline.hpp"
#include "sim/graph_file/named_graph.hpp"

#include <string>

namespace spillway {

// As replay(), in words for the one who wrote the file, which messages call `name`:
// a Deadlock names its tasks and says which pools would be large enough, and an InputError is
// thrown where a task frees what its owner does not hold at that moment, or where times or bytes
// are too large to count.
[[nodiscard]] Timeline replay_named(const NamedGraph& named, const std::string& name);

} // namespace spillway
