#include "sim/engine/deadlock_report.hpp"

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/engine/standstill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr std::size_t most_lanes = 8;
constexpr std::size_t most_circles = 3;
constexpr std::size_t most_waits = 16; // of one circle
constexpr std::size_t most_steps = 6;  // from one lane towards a cause
constexpr std::size_t most_holders = 4;
constexpr std::size_t most_releases = 2;

// A pool may hold more than its capacity from the start.
[[nodiscard]] std::string free_text(std::int64_t bytes) {
  return full_bytes(std::max(bytes, std::int64_t{0}));
}

[[nodiscard]] std::string asked_text(std::int64_t bytes) {
  const bool counted = bytes < std::numeric_limits<std::int64_t>::max();
  return (counted ? "" : "at least ") + full_bytes(bytes);
}

class Report {
public:
  Report(const TaskGraph& graph, const Machine& machine, std::span<const StuckLane> stuck,
         std::span<const std::string> names)
      : graph_(graph), machine_(machine), stuck_(stuck), names_(names),
        state_(graph, machine, stuck) {}

  [[nodiscard]] DeadlockText write() {
    add_circles();
    add_lanes();
    const bool lacks_memory =
        std::ranges::any_of(stuck_, [](const StuckLane& lane) { return !lane.lacks.empty(); });
    return {headline() + text_, lacks_memory && state_.circles().empty(), at_fault_};
  }

private:
  [[nodiscard]] std::string name(TaskId task) const {
    return names_.empty() ? fmt::format("task {}", task) : fmt::format("'{}'", names_[task]);
  }

  [[nodiscard]] const std::string& lane_name(TaskId task) const {
    return machine_.lanes[graph_.tasks[task].lane].name;
  }

  void add_line(std::size_t indent, const std::string& line) {
    text_ += "\n" + std::string(2 * indent, ' ') + line;
  }

  // What is wrong in a few words; pools were collected on the way. Where none is to blame
  // for itself, all that somebody lacks are: their tasks starve each other.
  [[nodiscard]] std::string headline() const {
    std::vector<std::string> reasons;
    if (!state_.circles().empty()) {
      reasons.emplace_back("they wait for each other in a circle");
    }
    const bool all = to_blame_.empty() && state_.circles().empty();
    if (const std::set<PoolId>& pools = all ? lacking_ : to_blame_; !pools.empty()) {
      reasons.push_back("there is no room in " + pools_text(pools));
    }
    if (reasons.empty()) {
      reasons.emplace_back("others never end");
    }
    return fmt::format("{} of {} can never start: {}", state_.left_count(),
                       plural(graph_.task_count(), "task"), joined(reasons));
  }

  // "pool 'a'" or "pools 'a' and 'b'"
  [[nodiscard]] std::string pools_text(const std::set<PoolId>& pools) const {
    std::vector<std::string> quoted;
    quoted.reserve(pools.size());
    for (const PoolId pool : pools) {
      quoted.push_back(fmt::format("'{}'", machine_.pools[pool].name));
    }
    return (pools.size() == 1 ? "pool " : "pools ") + joined(quoted);
  }

  // ---- Who waits for whom ----

  [[nodiscard]] std::string wait_text(const Wait& wait) const {
    const std::string reason =
        wait.by_lane ? fmt::format("lane '{}' runs it first", lane_name(wait.on)) : "dependency";
    return fmt::format("{} waits for {}: {}", name(wait.task), name(wait.on), reason);
  }

  void add_waits(std::size_t indent, std::span<const Wait> waits) {
    const std::size_t shown = waits.size() <= most_waits ? waits.size() : most_waits / 2;
    for (const Wait& wait : waits.first(shown)) {
      add_line(indent, wait_text(wait));
    }
    if (shown < waits.size()) {
      add_line(indent, fmt::format("... {} more waits ...", waits.size() - shown - 1));
      add_line(indent, wait_text(waits.back()));
    }
  }

  void add_circles() {
    const std::size_t shown = std::min(state_.circles().size(), most_circles);
    at_fault_ = shown > 0 ? state_.circles().front().front().task : no_id;
    for (std::size_t i = 0; i < shown; ++i) {
      add_line(0, fmt::format("a circle of {} waits", state_.circles()[i].size()));
      add_waits(1, state_.circles()[i]);
    }
    if (shown < state_.circles().size()) {
      const std::size_t more = state_.circles().size() - shown;
      add_line(0, fmt::format("and {}", plural(more, "more circle")));
    }
  }

