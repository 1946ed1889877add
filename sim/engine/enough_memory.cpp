#include "sim/engine/enough_memory.hpp"

#include "sim/engine/engine.hpp"
#include "sim/engine/memory_ledger.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

namespace spillway {

namespace {

constexpr std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();

class Search {
public:
  Search(const TaskGraph& graph, const Machine& machine, std::size_t most_tasks)
      : graph_(graph), own_(machine), larger_(machine),
        cost_(graph.task_count() + most_tasks / 200 + 1), left_(most_tasks) {}

  [[nodiscard]] std::vector<std::int64_t> run() {
    if (!grow_until_all_end()) {
      raise_to_peaks();
    }
    put_back();
    std::vector<std::int64_t> capacities;
    for (const Pool& pool : larger_.pools) {
      capacities.push_back(pool.capacity);
    }
    return capacities;
  }

private:
  [[nodiscard]] bool may_replay() const { return left_ >= cost_; }

  // None when every task ended. No lanes when the graph makes a mistake on the way.
  [[nodiscard]] std::optional<std::vector<StuckLane>> find_stuck() {
    left_ -= cost_;
    try {
      static_cast<void>(replay(graph_, larger_));
      return std::nullopt;
    } catch (const Deadlock& deadlock) {
      return deadlock.stuck();
    } catch (const NotHeld&) { // another order of ends may do
      return std::vector<StuckLane>{};
    } catch (const std::overflow_error&) {
      return std::vector<StuckLane>{};
    }
  }

  [[nodiscard]] bool grow_until_all_end() {
    while (may_replay()) {
      const std::optional<std::vector<StuckLane>> stuck = find_stuck();
      if (!stuck) {
        return true;
      }
      if (!grow(*stuck)) {
        return false;
      }
    }
    return false;
  }

  // Each pool that somebody lacks grows to what suits the most modest of them.
  [[nodiscard]] bool grow(const std::vector<StuckLane>& stuck) {
    std::vector<std::int64_t> needed(larger_.pools.size(), most_bytes);
    for (const StuckLane& lane : stuck) {
      for (const Shortage& shortage : lane.lacks) {
        std::int64_t& least = needed[shortage.pool];
        least = std::min(least, needed_by(lane.head, shortage));
      }
    }
    bool grown = false;
    for (PoolId pool = 0; pool < needed.size(); ++pool) {
      if (needed[pool] != most_bytes) {
        larger_.pools[pool].capacity = needed[pool];
        grown = true;
      }
    }
    return grown;
  }

  // The capacity with which the head of a lane could have started at that moment.
  [[nodiscard]] std::int64_t needed_by(TaskId head, const Shortage& shortage) const {
    const std::int64_t held = larger_.pools[shortage.pool].capacity - shortage.free_bytes;
    const std::int64_t asked = asked_of(graph_, head, shortage.pool);
    return asked > most_bytes - held ? most_bytes : held + asked;
  }

  // To what the graph takes when nothing waits for room: with that nothing does, either.
  void raise_to_peaks() {
    Machine counting = own_;
    for (Pool& pool : counting.pools) {
      pool.mode = PoolMode::record;
    }
    const Timeline timeline = replay(graph_, counting);
    larger_ = own_;
    for (PoolId id = 0; id < larger_.pools.size(); ++id) {
      Pool& pool = larger_.pools[id];
      if (pool.mode == PoolMode::stall) {
        pool.capacity = std::max(pool.capacity, timeline.peaks[id].bytes);
      }
    }
    static_cast<void>(replay(graph_, larger_)); // what is said to be enough has been tried
  }

  // Who lacked a pool at first may find room in time once another pool is larger.
  void put_back() {
    for (PoolId id = 0; id < larger_.pools.size() && may_replay(); ++id) {
      std::int64_t& capacity = larger_.pools[id].capacity;
      const std::int64_t grown = capacity;
      capacity = own_.pools[id].capacity;
      if (capacity != grown && find_stuck()) {
        capacity = grown;
      }
    }
  }

  const TaskGraph& graph_;
  const Machine& own_;
  Machine larger_;
  // A replay counts as some tasks more than it has, so that their number is bounded, too.
  std::size_t cost_;
  std::size_t left_;
};

} // namespace

std::vector<std::int64_t> enough_memory(const TaskGraph& graph, const Machine& machine,
                                        std::size_t most_tasks) {
  return Search(graph, machine, most_tasks).run();
}

} // namespace spillway
