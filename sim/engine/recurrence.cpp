#include "sim/engine/recurrence.hpp"

#include "sim/engine/sim_clock.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace spillway {

namespace {

[[nodiscard]] bool runs(HeadStage stage) {
  return stage != HeadStage::idle && stage != HeadStage::starved;
}

[[nodiscard]] bool same_changes(std::span<const MemoryChange> a, std::span<const MemoryChange> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const MemoryChange& x, const MemoryChange& y) {
                      return x.pool == y.pool && x.owner == y.owner && x.bytes == y.bytes;
                    });
}

} // namespace

RecurrenceFinder::RecurrenceFinder(const TaskGraph& graph, std::span<const Loop> loops)
    : graph_(graph), loops_(loops.size()) {
  for (std::size_t l = 0; l < loops.size(); ++l) {
    loops_[l].left_out = loops[l].left_out;
    loops_[l].tasks = loops[l].tasks;
    for (std::size_t i = 0; loops[l].left_out > 0 && i < loops[l].ends.size(); ++i) {
      marks_.push_back({0, loops[l].ends[i], l, i + 1 == loops[l].ends.size()});
    }
  }
  if (marks_.empty()) {
    return;
  }
  position_ = graph.positions();
  for (Mark& mark : marks_) {
    mark.position = position_[mark.task];
  }
  // Of two loops that end an iteration at once the inner one, which is shorter, comes first.
  const auto length = [&](const Mark& mark) {
    const std::vector<std::uint32_t>& tasks = loops[mark.loop].tasks;
    return std::accumulate(tasks.begin(), tasks.end(), std::uint64_t{0});
  };
  std::stable_sort(marks_.begin(), marks_.end(), [&](const Mark& a, const Mark& b) {
    return std::pair(a.position, length(a)) < std::pair(b.position, length(b));
  });
  next_end_ = marks_.front().task;
  inner_.assign(graph.task_count(), 0);
}

void RecurrenceFinder::end_of_iteration(ReplayState& state) {
  const LaneState& lane = state.lanes[graph_.tasks[next_end_].lane];
  while (next_mark_ < marks_.size() && marks_[next_mark_].position < lane.position) {
    const Mark mark = marks_[next_mark_++];
    Progress& loop = loops_[mark.loop];
    if (loop.left_out == 0) {
      continue; // skipped already
    }
    // The shortest period first.
    for (std::size_t i = loop.seen.size(); i-- > 0 && loop.left_out > 0;) {
      const std::uint64_t period = loop.seen.size() - i;
      if (loop.left_out % period == 0 && skip_if_alike(loop.seen[i], state, mark.loop)) {
        loop.left_out = 0;
      }
    }
    if (loop.left_out > 0 && mark.last) {
      throw NoRecurrence(mark.loop, loop.possible);
    }
    if (loop.left_out > 0) {
      loop.seen.push_back(take(state));
    } else {
      loop.seen.clear();
    }
  }
  next_end_ = next_mark_ < marks_.size() ? marks_[next_mark_].task : no_id;
}

RecurrenceFinder::Snapshot RecurrenceFinder::take(const ReplayState& state) const {
  Snapshot shot;
  shot.now = state.now;
  shot.solver_calls = state.flows.solver_calls;
  shot.lanes = state.lanes;
  shot.held = state.ledger.held_by_owner();
  shot.last_skip = last_skip_;
  for (LaneId lane = 0; lane < state.lanes.size(); ++lane) {
    const bool running = runs(state.lanes[lane].stage);
    shot.start.push_back(running ? state.timeline.tasks[state.lanes[lane].head].start : SimTime{0});
    shot.event.push_back(running ? state.events.time_of(lane) : SimTime{0});
    shot.flows.push_back(state.flows.of(lane));
    const std::span<const SimTime> bound = state.flows.bound_times(lane);
    shot.bound_times.insert(shot.bound_times.end(), bound.begin(), bound.end());
  }
  return shot;
}

