// Replays what came from a file.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph_file/named_graph.hpp"

#include <string>

namespace spillway {

// What it says begins with the file and the place of a task to blame, as an InputError does.
class FileDeadlock : public Deadlock {
public:
  using Deadlock::Deadlock;
};

// As replay(), in words for the one who wrote the file, which messages call `name`: a
// FileDeadlock names its tasks and says which pools would be large enough, or why none are;
// and an InputError is thrown where a task frees what its owner does not hold at that moment,
// or where times or bytes are too large to count.
[[nodiscard]] Timeline replay_named(const NamedGraph& named, const std::string& name);

} // namespace spillway
