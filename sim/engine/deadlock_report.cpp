#include "sim/engine/deadlock_report.hpp"

#include "sim/base/units.hpp"
#include "sim/engine/standstill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
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

// Exact: "4 GB", or "4.002 GB (4001953125 B)" where four digits do not say it.
[[nodiscard]] std::string bytes_text(std::int64_t bytes) {
  const std::string text = format_bytes(static_cast<double>(bytes));
  const std::string exact = exact_bytes(bytes);
  return text == exact || bytes < 10'000 ? exact : fmt::format("{} ({} B)", text, bytes);
}

// A pool may hold more than its capacity from the start.
[[nodiscard]] std::string free_text(std::int64_t bytes) {
  return bytes_text(std::max(bytes, std::int64_t{0}));
}

[[nodiscard]] std::string asked_text(std::int64_t bytes) {
  const bool counted = bytes < std::numeric_limits<std::int64_t>::max();
  return (counted ? "" : "at least ") + bytes_text(bytes);
}

[[nodiscard]] std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text;
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
        std::ranges::any_of(stuck_, [](const StuckLane& lane) { return lane.short_of != no_id; });
    return {headline() + text_, lacks_memory && state_.circles().empty()};
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

  // What is wrong in a few words; pools were collected on the way.
  [[nodiscard]] std::string headline() const {
    std::vector<std::string> reasons;
    if (!state_.circles().empty()) {
      reasons.emplace_back("they wait for each other in a circle");
    }
    if (!too_small_.empty()) {
      const std::vector<std::string> pools(too_small_.begin(), too_small_.end());
      reasons.push_back(fmt::format("pool{} {} {} too small", pools.size() == 1 ? "" : "s",
                                    joined(pools), pools.size() == 1 ? "is" : "are"));
    }
    if (reasons.empty()) {
      reasons.emplace_back("others never end");
    }
    return fmt::format("{} of {} task{} can never start: {}", state_.left_count(),
                       graph_.task_count(), graph_.task_count() == 1 ? "" : "s", joined(reasons));
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
    for (std::size_t i = 0; i < shown; ++i) {
      add_line(0, fmt::format("a circle of {} waits", state_.circles()[i].size()));
      add_waits(1, state_.circles()[i]);
    }
    if (shown < state_.circles().size()) {
      const std::size_t more = state_.circles().size() - shown;
      add_line(0, fmt::format("and {} more circle{}", more, more == 1 ? "" : "s"));
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
    } else if (const PoolId pool = pool_missed_by(task); pool != no_id) {
      add_line(indent, fmt::format("{} waits for room in pool '{}'", name(task),
                                   machine_.pools[pool].name));
    } else {
      add_line(indent, fmt::format("{} never ends", name(task)));
    }
  }

  [[nodiscard]] PoolId pool_missed_by(TaskId head) const {
    return std::ranges::find(stuck_, head, &StuckLane::head)->short_of;
  }

  // ---- Lanes ----

  void add_lanes() {
    const std::vector<StuckLane> lanes = lanes_by_distance();
    const std::size_t listed = std::min(lanes.size(), most_lanes);
    for (const StuckLane& lane : std::span(lanes).first(listed)) {
      if (lane.short_of != no_id) {
        add_starved(lane);
        continue;
      }
      const std::vector<Wait> way = state_.way_to_cause(lane.head, most_steps + 1);
      if (way.empty()) {
        add_line(0, fmt::format("lane '{}': {} never ends", lane_name(lane.head), name(lane.head)));
        continue;
      }
      add_line(0, fmt::format("lane '{}': {}", lane_name(lane.head), wait_text(way.front())));
      add_way(1, lane.head, way, 1);
      listed_.insert(lane.head);
    }
    for (const StuckLane& lane : std::span(lanes).subspan(listed)) {
      if (lane.short_of != no_id && state_.circles().empty()) {
        note_too_small(lane.short_of);
      }
    }
    if (lanes.size() > listed) {
      const std::size_t more = lanes.size() - listed;
      add_line(0, fmt::format("and {} more lane{}", more, more == 1 ? "" : "s"));
    }
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

  void add_starved(const StuckLane& lane) {
    const Pool& pool = machine_.pools[lane.short_of];
    const std::int64_t asked = asked_of(graph_, lane.head, lane.short_of);
    add_line(0, fmt::format("lane '{}': {} asks for {} of pool '{}', of which {} of {} are free",
                            lane_name(lane.head), name(lane.head), asked_text(asked), pool.name,
                            free_text(lane.free_bytes), bytes_text(pool.capacity)));
    if (const std::string held = holders_text(lane.short_of); !held.empty()) {
      add_line(1, "held: " + held);
    }
    if (explain_shortage(lane, asked) || state_.circles().empty()) {
      note_too_small(lane.short_of);
    }
  }

  void note_too_small(PoolId pool) {
    too_small_.insert(fmt::format("'{}'", machine_.pools[pool].name));
  }

  [[nodiscard]] std::string holders_text(PoolId pool) const {
    const std::vector<Standstill::Holder> holders = state_.holders(pool);
    std::vector<std::string> parts;
    for (const Standstill::Holder& holder : holders) {
      if (parts.size() == most_holders) {
        parts.push_back(fmt::format("{} more", holders.size() - most_holders));
        break;
      }
      parts.push_back(fmt::format("{} by '{}' ({})", bytes_text(holder.bytes),
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
        takers.push_back(fmt::format("{} more task{}", more, more == 1 ? "" : "s"));
        break;
      }
      takers.push_back(name(task));
    }
    return joined(takers);
  }

  // Why there is never room: the pool, what is never freed, what is freed too late, or
  // else what is freed by tasks that are stuck elsewhere (false: not this pool's fault).
  bool explain_shortage(const StuckLane& lane, std::int64_t asked) {
    const std::int64_t capacity = machine_.pools[lane.short_of].capacity;
    if (asked > capacity) {
      add_line(1, fmt::format("that is more than the whole pool: {} never fits", name(lane.head)));
      return true;
    }
    const std::vector<char> everyone(graph_.task_count(), 1);
    const std::int64_t kept = state_.held_after(lane.short_of, everyone);
    if (asked > capacity - kept) {
      add_line(1, fmt::format("{} are never freed, so at most {} can ever be free",
                              bytes_text(kept), free_text(capacity - kept)));
      add_needed(lane, kept, asked);
      return true;
    }
    std::vector<char> too_late = state_.order().waiting_for(lane.head);
    too_late[lane.head] = 1;
    std::vector<char> in_time(too_late.size());
    std::ranges::transform(too_late, in_time.begin(),
                           [](char late) { return late != 0 ? char{0} : char{1}; });
    const std::int64_t until_then = state_.held_after(lane.short_of, in_time);
    const bool is_too_late = asked > capacity - until_then;
    add_releases(lane, is_too_late ? too_late : in_time);
    if (is_too_late) {
      add_line(1, fmt::format("so at most {} can be free before {} starts",
                              free_text(capacity - until_then), name(lane.head)));
      add_needed(lane, until_then, asked);
    }
    return is_too_late;
  }

  // The capacity with which a task could start while so much is held. That is no promise
  // for the whole graph: others may take what is there first, or starve later.
  void add_needed(const StuckLane& lane, std::int64_t held, std::int64_t asked) {
    if (asked <= std::numeric_limits<std::int64_t>::max() - held) {
      add_line(1, fmt::format("{} could start in a pool of {}, others may need more",
                              name(lane.head), bytes_text(held + asked)));
    }
  }

  // What would have to end first, of those tasks that count.
  void add_releases(const StuckLane& lane, std::span<const char> counts) {
    std::vector<Standstill::Release> releases = state_.releases(lane.short_of);
    std::erase_if(releases, [&](const Standstill::Release& r) { return counts[r.task] == 0; });
    const std::size_t shown = std::min(releases.size(), most_releases);
    for (std::size_t i = 0; i < shown; ++i) {
      const Standstill::Release& release = releases[i];
      add_line(1, fmt::format("{} of '{}' are freed when {} ends", bytes_text(release.bytes),
                              machine_.pools[lane.short_of].owners[release.owner],
                              name(release.task)));
      const std::vector<Wait> back = state_.order().chain(release.task, lane.head);
      if (!back.empty()) {
        add_waits(2, back);
      } else if (release.task != lane.head) {
        add_way(2, release.task, state_.way_to_cause(release.task, most_steps + 1), 0);
      }
    }
    if (shown < releases.size()) {
      add_line(1, fmt::format("and {} more that would free some", releases.size() - shown));
    }
  }

  const TaskGraph& graph_;
  const Machine& machine_;
  std::span<const StuckLane> stuck_;
  std::span<const std::string> names_;
  Standstill state_;
  std::set<TaskId> listed_;         // heads of lanes that wait for others
  std::set<std::string> too_small_; // pools, quoted
  std::string text_;
};

} // namespace

DeadlockText describe_deadlock(const TaskGraph& graph, const Machine& machine,
                               std::span<const StuckLane> stuck,
                               std::span<const std::string> task_names) {
  return Report(graph, machine, stuck, task_names).write();
}

} // namespace spillway
