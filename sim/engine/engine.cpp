#include "sim/engine/engine.hpp"

#include "sim/engine/deadlock_report.hpp"
#include "sim/engine/recurrence.hpp"
#include "sim/engine/replay_state.hpp"
#include "sim/engine/sim_clock.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

class Replay {
public:
  Replay(const TaskGraph& graph, const Machine& machine, std::span<const Loop> loops,
         std::span<const std::string> task_names);
  [[nodiscard]] Timeline run();

private:
  void take_first_heads();
  void finish_instant();
  void end_everything_due();
  void start_candidates();

  void start_head(LaneId lane);
  void record_cause(const LaneState& state, LaneId lane);
  void end_task(LaneId lane);
  void release_successors(TaskId task);
  void advance(LaneId lane);

  void starve(LaneId lane, PoolId pool);
  void free_memory(TaskId task);
  void wake_starved_lanes();

  [[nodiscard]] std::vector<Shortage> shortages_of(TaskId task) const;
  [[noreturn]] void report_deadlock() const;

  const TaskGraph& graph_;
  std::span<const std::string> task_names_;
  ReplayState state_;
  Timeline& timeline_; // of state_
  RecurrenceFinder recurrence_;
  bool iteration_ended_ = false;
  std::size_t ended_ = 0;
  std::vector<LaneId> candidates_; // their heads may start now
  // Per pool: the starved lanes as a list through LaneState::next_starved.
  std::vector<LaneId> first_starved_;
  std::vector<TaskId> freed_last_by_;
  std::vector<PoolId> freed_pools_; // with starved lanes, since they were last woken
  std::vector<char> freed_;         // per pool: listed in freed_pools_
};

Replay::Replay(const TaskGraph& graph, const Machine& machine, std::span<const Loop> loops,
               std::span<const std::string> task_names)
    : graph_(graph), task_names_(task_names), state_(graph, machine), timeline_(state_.timeline),
      recurrence_(graph, loops), first_starved_(machine.pools.size(), no_id),
      freed_last_by_(machine.pools.size(), no_id), freed_(machine.pools.size(), 0) {
  candidates_.reserve(machine.lanes.size());
  freed_pools_.reserve(machine.pools.size());
}

Timeline Replay::run() {
  take_first_heads();
  start_candidates();
  finish_instant();
  while (!state_.events.empty()) {
    state_.now = state_.events.top().time;
    finish_instant();
  }
  if (ended_ < graph_.task_count()) {
    report_deadlock();
  }
  timeline_.makespan = state_.now;
  timeline_.solver_calls = state_.flows.solver_calls;
  state_.ledger.report(timeline_);
  return std::move(timeline_);
}

// Ends and starts come in rounds: another one when something that started takes no time at
// all. Then what moves now shares anew.
void Replay::finish_instant() {
  EventTree& events = state_.events;
  while (!events.empty() && events.top().time == state_.now) {
    end_everything_due();
    start_candidates();
  }
  state_.flows.solve_dirty_domains(state_.now, events);
  if (iteration_ended_) {
    iteration_ended_ = false;
    recurrence_.end_of_iteration(state_);
  }
}

void Replay::take_first_heads() {
  for (LaneId lane = 0; lane < state_.lanes.size(); ++lane) {
    LaneState& state = state_.lanes[lane];
    state.position = graph_.lane_offset[lane];
    state.end = graph_.lane_offset[lane + 1];
    if (state.position < state.end) {
      state.head = graph_.lane_tasks[state.position];
      if (state_.unmet[state.head] == 0) {
        candidates_.push_back(lane);
      }
    }
  }
}

void Replay::end_everything_due() {
  EventTree& events = state_.events;
  while (!events.empty() && events.top().time == state_.now) {
    const LaneId lane = events.top().lane;
    events.pop();
    if (state_.lanes[lane].stage == HeadStage::latency) {
      state_.lanes[lane].stage = HeadStage::flowing;
      state_.flows.begin(lane, state_.lanes[lane].head, state_.now, events);
    } else {
      end_task(lane);
    }
  }
  wake_starved_lanes();
}

