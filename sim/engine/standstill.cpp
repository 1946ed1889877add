#include "sim/engine/standstill.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
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

// Takes `bytes` off the lots that `chosen` picks, in order; returns what is left of them.
template <class Chosen>
[[nodiscard]] std::int64_t give_back(std::vector<Lot>& lots, std::int64_t bytes, Chosen chosen) {
  for (Lot& lot : lots) {
    if (bytes > 0 && lot.bytes > 0 && chosen(lot)) {
      const std::int64_t given = std::min(lot.bytes, bytes);
      lot.bytes -= given;
      bytes -= given;
    }
  }
  return bytes;
}

// The most bytes first.
[[nodiscard]] std::vector<Standstill::Holder> holders_of(
    const std::vector<std::vector<Lot>>& lots_by_owner) {
  std::vector<Standstill::Holder> holders;
  for (OwnerId owner = 0; owner < lots_by_owner.size(); ++owner) {
    Standstill::Holder holder{owner, 0, lots_by_owner[owner].front().bytes, {}};
    for (const Lot& lot : lots_by_owner[owner]) {
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
      needs_(graph.task_count()), order_(graph, left_), circles_(order_.circles(no_id)),
      in_circle_(graph.task_count(), 0) {
  for (const std::vector<Wait>& circle : circles_) {
    for (const Wait& wait : circle) {
      in_circle_[wait.task] = 1;
    }
  }
  for (const StuckLane& lane : stuck) {
    head_[lane.lane] = lane.head;
    lacks_memory_[lane.lane] = lane.short_of != no_id ? 1 : 0;
  }
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    for (const TaskId successor : graph.successors_of(task)) {
      if (is_left(task)) { // then so is its successor
        needs_[successor].push_back(task);
      }
    }
  }
}

std::size_t Standstill::left_count() const {
  return static_cast<std::size_t>(std::ranges::count(left_, char{1}));
}

std::optional<Wait> Standstill::next_wait(TaskId task) const {
  const LaneId lane = graph_.lane[task];
  if (head_[lane] != task) {
    return Wait{task, head_[lane], true};
  }
  if (lacks_memory_[lane] != 0 || needs_[task].empty()) {
    return std::nullopt;
  }
  return Wait{task, needs_[task].front(), false};
}

std::vector<Wait> Standstill::way_to_cause(TaskId task, std::size_t most) const {
  std::vector<Wait> way;
  std::set<TaskId> seen;
  for (TaskId at = task; !is_in_circle(at) && way.size() < most;) {
    const std::optional<Wait> wait = next_wait(at);
    if (!wait) {
      break;
    }
    if (!seen.insert(at).second) { // round and round, but beside the circle that is known
      way = way_to_circle(task);
      break;
    }
    way.push_back(*wait);
    at = wait->on;
  }
  way.resize(std::min(way.size(), most));
  return way;
}

std::vector<Wait> Standstill::way_to_circle(TaskId task) const {
  std::vector<Wait> way;
  for (std::size_t i = 0; i < circles_.size() && way.empty(); ++i) {
    way = order_.chain(task, circles_[i].front().task);
  }
  const auto reached =
      std::ranges::find_if(way, [this](const Wait& wait) { return is_in_circle(wait.on); });
  way.resize(std::min(way.size(), static_cast<std::size_t>(reached - way.begin()) + 1));
  return way;
}

std::size_t Standstill::distance_to_cause(TaskId task) const {
  constexpr std::size_t far = 1000;
  std::size_t distance = 0;
  for (; distance < far && !is_in_circle(task); ++distance) {
    const std::optional<Wait> wait = next_wait(task);
    if (!wait) {
      break;
    }
    task = wait->on;
  }
  return distance;
}

std::vector<Standstill::Holder> Standstill::holders(PoolId pool) const {
  const std::size_t owners = machine_.pools[pool].owners.size();
  std::vector<std::vector<Lot>> lots(owners); // the first is what was held from the start
  for (OwnerId owner = 0; owner < owners; ++owner) {
    lots[owner].push_back({no_id, bytes_of(graph_.initial, pool, owner)});
  }
  std::vector<std::pair<OwnerId, std::int64_t>> frees; // of what other tasks took
  for (TaskId task = 0; task < graph_.task_count(); ++task) {
    if (is_left(task)) {
      continue;
    }
    for (const MemoryChange& taken : graph_.allocations_of(task)) {
      if (taken.pool == pool) {
        lots[taken.owner].push_back({task, taken.bytes});
      }
    }
    for (const MemoryChange& freed : graph_.frees_of(task)) {
      if (freed.pool == pool) {
        const auto own = [task](const Lot& lot) { return lot.task == task; };
        frees.emplace_back(freed.owner, give_back(lots[freed.owner], freed.bytes, own));
      }
    }
  }
  for (auto& [owner, bytes] : frees) {
    const auto same = std::ranges::find(lots[owner], bytes, &Lot::bytes);
    if (same != lots[owner].end()) {
      bytes -= std::exchange(same->bytes, 0);
    }
  }
  for (const auto& [owner, bytes] : frees) {
    static_cast<void>(give_back(lots[owner], bytes, [](const Lot&) { return true; }));
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
