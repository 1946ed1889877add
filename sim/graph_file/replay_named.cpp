#include "sim/graph_file/replay_named.hpp"

#include "sim/base/error.hpp"
#include "sim/engine/engine.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace spillway {

Timeline replay_named(const NamedGraph& named, const std::string& name) {
  try {
    return replay(named.graph, named.machine);
  } catch (const Deadlock& deadlock) {
    throw Deadlock(
        describe_deadlock(named.graph, named.machine, deadlock.stuck(), named.task_names),
        deadlock.stuck());
  } catch (const std::logic_error& error) {
    // Reading has checked everything but this, which depends on the order of ends.
    throw InputError(fmt::format("{}: {}", name, error.what()),
                     "an owner frees what tasks that started before have allocated for it");
  }
}

} // namespace spillway