// In the order in which the heads became ready, which only starved lanes did
// before now; then by lane. A lane is a candidate at most once: its head becomes
// ready once, and it is starved of one pool.
void Replay::start_candidates() {
  const auto before = [this](LaneId a, LaneId b) {
    const SimTime since_a = state_.lanes[a].ready_since;
    const SimTime since_b = state_.lanes[b].ready_since;
    return since_a < since_b || (since_a == since_b && a < b);
  };
  if (!std::is_sorted(candidates_.begin(), candidates_.end(), before)) {
    std::sort(candidates_.begin(), candidates_.end(), before);
  }
  for (const LaneId lane : candidates_) {
    start_head(lane);
  }
  candidates_.clear();
}

void Replay::start_head(LaneId lane) {
  LaneState& state = state_.lanes[lane];
  const TaskId task = state.head;
  const std::span<const MemoryChange> allocations = graph_.allocations_of(task);
  if (!allocations.empty()) {
    const PoolId pool = state_.ledger.first_pool_without_room(allocations);
    if (pool != no_id) {
      starve(lane, pool);
      return;
    }
    state_.ledger.allocate(allocations, state_.now, task);
  }
  record_cause(state, lane);
  timeline_.tasks[task].start = state_.now;
  const SimTime time = graph_.tasks[task].fixed_time;
  const bool flows = graph_.tasks[task].work > 0;
  if (flows && time == SimTime{0}) {
    state.stage = HeadStage::flowing;
    state_.flows.begin(lane, task, state_.now, state_.events);
    return;
  }
  state.stage = flows ? HeadStage::latency : HeadStage::fixed;
  state_.events.set(lane, later(state_.now, time));
}

// The rule stands in timeline.hpp.
void Replay::record_cause(const LaneState& state, LaneId lane) {
  const TaskId task = state.head;
  Cause cause = Cause::beginning;
  TaskId by = no_id;
  SimTime when{-1};
  if (state.previous != no_id) {
    cause = Cause::lane;
    by = state.previous;
    when = state.free_since;
  }
  const TaskId released_by = timeline_.tasks[task].cause_task;
  if (released_by != no_id) {
    const SimTime ready = timeline_.tasks[task].ready;
    if (ready > when || (ready == when && graph_.tasks[released_by].lane != lane)) {
      cause = Cause::dependency;
      by = released_by;
      when = ready;
    }
  }
  if (state.stage == HeadStage::starved && state_.now > when) {
    cause = Cause::memory;
    by = freed_last_by_[state.short_of];
    timeline_.tasks[task].cause_pool = state.short_of;
  }
  timeline_.tasks[task].cause = cause;
  timeline_.tasks[task].cause_task = by;
}

void Replay::end_task(LaneId lane) {
  const LaneState& state = state_.lanes[lane];
  const TaskId task = state.head;
  timeline_.tasks[task].end = state_.now;
  ++ended_;
  if (state.stage == HeadStage::flowing) {
    const Flows::Loss loss = state_.flows.end(lane, timeline_.tasks[task].start, state_.now);
    timeline_.tasks[task].lost_to_sharing = loss.lost;
    timeline_.tasks[task].bound_by = loss.bound_by;
  }
  free_memory(task);
  release_successors(task);
  iteration_ended_ = iteration_ended_ || task == recurrence_.next_end();
  advance(lane);
}

void Replay::release_successors(TaskId task) {
  for (const TaskId successor : graph_.successors_of(task)) {
    if (--state_.unmet[successor] == 0) {
      timeline_.tasks[successor].ready = state_.now;
      timeline_.tasks[successor].cause_task = task; // until it starts: who released it last
      LaneState& other = state_.lanes[graph_.tasks[successor].lane];
      if (other.head == successor) {
        other.ready_since = state_.now;
        candidates_.push_back(graph_.tasks[successor].lane);
      }
    }
  }
}