// The caller has found that a whole number of periods is left out.
bool RecurrenceFinder::skip_if_alike(const Snapshot& then, ReplayState& state, std::size_t loop) {
  Progress& progress = loops_[loop];
  const auto period = static_cast<std::uint32_t>(&progress.seen.back() - &then) + 1;
  begin_.clear();
  end_.clear();
  for (LaneId lane = 0; lane < state.lanes.size(); ++lane) {
    begin_.push_back(then.lanes[lane].position);
    end_.push_back(state.lanes[lane].position);
    if (end_[lane] - begin_[lane] != period * progress.tasks[lane]) {
      return false;
    }
  }
  if (!lanes_are_alike(then, state)) {
    return false;
  }
  const bool alike = window_maps(then, state) && tasks_are_alike(then, state);
  for (const TaskId task : counted_) {
    inner_[task] = 0;
  }
  counted_.clear();
  if (!alike) {
    return false;
  }
  const std::uint64_t windows = progress.left_out / period;
  const std::uint64_t fitting = skips_that_fit(then, state);
  if (fitting < windows) {
    progress.possible = std::max(progress.possible, fitting * period);
    return false;
  }
  skip(then, windows, loop, state);
  return true;
}

bool RecurrenceFinder::lanes_are_alike(const Snapshot& then, const ReplayState& state) const {
  for (LaneId lane = 0; lane < state.lanes.size(); ++lane) {
    const LaneState& a = then.lanes[lane];
    const LaneState& b = state.lanes[lane];
    if (a.stage != b.stage) {
      return false;
    }
    if (begin_[lane] == end_[lane]) { // nothing ran: fine if nothing was to run
      if (a.stage != HeadStage::idle) {
        return false;
      }
      continue;
    }
    if (b.free_since - state.now != a.free_since - then.now || b.head == no_id ||
        !head_is_alike(then, state, lane)) {
      return false;
    }
  }
  return true;
}

bool RecurrenceFinder::head_is_alike(const Snapshot& then, const ReplayState& state,
                                     LaneId lane) const {
  const LaneState& a = then.lanes[lane];
  const LaneState& b = state.lanes[lane];
  switch (b.stage) {
  case HeadStage::idle: return true;
  case HeadStage::starved:
    return a.short_of == b.short_of && b.ready_since - state.now == a.ready_since - then.now;
  case HeadStage::fixed:
  case HeadStage::latency:
  case HeadStage::flowing: break;
  }
  const Timeline& timeline = state.timeline;
  const TaskId cause = timeline.tasks[a.head].cause_task;
  return state.events.time_of(lane) - state.now == then.event[lane] - then.now &&
         timeline.tasks[b.head].start - state.now == then.start[lane] - then.now &&
         timeline.tasks[b.head].cause == timeline.tasks[a.head].cause &&
         timeline.tasks[b.head].cause_pool == timeline.tasks[a.head].cause_pool &&
         timeline.tasks[b.head].cause_task == (cause == no_id ? no_id : image_of(cause)) &&
         (b.stage != HeadStage::flowing || flow_is_alike(then, state, lane));
}

bool RecurrenceFinder::flow_is_alike(const Snapshot& then, const ReplayState& state,
                                     LaneId lane) const {
  const Flows::Flow& a = then.flows[lane];
  const Flows::Flow& b = state.flows.of(lane);
  const std::span<const SimTime> bound = state.flows.bound_times(lane);
  return a.remaining == b.remaining && a.rate == b.rate && a.alone_rate == b.alone_rate &&
         a.bound_by == b.bound_by && b.updated - state.now == a.updated - then.now &&
         b.bound_since - state.now == a.bound_since - then.now &&
         std::equal(bound.begin(), bound.end(),
                    then.bound_times.begin() + static_cast<std::ptrdiff_t>(lane * bound.size()));
}

TaskId RecurrenceFinder::image_of(TaskId task) const {
  const LaneId lane = graph_.tasks[task].lane;
  const std::uint32_t length = end_[lane] - begin_[lane];
  const std::uint32_t to = position_[task] + length;
  return length > 0 && to < graph_.lane_offset[lane + 1] ? graph_.lane_tasks[to] : no_id;
}

