#include "sim/graph_file/replay_named.hpp"

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/engine/enough_memory.hpp"
#include "sim/engine/graph_checks.hpp"
#include "sim/engine/memory_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

// The file as a whole where the place of a task is not known.
[[nodiscard]] Place place_of(const NamedGraph& named, const std::string& file, TaskId task) {
  if (task < named.task_places.size()) {
    return named.task_places[task];
  }
  return {std::make_shared<const SourceText>(SourceText{file, {}}), 0, 0};
}

[[nodiscard]] InputError error_at(Place place, std::string message, std::string hint = {}) {
  return InputError(
      std::vector<Diagnostic>{{std::move(place), std::move(message), std::move(hint)}});
}

[[nodiscard]] std::string not_held_text(const NamedGraph& named, const NotHeld& error) {
  const MemoryChange& freed = error.freed();
  const Pool& pool = named.machine.pools[freed.pool];
  return fmt::format("task '{}' frees {} of pool '{}' for '{}', which holds {} then",
                     named.task_names[error.task()], exact_bytes(freed.bytes), pool.name,
                     pool.owners[freed.owner], exact_bytes(error.held()));
}

// The engine counts without names. Where one task alone is too long, that is the mistake.
[[nodiscard]] InputError too_large(const NamedGraph& named, const std::string& file,
                                   const std::overflow_error& error) {
  TaskId task = 0;
  try {
    for (; task < named.graph.task_count(); ++task) {
      static_cast<void>(time_alone(named.graph, named.machine, task));
    }
  } catch (const std::overflow_error& alone) {
    return error_at(place_of(named, file, task),
                    fmt::format("task '{}': {}", named.task_names[task], alone.what()));
  }
  return error_at(place_of(named, file, no_id), error.what());
}

[[nodiscard]] bool lacks(const std::vector<StuckLane>& stuck, PoolId pool) {
  return std::ranges::any_of(stuck, [pool](const StuckLane& lane) {
    return std::ranges::find(lane.lacks, pool, &Shortage::pool) != lane.lacks.end();
  });
}

// Pools that are enough, or why there are none.
[[nodiscard]] std::string advice(const NamedGraph& named, const std::vector<StuckLane>& stuck) {
  constexpr const char* none =
      "no pools are known to be large enough: where nothing waits for room, {}";
  try {
    const std::vector<std::int64_t> enough = enough_memory(named.graph, named.machine);
    std::vector<std::string> parts;
    for (PoolId id = 0; id < enough.size(); ++id) {
      const Pool& pool = named.machine.pools[id];
      if (enough[id] > pool.capacity) {
        parts.push_back(fmt::format("{} in pool '{}'{}", full_bytes(enough[id]), pool.name,
                                    lacks(stuck, id) ? "" : " (for which nobody waits yet)"));
      }
    }
    return fmt::format("with {} there is room enough: every task ends, as a replay shows",
                       joined(parts));
  } catch (const NotHeld& error) {
    return fmt::format(none, not_held_text(named, error));
  } catch (const std::overflow_error& error) {
    return fmt::format(none, error.what());
  }
}

[[nodiscard]] FileDeadlock deadlock_in(const NamedGraph& named, const std::string& file,
                                       const Deadlock& deadlock) {
  const std::string text = deadlock.what();
  const std::size_t first_line = std::min(text.find('\n'), text.size());
  std::string located = format_diagnostic(
      {place_of(named, file, deadlock.at_fault()), text.substr(0, first_line), {}});
  located += text.substr(first_line);
  if (deadlock.out_of_memory()) {
    located += "\n" + advice(named, deadlock.stuck());
  }
  return {{located, deadlock.out_of_memory(), deadlock.at_fault()}, deadlock.stuck()};
}

} // namespace

Timeline replay_named(const NamedGraph& named, const std::string& name) {
  try {
    return replay(named.graph, named.machine, {}, named.task_names);
  } catch (const Deadlock& deadlock) {
    throw deadlock_in(named, name, deadlock);
  } catch (const NotHeld& error) {
    throw error_at(place_of(named, name, error.task()), not_held_text(named, error),
                   "an owner frees what tasks that started before have allocated for it");
  } catch (const std::overflow_error& error) {
    throw too_large(named, name, error);
  }
}

} // namespace spillway