void Replay::advance(LaneId lane) {
  LaneState& state = state_.lanes[lane];
  state.stage = HeadStage::idle;
  state.free_since = state_.now;
  state.previous = state.head;
  ++state.position;
  if (state.position == state.end) {
    state.head = no_id;
    return;
  }
  state.head = graph_.lane_tasks[state.position];
  if (state_.unmet[state.head] == 0) {
    state.ready_since = state_.now;
    candidates_.push_back(lane);
  }
}

void Replay::starve(LaneId lane, PoolId pool) {
  LaneState& state = state_.lanes[lane];
  state.stage = HeadStage::starved;
  state.short_of = pool;
  state.next_starved = first_starved_[pool];
  first_starved_[pool] = lane;
}

void Replay::free_memory(TaskId task) {
  for (const MemoryChange& change : graph_.frees_of(task)) {
    state_.ledger.release(change, task);
    if (first_starved_[change.pool] != no_id) {
      freed_last_by_[change.pool] = task;
      if (freed_[change.pool] == 0) {
        freed_[change.pool] = 1;
        freed_pools_.push_back(change.pool);
      }
    }
  }
}

void Replay::wake_starved_lanes() {
  for (const PoolId pool : freed_pools_) {
    for (LaneId lane = first_starved_[pool]; lane != no_id;
         lane = state_.lanes[lane].next_starved) {
      candidates_.push_back(lane);
    }
    first_starved_[pool] = no_id;
    freed_[pool] = 0;
  }
  freed_pools_.clear();
}

std::vector<Shortage> Replay::shortages_of(TaskId task) const {
  std::vector<Shortage> lacks;
  std::span<const MemoryChange> rest = graph_.allocations_of(task);
  while (!rest.empty()) {
    const PoolId pool = rest.front().pool; // rows are sorted by it
    const auto next = std::ranges::find_if(
        rest, [pool](const MemoryChange& change) { return change.pool != pool; });
    const auto count = static_cast<std::size_t>(next - rest.begin());
    if (state_.ledger.first_pool_without_room(rest.first(count)) != no_id) {
      lacks.push_back({pool, state_.ledger.room(pool)});
    }
    rest = rest.subspan(count);
  }
  return lacks;
}

void Replay::report_deadlock() const {
  std::vector<StuckLane> stuck;
  for (LaneId lane = 0; lane < state_.lanes.size(); ++lane) {
    const LaneState& state = state_.lanes[lane];
    if (state.head == no_id) {
      continue;
    }
    stuck.push_back({lane, state.head, {}});
    if (state.stage == HeadStage::starved) {
      stuck.back().lacks = shortages_of(state.head);
    }
  }
  throw Deadlock(describe_deadlock(graph_, state_.machine, stuck, task_names_), stuck);
}

// A loop without ends would be left out and never be skipped.
void check_loops(const TaskGraph& graph, const Machine& machine, std::span<const Loop> loops) {
  LaneId lane = no_id; // of all ends
  for (const Loop& loop : loops) {
    bool sound =
        loop.left_out == 0 || (loop.tasks.size() == machine.lanes.size() && !loop.ends.empty());
    for (const TaskId end : loop.ends) {
      sound = sound && end < graph.task_count() && (lane == no_id || graph.tasks[end].lane == lane);
      lane = sound ? graph.tasks[end].lane : lane;
    }
    if (!sound) {
      throw std::logic_error("a loop that leaves iterations out needs ends, all on one lane, and "
                             "its tasks by lane");
    }
  }
}

void check_fit(const TaskGraph& graph, const Machine& machine) {
  bool fits = graph.lane_offset.size() == machine.lanes.size() + 1;
  for (const Use& use : graph.route_uses) {
    fits = fits && use.resource < machine.resources.size();
  }
  if (!fits) {
    throw std::logic_error("the task graph was built for another machine");
  }
}

} // namespace

Timeline replay(const TaskGraph& graph, const Machine& machine, std::span<const Loop> loops,
                std::span<const std::string> task_names) {
  check_fit(graph, machine);
  check_loops(graph, machine, loops);
  return Replay(graph, machine, loops, task_names).run();
}

} // namespace spillway