bool RecurrenceFinder::have_same_rows(TaskId a, TaskId b) const {
  return graph_.tasks[a].fixed_time == graph_.tasks[b].fixed_time &&
         graph_.tasks[a].work == graph_.tasks[b].work &&
         graph_.tasks[a].route == graph_.tasks[b].route &&
         graph_.tasks[a].rate_limit == graph_.tasks[b].rate_limit &&
         graph_.dependency_count[a] == graph_.dependency_count[b] &&
         same_changes(graph_.allocations_of(a), graph_.allocations_of(b)) &&
         same_changes(graph_.frees_of(a), graph_.frees_of(b));
}

// Dependencies from the window map to dependencies from its image. Fills inner_ and reach_.
bool RecurrenceFinder::window_maps(const Snapshot& then, const ReplayState& state) {
  reach_ = end_;
  for (LaneId lane = 0; lane < begin_.size(); ++lane) {
    if (begin_[lane] < end_[lane]) {
      ++reach_[lane]; // the head: what it took, its image takes again after the skip
    }
    for (std::uint32_t at = begin_[lane]; at < end_[lane]; ++at) {
      const TaskId task = graph_.lane_tasks[at];
      const TaskId image = image_of(task);
      if (image == no_id || !successors_map(task, image, state) ||
          (graph_.dependency_count[task] > 0 &&
           state.timeline.tasks[task].ready < then.last_skip)) {
        return false;
      }
    }
  }
  return true;
}

bool RecurrenceFinder::successors_map(TaskId task, TaskId image, const ReplayState& state) {
  const std::span<const TaskId> from = graph_.successors_of(task);
  const std::span<const TaskId> to = graph_.successors_of(image);
  if (from.size() != to.size()) {
    return false;
  }
  for (const TaskId successor : from) {
    const TaskId other = image_of(successor);
    if (other != no_id && std::binary_search(to.begin(), to.end(), other)) {
      if (inner_[successor]++ == 0) {
        counted_.push_back(successor);
      }
      std::uint32_t& reach = reach_[graph_.tasks[successor].lane];
      reach = std::max(reach, position_[successor] + 1);
    } else if (state.unmet[successor] == 0) {
      return false; // leaves the loop, and was not waiting for anything else
    }
  }
  return true;
}

bool RecurrenceFinder::tasks_are_alike(const Snapshot& then, const ReplayState& state) const {
  for (LaneId lane = 0; lane < begin_.size(); ++lane) {
    const bool still = begin_[lane] == end_[lane];
    for (std::uint32_t at = begin_[lane]; !still && at < reach_[lane]; ++at) {
      const TaskId task = graph_.lane_tasks[at];
      const TaskId image = image_of(task);
      if (image == no_id || !have_same_rows(task, image) ||
          state.unmet[image] != state.unmet[task] + inner_[task] ||
          !release_is_alike(task, image, then, state)) {
        return false;
      }
    }
  }
  return true;
}

// Of an image that nothing but its lane or memory holds: released a period later, by
// the image of what released the task.
bool RecurrenceFinder::release_is_alike(TaskId task, TaskId image, const Snapshot& then,
                                        const ReplayState& state) const {
  if (state.unmet[image] > 0 || graph_.dependency_count[image] == 0) {
    return true;
  }
  const Timeline& timeline = state.timeline;
  if (timeline.tasks[image].ready - state.now != timeline.tasks[task].ready - then.now) {
    return false;
  }
  const auto has_started = [&](TaskId t) {
    const LaneState& lane = state.lanes[graph_.tasks[t].lane];
    return position_[t] < lane.position || (position_[t] == lane.position && runs(lane.stage));
  };
  // Of a task that has started, cause_task tells who released it only if that was its
  // cause; if not, its lane or memory held it longer, and who released it is forgotten.
  const bool known = !has_started(task) || timeline.tasks[task].cause == Cause::dependency;
  return has_started(image) || !known ||
         timeline.tasks[image].cause_task == image_of(timeline.tasks[task].cause_task);
}

