#include "sim/engine/enough_memory.hpp"

#include "sim/engine/engine.hpp"
#include "sim/engine/memory_ledger.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace spillway {

namespace {

constexpr std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();

[[nodiscard]] std::vector<std::int64_t> capacities_of(const Machine& machine) {
  std::vector<std::int64_t> capacities;
  for (const Pool& pool : machine.pools) {
    capacities.push_back(pool.capacity);
  }
  return capacities;
}

// The capacity with which the head of a lane could have started at that moment.
[[nodiscard]] std::int64_t needed_by(const TaskGraph& graph, const Machine& machine,
                                     const StuckLane& lane) {
  const std::int64_t held = machine.pools[lane.short_of].capacity - lane.free_bytes;
  const std::int64_t asked = asked_of(graph, lane.head, lane.short_of);
  return asked > most_bytes - held ? most_bytes : held + asked;
}

// Each pool that somebody lacks grows to what suits the most modest of them.
void grow(const TaskGraph& graph, Machine& machine, const std::vector<StuckLane>& stuck) {
  std::vector<std::int64_t> needed(machine.pools.size(), most_bytes);
  for (const StuckLane& lane : stuck) {
    if (lane.short_of != no_id) {
      needed[lane.short_of] = std::min(needed[lane.short_of], needed_by(graph, machine, lane));
    }
  }
  for (PoolId pool = 0; pool < machine.pools.size(); ++pool) {
    if (needed[pool] != most_bytes) {
      machine.pools[pool].capacity = needed[pool];
    }
  }
}

// What the graph takes when nothing waits for room: with that nothing does, either.
[[nodiscard]] std::vector<std::int64_t> peaks_without_waiting(const TaskGraph& graph,
                                                              Machine machine) {
  std::vector<std::int64_t> capacities = capacities_of(machine);
  for (Pool& pool : machine.pools) {
    pool.mode = PoolMode::record;
  }
  const Timeline timeline = replay(graph, machine);
  for (PoolId pool = 0; pool < capacities.size(); ++pool) {
    capacities[pool] = std::max(capacities[pool], timeline.peaks[pool].bytes);
  }
  return capacities;
}

} // namespace

std::optional<std::vector<std::int64_t>> enough_memory(const TaskGraph& graph,
                                                       const Machine& machine,
                                                       std::size_t most_tasks) {
  Machine larger = machine;
  try {
    // A replay counts as some tasks more than it has, so that their number is bounded, too.
    const std::size_t cost = graph.task_count() + most_tasks / 200 + 1;
    for (std::size_t left = most_tasks; left >= cost; left -= cost) {
      try {
        static_cast<void>(replay(graph, larger));
        return capacities_of(larger);
      } catch (const Deadlock& deadlock) {
        if (!deadlock.out_of_memory()) {
          return std::nullopt;
        }
        grow(graph, larger, deadlock.stuck());
      }
    }
    return peaks_without_waiting(graph, machine);
  } catch (const Deadlock&) {
    return std::nullopt;
  } catch (const NotHeld&) {
    return std::nullopt;
  } catch (const std::overflow_error&) {
    return std::nullopt;
  }
}

} // namespace spillway