  // The waits of a way from a task to its cause, up to a lane that is listed already.
  // The first `said` of them have been said.
  void add_way(std::size_t indent, TaskId task, std::span<const Wait> way, std::size_t said) {
    for (std::size_t i = 0; i < way.size(); ++i) {
      if (i >= said && listed_.count(task) > 0) {
        add_line(indent, fmt::format("{} waits, see lane '{}'", name(task), lane_name(task)));
        return;
      }
      if (i == most_steps) {
        add_line(indent, fmt::format("{} waits for others in turn", name(task)));
        return;
      }
      if (i >= said) {
        add_line(indent, wait_text(way[i]));
      }
      task = way[i].on;
    }
    if (state_.is_in_circle(task)) {
      add_line(indent, fmt::format("{} waits in a circle, see above", name(task)));
    } else if (const std::set<PoolId> pools = pools_missed_by(task); !pools.empty()) {
      add_line(indent, fmt::format("{} waits for room in {}", name(task), pools_text(pools)));
    } else {
      add_line(indent, fmt::format("{} never ends", name(task)));
    }
  }

  [[nodiscard]] std::set<PoolId> pools_missed_by(TaskId head) const {
    std::set<PoolId> pools;
    for (const Shortage& shortage : std::ranges::find(stuck_, head, &StuckLane::head)->lacks) {
      pools.insert(shortage.pool);
    }
    return pools;
  }

  // ---- Lanes ----

  void add_lanes() {
    const std::vector<StuckLane> lanes = lanes_by_distance();
    const std::size_t listed = std::min(lanes.size(), most_lanes);
    for (const StuckLane& lane : std::span(lanes).first(listed)) {
      add_lane(lane);
    }
    for (const StuckLane& lane : std::span(lanes).subspan(listed)) {
      for (const Shortage& shortage : lane.lacks) {
        note(lane.head, shortage.pool, never_has_room(lane.head, shortage.pool));
      }
    }
    if (lanes.size() > listed) {
      const std::size_t more = lanes.size() - listed;
      add_line(0, fmt::format("and {}", plural(more, "more lane")));
    }
    if (at_fault_ == no_id) {
      at_fault_ = lanes.front().head;
    }
  }

  void add_lane(const StuckLane& lane) {
    for (const Shortage& shortage : lane.lacks) {
      add_shortage(lane.head, shortage);
    }
    if (!lane.lacks.empty()) {
      return;
    }
    const std::vector<Wait> way = state_.way_to_cause(lane.head, most_steps + 1);
    if (way.empty()) {
      add_line(0, fmt::format("lane '{}': {} never ends", lane_name(lane.head), name(lane.head)));
      return;
    }
    add_line(0, fmt::format("lane '{}': {}", lane_name(lane.head), wait_text(way.front())));
    add_way(1, lane.head, way, 1);
    listed_.insert(lane.head);
  }

