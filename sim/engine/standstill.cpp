#include "sim/engine/standstill.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace spillway {

namespace {

// All heads and what stands behind them.
[[nodiscard]] std::vector<char> find_left(const TaskGraph& graph,
                                          std::span<const StuckLane> stuck) {
  std::vector<char> left(graph.task_count(), 0);
  for (const StuckLane& lane : stuck) {
    const std::span<const TaskId> tasks = graph.tasks_of(lane.lane);
    for (auto task = std::ranges::find(tasks, lane.head); task != tasks.end(); ++task) {
      left[*task] = 1;
    }
  }
  return left;
}

[[nodiscard]] std::int64_t bytes_of(std::span<const MemoryChange> changes, PoolId pool,
                                    OwnerId owner) {
  std::int64_t bytes = 0;
  for (const MemoryChange& change : changes) {
    bytes += change.pool == pool && change.owner == owner ? change.bytes : 0;
  }
  return bytes;
}

// Bytes that one owner took at once, as far as they have not been given back.
struct Lot {
  TaskId task = no_id; // no_id = held from the start
  std::int64_t bytes = 0;
};

// What one owner took of a pool, the oldest lot first: what it held from the start.
class Lots {
public:
  explicit Lots(std::int64_t from_start) : lots_{{no_id, from_start}} {}

  [[nodiscard]] const std::vector<Lot>& list() const { return lots_; }

  void take(TaskId task, std::int64_t bytes) { lots_.push_back({task, bytes}); }

  // Off what the task took itself; nobody has taken anything after it. Returns the rest.
  [[nodiscard]] std::int64_t give_back_own(TaskId task, std::int64_t bytes) {
    for (auto lot = lots_.rbegin(); lot->task == task && bytes > 0; ++lot) {
      bytes -= give_back(*lot, bytes);
    }
    return bytes;
  }

  // From here on nothing is taken.
  void sort_by_size() {
    for (std::size_t i = lots_.size(); i > 0; --i) {
      by_size_[lots_[i - 1].bytes].push_back(i - 1);
    }
  }

  // The oldest lot of just so many bytes, if there is one. Returns the rest.
  [[nodiscard]] std::int64_t give_back_same(std::int64_t bytes) {
    const auto same = by_size_.find(bytes);
    if (same == by_size_.end() || same->second.empty()) {
      return bytes;
    }
    bytes -= give_back(lots_[same->second.back()], bytes);
    same->second.pop_back();
    return bytes;
  }

  void give_back_oldest(std::int64_t bytes) {
    while (bytes > 0 && oldest_ < lots_.size()) {
      bytes -= give_back(lots_[oldest_], bytes);
      if (lots_[oldest_].bytes == 0) {
        ++oldest_;
      }
    }
  }

private:
  [[nodiscard]] static std::int64_t give_back(Lot& lot, std::int64_t bytes) {
    const std::int64_t given = std::min(lot.bytes, bytes);
    lot.bytes -= given;
    return given;
  }

  std::vector<Lot> lots_;
  std::map<std::int64_t, std::vector<std::size_t>> by_size_; // the oldest last
  std::size_t oldest_ = 0;                                   // all before it are used up
};

// The most bytes first.
[[nodiscard]] std::vector<Standstill::Holder> holders_of(const std::vector<Lots>& lots_by_owner) {
  std::vector<Standstill::Holder> holders;
  for (OwnerId owner = 0; owner < lots_by_owner.size(); ++owner) {
    const std::vector<Lot>& lots = lots_by_owner[owner].list();
    Standstill::Holder holder{owner, 0, lots.front().bytes, {}};
    for (const Lot& lot : lots) {
      holder.bytes += lot.bytes;
      if (lot.task != no_id && lot.bytes > 0) {
        holder.tasks.push_back(lot.task);
      }
    }
    if (holder.bytes > 0) {
      holders.push_back(std::move(holder));
    }
  }
  std::ranges::stable_sort(holders, std::greater<>{}, &Standstill::Holder::bytes);
  return holders;
}

} // namespace

Standstill::Standstill(const TaskGraph& graph, const Machine& machine,
                       std::span<const StuckLane> stuck)
    : graph_(graph), machine_(machine), left_(find_left(graph, stuck)),
      head_(machine.lanes.size(), no_id), lacks_memory_(machine.lanes.size(), 0),
      next_(graph.task_count()), distance_(graph.task_count(), 0), order_(graph, left_),
      circles_(order_.circles(no_id)), in_circle_(graph.task_count(), 0) {
  for (const std::vector<Wait>& circle : circles_) {
    for (const Wait& wait : circle) {
      in_circle_[wait.task] = 1;
    }
  }
  for (const StuckLane& lane : stuck) {
    head_[lane.lane] = lane.head;
    lacks_memory_[lane.lane] = lane.lacks.empty() ? 0 : 1;
  }
  find_ways(find_causes());
}

// Tasks in circles, and heads that wait for no task: they lack memory, or run and never
// end (a flow at no rate).
std::vector<TaskId> Standstill::find_causes() const {
  std::vector<char> needs(graph_.task_count(), 0);
  for (TaskId task = 0; task < graph_.task_count(); ++task) {
    for (const TaskId successor : graph_.successors_of(task)) {
      needs[successor] = needs[successor] != 0 || is_left(task) ? 1 : 0;
    }
  }
  std::vector<TaskId> causes;
  for (TaskId task = 0; task < graph_.task_count(); ++task) {
    const LaneId lane = graph_.tasks[task].lane;
    const bool waits = head_[lane] != task || (lacks_memory_[lane] == 0 && needs[task] != 0);
    if (is_left(task) && (is_in_circle(task) || !waits)) {
      causes.push_back(task);
    }
  }
  return causes;
}

