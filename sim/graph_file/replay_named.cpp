#include "sim/graph_file/replay_named.hpp"

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/enough_memory.hpp"
#include "sim/engine/graph_checks.hpp"
#include "sim/engine/memory_ledger.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

// About the file as a whole, since what went wrong has no place in it.
[[nodiscard]] InputError error_of(const std::string& file, std::string message,
                                  std::string hint = {}) {
  const auto source = std::make_shared<const SourceText>(SourceText{file, {}});
  return InputError(std::vector<Diagnostic>{{{source, 0, 0}, std::move(message), std::move(hint)}});
}

[[nodiscard]] std::string not_held_text(const NamedGraph& named, const NotHeld& error) {
  const MemoryChange& freed = error.freed();
  const Pool& pool = named.machine.pools[freed.pool];
  return fmt::format("task '{}' frees {} of pool '{}' for '{}', which holds {} then",
                     named.task_names[error.task()], exact_bytes(freed.bytes), pool.name,
                     pool.owners[freed.owner], exact_bytes(error.held()));
}

// The engine counts without names. Where one task alone is too long, that is the mistake.
[[nodiscard]] std::string overflow_text(const NamedGraph& named, const std::overflow_error& error) {
  TaskId task = 0;
  try {
    for (; task < named.graph.task_count(); ++task) {
      static_cast<void>(time_alone(named.graph, named.machine, task));
    }
  } catch (const std::overflow_error& alone) {
    return fmt::format("task '{}': {}", named.task_names[task], alone.what());
  }
  return error.what();
}

// A pool that no longer starves anybody, or several; empty where none is known.
[[nodiscard]] std::string advice(const NamedGraph& named) {
  const std::optional<std::vector<std::int64_t>> enough = enough_memory(named.graph, named.machine);
  std::string text;
  for (PoolId pool = 0; enough && pool < enough->size(); ++pool) {
    if ((*enough)[pool] > named.machine.pools[pool].capacity) {
      text += fmt::format("{} {} in pool '{}'", text.empty() ? "" : " and",
                          exact_bytes((*enough)[pool]), named.machine.pools[pool].name);
    }
  }
  return text.empty() ? text : "\nwith" + text + " every task ends, as a replay shows";
}

} // namespace

Timeline replay_named(const NamedGraph& named, const std::string& name) {
  try {
    return replay(named.graph, named.machine, {}, named.task_names);
  } catch (const Deadlock& deadlock) {
    if (!deadlock.out_of_memory()) {
      throw;
    }
    throw Deadlock({deadlock.what() + advice(named), true}, deadlock.stuck());
  } catch (const NotHeld& error) {
    throw error_of(name, not_held_text(named, error),
                   "an owner frees what tasks that started before have allocated for it");
  } catch (const std::overflow_error& error) {
    throw error_of(name, overflow_text(named, error));
  }
}

} // namespace spillway