// What all tasks of the window allocate in a pool, or more than there is.
std::int64_t RecurrenceFinder::taken_by_window(PoolId pool, const ReplayState& state) const {
  const std::int64_t capacity = state.machine.pools[pool].capacity;
  std::int64_t taken = 0;
  for (LaneId lane = 0; lane < begin_.size(); ++lane) {
    for (std::uint32_t at = begin_[lane]; at < end_[lane]; ++at) {
      for (const MemoryChange& change : graph_.allocations_of(graph_.lane_tasks[at])) {
        const std::int64_t runs = change.pool == pool ? runs_so_far(lane, at, state) : 0;
        if (runs > 0 && change.bytes > (capacity - taken) / runs) {
          return std::numeric_limits<std::int64_t>::max();
        }
        taken += change.bytes * runs;
      }
    }
  }
  return taken;
}

// How often the task at a position ran: loops inside the window were skipped through.
std::int64_t RecurrenceFinder::runs_so_far(LaneId lane, std::uint32_t at,
                                           const ReplayState& state) const {
  std::int64_t runs = 1;
  for (const Repeat& repeat : state.timeline.repeats) {
    runs *= repeat.holds(lane, at) ? 1 + static_cast<std::int64_t>(repeat.times) : 1;
  }
  return runs;
}

std::uint64_t RecurrenceFinder::skips_that_fit(const Snapshot& then,
                                               const ReplayState& state) const {
  const std::vector<std::int64_t>& held = state.ledger.held_by_owner();
  std::uint64_t fitting = std::numeric_limits<std::uint64_t>::max();
  for (PoolId pool = 0; pool < state.machine.pools.size(); ++pool) {
    const Pool& described = state.machine.pools[pool];
    bool changes = false;
    std::int64_t growth = 0; // of the whole pool
    for (std::size_t owner = 0; owner < described.owners.size(); ++owner) {
      const std::size_t at = state.ledger.first_owner(pool) + owner;
      const std::int64_t change = held[at] - then.held[at];
      changes = changes || change != 0;
      growth += change;
      if (change < 0) { // nobody gives back more than there is
        fitting = std::min(fitting, static_cast<std::uint64_t>(held[at] / -change));
      }
    }
    if (changes && described.mode == PoolMode::stall) {
      fitting = std::min(fitting, windows_with_room(pool, growth, state));
    }
  }
  return fitting;
}

// The k-th window after this one starts at the level before it plus k times the growth.
std::uint64_t RecurrenceFinder::windows_with_room(PoolId pool, std::int64_t growth,
                                                  const ReplayState& state) const {
  const std::int64_t taken = taken_by_window(pool, state);
  const std::int64_t room_before = state.ledger.room(pool) + growth;
  const std::int64_t room = std::min(room_before, room_before - growth);
  if (taken > room) {
    return 0; // the window itself may have waited
  }
  return growth <= 0 ? std::numeric_limits<std::uint64_t>::max()
                     : static_cast<std::uint64_t>((room - taken) / growth) + 1;
}

void RecurrenceFinder::skip(const Snapshot& then, std::uint64_t times, std::size_t loop,
                            ReplayState& state) {
  const SimTime period = state.now - then.now;
  if (period > SimTime{0} && times > static_cast<std::uint64_t>(longest_time / period)) {
    static_cast<void>(later(longest_time, period)); // reports the overflow
  }
  const SimTime shift = period * static_cast<std::int64_t>(times);
  state.now = later(state.now, shift);
  Timeline& timeline = state.timeline;
  for (LaneId lane = 0; lane < begin_.size(); ++lane) {
    const std::uint32_t length = end_[lane] - begin_[lane];
    if (length == 0) {
      continue;
    }
    LaneState& head = state.lanes[lane];
    head.free_since += shift;
    head.ready_since += shift;
    if (runs(head.stage)) {
      timeline.tasks[head.head].start += shift;
    }
    for (std::uint32_t at = end_[lane]; at < reach_[lane] + length; ++at) {
      const TaskId task = graph_.lane_tasks[at];
      if (state.unmet[task] == 0 && graph_.dependency_count[task] > 0) {
        timeline.tasks[task].ready += shift;
      }
    }
  }
  state.events.shift(shift);
  state.flows.shift(shift);
  state.flows.solver_calls += times * (state.flows.solver_calls - then.solver_calls);
  state.ledger.repeat_since(then.held, times);
  timeline.repeats.push_back({begin_, end_, times, period, loop});
  last_skip_ = state.now;
}

} // namespace spillway