// Breadth first from all causes at once, against the waits. A lane makes every task wait
// for each one before it, but what stands behind a task that has been reached is known
// already: so each task and each dependency is looked at once.
void Standstill::find_ways(std::vector<TaskId> reached) {
  std::vector<char> is_reached(graph_.task_count(), 0);
  for (const TaskId cause : reached) {
    is_reached[cause] = 1;
  }
  std::vector<std::uint32_t> place(graph_.task_count()); // on its lane
  std::vector<std::uint32_t> rest_reached(machine_.lanes.size());
  for (LaneId lane = 0; lane < machine_.lanes.size(); ++lane) {
    const std::span<const TaskId> tasks = graph_.tasks_of(lane);
    rest_reached[lane] = static_cast<std::uint32_t>(tasks.size());
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      place[tasks[i]] = i;
    }
  }
  const auto reach = [&](TaskId task, TaskId on, bool by_lane) {
    if (is_reached[task] == 0) {
      is_reached[task] = 1;
      next_[task] = {task, on, by_lane};
      distance_[task] = distance_[on] + 1;
      reached.push_back(task);
    }
  };
  std::size_t next = 0;
  while (next < reached.size()) { // it grows as it is read
    const TaskId on = reached[next++];
    for (const TaskId successor : graph_.successors_of(on)) {
      reach(successor, on, false);
    }
    const LaneId lane = graph_.tasks[on].lane;
    const std::span<const TaskId> tasks = graph_.tasks_of(lane);
    for (std::uint32_t behind = place[on] + 1; behind < rest_reached[lane]; ++behind) {
      reach(tasks[behind], on, true);
    }
    rest_reached[lane] = std::min(rest_reached[lane], place[on] + 1);
  }
}

std::size_t Standstill::left_count() const {
  return static_cast<std::size_t>(std::ranges::count(left_, char{1}));
}

std::vector<Wait> Standstill::way_to_cause(TaskId task, std::size_t most) const {
  std::vector<Wait> way;
  for (; distance_[task] > 0 && way.size() < most; task = next_[task].on) {
    way.push_back(next_[task]);
  }
  return way;
}

std::vector<Standstill::Holder> Standstill::holders(PoolId pool) const {
  std::vector<Lots> lots;
  for (OwnerId owner = 0; owner < machine_.pools[pool].owners.size(); ++owner) {
    lots.emplace_back(bytes_of(graph_.initial, pool, owner));
  }
  std::vector<std::pair<OwnerId, std::int64_t>> frees; // of what other tasks took
  for (TaskId task = 0; task < graph_.task_count(); ++task) {
    if (is_left(task)) {
      continue;
    }
    for (const MemoryChange& taken : graph_.allocations_of(task)) {
      if (taken.pool == pool) {
        lots[taken.owner].take(task, taken.bytes);
      }
    }
    for (const MemoryChange& freed : graph_.frees_of(task)) {
      if (freed.pool == pool) {
        frees.emplace_back(freed.owner, lots[freed.owner].give_back_own(task, freed.bytes));
      }
    }
  }
  std::ranges::for_each(lots, &Lots::sort_by_size);
  for (auto& [owner, bytes] : frees) {
    bytes = lots[owner].give_back_same(bytes);
  }
  for (const auto& [owner, bytes] : frees) {
    lots[owner].give_back_oldest(bytes);
  }
  return holders_of(lots);
}

std::vector<Standstill::Release> Standstill::releases(PoolId pool) const {
  std::map<OwnerId, std::int64_t> held;
  for (const Holder& holder : holders(pool)) {
    held[holder.owner] = holder.bytes;
  }
  std::vector<Release> releases;
  for (TaskId task = 0; task < graph_.task_count(); ++task) {
    if (!is_left(task)) {
      continue;
    }
    std::map<OwnerId, std::int64_t> freed;
    for (const MemoryChange& change : graph_.frees_of(task)) {
      freed[change.owner] += change.pool == pool ? change.bytes : 0;
    }
    for (const auto& [owner, bytes] : freed) {
      const std::int64_t more = bytes - bytes_of(graph_.allocations_of(task), pool, owner);
      if (more > 0 && held.count(owner) > 0) {
        releases.push_back({task, owner, std::min(more, held[owner])});
      }
    }
  }
  std::ranges::stable_sort(releases, std::greater<>{}, &Release::bytes);
  return releases;
}

// A task gives back what it takes at its end at the latest, so it never leaves less than
// it found minus its release.
std::int64_t Standstill::held_after(PoolId pool, std::span<const char> counts) const {
  std::map<OwnerId, std::int64_t> held;
  for (const Holder& holder : holders(pool)) {
    held[holder.owner] = holder.bytes;
  }
  for (const Release& release : releases(pool)) {
    if (counts[release.task] != 0) {
      held[release.owner] -= std::min(release.bytes, held[release.owner]);
    }
  }
  std::int64_t sum = 0;
  for (const auto& [owner, bytes] : held) {
    sum += bytes;
  }
  return sum;
}

} // namespace spillway