  // Without those that wait in a circle shown. Those that lack memory come first, then
  // the others, the nearest to a cause first.
  [[nodiscard]] std::vector<StuckLane> lanes_by_distance() const {
    std::vector<std::pair<std::size_t, StuckLane>> lanes;
    for (const StuckLane& lane : stuck_) {
      if (!state_.is_in_circle(lane.head)) {
        lanes.emplace_back(state_.distance_to_cause(lane.head), lane);
      }
    }
    std::stable_sort(lanes.begin(), lanes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<StuckLane> sorted;
    sorted.reserve(lanes.size());
    for (const auto& [distance, lane] : lanes) {
      sorted.push_back(lane);
    }
    return sorted;
  }

  void add_shortage(TaskId head, const Shortage& shortage) {
    const Pool& pool = machine_.pools[shortage.pool];
    add_line(0, fmt::format("lane '{}': {} asks for {} of pool '{}', which has {} of {} free",
                            lane_name(head), name(head),
                            asked_text(asked_of(graph_, head, shortage.pool)), pool.name,
                            free_text(shortage.free_bytes), full_bytes(pool.capacity)));
    if (const std::string held = holders_text(shortage.pool); !held.empty()) {
      add_line(1, "held: " + held);
    }
    note(head, shortage.pool, explain_shortage(head, shortage.pool));
  }

  void note(TaskId head, PoolId pool, bool at_fault) {
    lacking_.insert(pool);
    if (at_fault) {
      to_blame_.insert(pool);
      at_fault_ = at_fault_ == no_id ? head : at_fault_;
    }
  }

  [[nodiscard]] std::string holders_text(PoolId pool) const {
    const std::vector<Standstill::Holder> holders = state_.holders(pool);
    std::vector<std::string> parts;
    for (const Standstill::Holder& holder : holders) {
      if (parts.size() == most_holders) {
        parts.push_back(fmt::format("{} more", holders.size() - most_holders));
        break;
      }
      parts.push_back(fmt::format("{} by '{}' ({})", full_bytes(holder.bytes),
                                  machine_.pools[pool].owners[holder.owner], takers_text(holder)));
    }
    return joined(parts);
  }

  [[nodiscard]] std::string takers_text(const Standstill::Holder& holder) const {
    std::vector<std::string> takers;
    if (holder.from_start > 0) {
      takers.emplace_back("from the start");
    }
    for (const TaskId task : holder.tasks) {
      if (takers.size() == most_holders) {
        const std::size_t more = holder.tasks.size() - most_holders;
        takers.push_back(plural(more, "more task"));
        break;
      }
      takers.push_back(name(task));
    }
    return joined(takers);
  }

  // What is held of a pool whoever ends.
  [[nodiscard]] std::int64_t kept_of(PoolId pool) {
    const auto [found, is_new] = kept_.try_emplace(pool, 0);
    if (is_new) {
      found->second = state_.held_after(pool, std::vector<char>(graph_.task_count(), 1));
    }
    return found->second;
  }

  [[nodiscard]] bool never_has_room(TaskId head, PoolId pool) {
    return asked_of(graph_, head, pool) > machine_.pools[pool].capacity - kept_of(pool);
  }

  // Why there is never room: the pool, what is never freed, what is freed too late, or
  // else what is freed by tasks that are stuck elsewhere (false: not this pool's fault).
  bool explain_shortage(TaskId head, PoolId pool) {
    const std::int64_t asked = asked_of(graph_, head, pool);
    const std::int64_t capacity = machine_.pools[pool].capacity;
    if (asked > capacity) {
      add_line(1, fmt::format("that is more than the whole pool: {} never fits", name(head)));
      return true;
    }
    if (never_has_room(head, pool)) {
      add_line(1, fmt::format("never freed: {}, so at most {} can ever be free",
                              full_bytes(kept_of(pool)), free_text(capacity - kept_of(pool))));
      return true;
    }
    std::vector<char> too_late = state_.order().waiting_for(head);
    too_late[head] = 1;
    std::vector<char> in_time(too_late.size());
    std::ranges::transform(too_late, in_time.begin(),
                           [](char late) { return late != 0 ? char{0} : char{1}; });
    const std::int64_t until_then = state_.held_after(pool, in_time);
    const bool is_too_late = asked > capacity - until_then;
    add_releases(head, pool, is_too_late ? too_late : in_time);
    if (is_too_late) {
      add_line(1, fmt::format("so at most {} can be free before {} starts",
                              free_text(capacity - until_then), name(head)));
    }
    return is_too_late;
  }

  // What would have to end first, of those tasks that count.
  void add_releases(TaskId head, PoolId pool, std::span<const char> counts) {
    std::vector<Standstill::Release> releases = state_.releases(pool);
    std::erase_if(releases, [&](const Standstill::Release& r) { return counts[r.task] == 0; });
    const std::size_t shown = std::min(releases.size(), most_releases);
    for (std::size_t i = 0; i < shown; ++i) {
      const Standstill::Release& release = releases[i];
      add_line(1,
               fmt::format("{} frees {} of '{}' when it ends", name(release.task),
                           full_bytes(release.bytes), machine_.pools[pool].owners[release.owner]));
      const std::vector<Wait> back = state_.order().chain(release.task, head);
      if (!back.empty()) {
        add_waits(2, back);
      } else if (release.task != head) {
        add_way(2, release.task, state_.way_to_cause(release.task, most_steps + 1), 0);
      }
    }
    if (shown < releases.size()) {
      add_line(1, fmt::format("and {} more would free some", releases.size() - shown));
    }
  }

  const TaskGraph& graph_;
  const Machine& machine_;
  std::span<const StuckLane> stuck_;
  std::span<const std::string> names_;
  Standstill state_;
  std::set<TaskId> listed_; // heads of lanes that wait for others
  std::map<PoolId, std::int64_t> kept_;
  std::set<PoolId> lacking_;  // somebody does not fit
  std::set<PoolId> to_blame_; // of those: for itself, whatever room the others have
  TaskId at_fault_ = no_id;
  std::string text_;
};

} // namespace

DeadlockText describe_deadlock(const TaskGraph& graph, const Machine& machine,
                               std::span<const StuckLane> stuck,
                               std::span<const std::string> task_names) {
  return Report(graph, machine, stuck, task_names).write();
}

} // namespace spillway
