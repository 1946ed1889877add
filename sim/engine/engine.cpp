#include "sim/engine/engine.hpp"

#include "sim/engine/deadlock_report.hpp"
#include "sim/engine/event_heap.hpp"
#include "sim/engine/fair_share.hpp"
#include "sim/engine/memory_ledger.hpp"
#include "sim/engine/sharing_domains.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr double ps_per_second = 1e12;
// Sums of two times below this cannot overflow.
constexpr SimTime longest{std::int64_t{1} << 62};

[[nodiscard]] SimTime later(SimTime now, SimTime duration) {
  if (duration > longest - now) {
    throw std::overflow_error("the simulated time exceeds 2^62 ps (53 days)");
  }
  return now + duration;
}

[[nodiscard]] SimTime flow_time(double work, double rate) {
  const double ps = std::ceil(work / rate * ps_per_second);
  if (!(ps <= static_cast<double>(longest.count()))) {
    throw std::overflow_error("a flow takes longer than 2^62 ps (53 days)");
  }
  return SimTime{static_cast<std::int64_t>(ps)};
}

enum class Phase : std::uint8_t {
  idle,    // the head has not started
  starved, // the head waits for memory
  fixed,   // nothing but time: a fixed task, or the latency of a flow without work
  latency, // of a flow that will move something
  flowing,
};

struct LaneState {
  TaskId head = no_id;        // running, or the next to run; no_id = none left
  std::uint32_t position = 0; // of the head, in TaskGraph::lane_tasks
  Phase phase = Phase::idle;
  SimTime free_since{0};  // end of the task before the head
  SimTime ready_since{0}; // when the head could have started but for memory
  // While starved.
  PoolId short_of = no_id;
  LaneId next_starved = no_id; // of the same pool
  // While flowing. `remaining` holds as of `updated`, the last change of rate.
  ResourceId bound_by = no_id;
  SimTime bound_since{0};
  SimTime updated{0};
  double remaining = 0;
  double rate = 0;
  double rate_limit = 0;
  double alone_rate = 0;
};

class Replay {
public:
  Replay(const TaskGraph& graph, const Machine& machine);
  [[nodiscard]] Timeline run();

private:
  // One instant.
  void end_everything_due();
  void start_candidates();
  void solve_dirty_domains();

  void start_head(LaneId lane);
  void record_cause(const LaneState& state, LaneId lane);
  void end_task(LaneId lane);
  void advance(LaneId lane);

  void starve(LaneId lane, PoolId pool);
  void free_memory(TaskId task);
  void wake_starved_lanes();

  void begin_flowing(LaneId lane);
  void end_flow(LaneId lane);
  void set_share(LaneId lane, const FlowShare& share);
  void settle_binding(LaneId lane);
  void mark_dirty(std::uint32_t domain);

  [[noreturn]] void report_deadlock() const;

  const TaskGraph& graph_;
  const Machine& machine_;
  Timeline timeline_;
  SimTime now_{0};
  std::size_t ended_ = 0;
  EventHeap heap_;
  MemoryLedger ledger_;
  SharingDomains domains_;
  FairShareSolver solver_;
  std::vector<LaneState> lanes_;
  std::vector<std::uint32_t> unmet_; // per task: dependencies that have not ended
  std::vector<double> alone_rate_;   // per route, without the task's own limit
  std::vector<LaneId> candidates_;   // their heads may start now
  // Per lane and position on its flow's route: for how long that use bound the
  // flow below the rate it would have alone. Zero between flows.
  std::size_t longest_route_ = 0;
  std::vector<SimTime> bound_time_;
  // Per pool: the starved lanes as a list through LaneState::next_starved.
  std::vector<LaneId> first_starved_;
  std::vector<TaskId> freed_last_by_;
  std::vector<PoolId> freed_pools_; // with starved lanes, since they were last woken
  std::vector<char> freed_;         // per pool: listed in freed_pools_
  std::vector<std::uint32_t> dirty_domains_;
  std::vector<char> dirty_; // per domain: listed in dirty_domains_
  std::vector<FlowDemand> demands_;
  std::vector<FlowShare> shares_;
};

Replay::Replay(const TaskGraph& graph, const Machine& machine)
    : graph_(graph), machine_(machine), heap_(machine.lanes.size()),
      ledger_(machine.pools, graph.initial), domains_(graph, machine.resources.size()),
      solver_(machine.resources.size()), lanes_(machine.lanes.size()),
      unmet_(graph.dependency_count), first_starved_(machine.pools.size(), no_id),
      freed_last_by_(machine.pools.size(), no_id), freed_(machine.pools.size(), 0),
      dirty_(domains_.count(), 0) {
  const std::size_t count = graph.task_count();
  timeline_.ready.assign(count, SimTime{0});
  timeline_.start.assign(count, SimTime{0});
  timeline_.end.assign(count, SimTime{0});
  timeline_.cause.assign(count, Cause::beginning);
  timeline_.cause_task.assign(count, no_id);
  timeline_.cause_pool.assign(count, no_id);
  timeline_.lost_to_sharing.assign(count, SimTime{0});
  timeline_.bound_by.assign(count, no_id);

  candidates_.reserve(lanes_.size());
  freed_pools_.reserve(machine.pools.size());
  dirty_domains_.reserve(domains_.count());
  demands_.reserve(domains_.most_members());
  shares_.reserve(domains_.most_members());
  for (RouteId route = 0; route + std::size_t{1} < graph.route_offset.size(); ++route) {
    double alone = std::numeric_limits<double>::infinity();
    for (const Use& use : graph.uses_of(route)) {
      alone = std::min(alone, machine.resources[use.resource].capacity / use.weight);
    }
    alone_rate_.push_back(alone);
    longest_route_ = std::max(longest_route_, graph.uses_of(route).size());
  }
  bound_time_.assign(lanes_.size() * longest_route_, SimTime{0});
}

Timeline Replay::run() {
  for (LaneId lane = 0; lane < lanes_.size(); ++lane) {
    LaneState& state = lanes_[lane];
    state.position = graph_.lane_offset[lane];
    if (state.position < graph_.lane_offset[lane + 1]) {
      state.head = graph_.lane_tasks[state.position];
      if (unmet_[state.head] == 0) {
        candidates_.push_back(lane);
      }
    }
  }
  start_candidates();
  while (!heap_.empty()) {
    now_ = heap_.top().time;
    do {
      // Another round when something that started takes no time at all.
      end_everything_due();
      start_candidates();
    } while (!heap_.empty() && heap_.top().time == now_);
    solve_dirty_domains();
  }
  if (ended_ < graph_.task_count()) {
    report_deadlock();
  }
  timeline_.makespan = now_;
  ledger_.report(timeline_);
  return std::move(timeline_);
}

void Replay::end_everything_due() {
  while (!heap_.empty() && heap_.top().time == now_) {
    const LaneId lane = heap_.top().lane;
    heap_.pop();
    if (lanes_[lane].phase == Phase::latency) {
      begin_flowing(lane);
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
  if (candidates_.size() > 1) {
    std::sort(candidates_.begin(), candidates_.end(), [this](LaneId a, LaneId b) {
      const SimTime since_a = lanes_[a].ready_since;
      const SimTime since_b = lanes_[b].ready_since;
      return since_a < since_b || (since_a == since_b && a < b);
    });
  }
  for (const LaneId lane : candidates_) {
    start_head(lane);
  }
  candidates_.clear();
}

void Replay::start_head(LaneId lane) {
  LaneState& state = lanes_[lane];
  const TaskId task = state.head;
  const std::span<const MemoryChange> allocations = graph_.allocations_of(task);
  if (!allocations.empty()) {
    const PoolId pool = ledger_.first_pool_without_room(allocations);
    if (pool != no_id) {
      starve(lane, pool);
      return;
    }
    ledger_.allocate(allocations, now_, task);
  }
  record_cause(state, lane);
  timeline_.start[task] = now_;
  state.phase = graph_.work[task] > 0 ? Phase::latency : Phase::fixed;
  heap_.set(lane, later(now_, graph_.fixed_time[task]));
}

// The rule stands in timeline.hpp.
void Replay::record_cause(const LaneState& state, LaneId lane) {
  const TaskId task = state.head;
  Cause cause = Cause::beginning;
  TaskId by = no_id;
  SimTime when{-1};
  if (state.position > graph_.lane_offset[lane]) {
    cause = Cause::lane;
    by = graph_.lane_tasks[state.position - 1];
    when = state.free_since;
  }
  const TaskId released_by = timeline_.cause_task[task];
  if (released_by != no_id) {
    const SimTime ready = timeline_.ready[task];
    if (ready > when || (ready == when && graph_.lane[released_by] != lane)) {
      cause = Cause::dependency;
      by = released_by;
      when = ready;
    }
  }
  if (state.phase == Phase::starved && now_ > when) {
    cause = Cause::memory;
    by = freed_last_by_[state.short_of];
    timeline_.cause_pool[task] = state.short_of;
  }
  timeline_.cause[task] = cause;
  timeline_.cause_task[task] = by;
}

void Replay::end_task(LaneId lane) {
  const TaskId task = lanes_[lane].head;
  timeline_.end[task] = now_;
  ++ended_;
  if (lanes_[lane].phase == Phase::flowing) {
    end_flow(lane);
  }
  free_memory(task);
  for (const TaskId successor : graph_.successors_of(task)) {
    if (--unmet_[successor] == 0) {
      timeline_.ready[successor] = now_;
      timeline_.cause_task[successor] = task; // until it starts: who released it last
      const LaneId other = graph_.lane[successor];
      if (lanes_[other].head == successor) {
        lanes_[other].ready_since = now_;
        candidates_.push_back(other);
      }
    }
  }
  advance(lane);
}

void Replay::advance(LaneId lane) {
  LaneState& state = lanes_[lane];
  state.phase = Phase::idle;
  state.free_since = now_;
  ++state.position;
  if (state.position == graph_.lane_offset[lane + 1]) {
    state.head = no_id;
    return;
  }
  state.head = graph_.lane_tasks[state.position];
  if (unmet_[state.head] == 0) {
    state.ready_since = now_;
    candidates_.push_back(lane);
  }
}

void Replay::starve(LaneId lane, PoolId pool) {
  LaneState& state = lanes_[lane];
  state.phase = Phase::starved;
  state.short_of = pool;
  state.next_starved = first_starved_[pool];
  first_starved_[pool] = lane;
}

void Replay::free_memory(TaskId task) {
  for (const MemoryChange& change : graph_.frees_of(task)) {
    ledger_.release(change);
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
    for (LaneId lane = first_starved_[pool]; lane != no_id; lane = lanes_[lane].next_starved) {
      candidates_.push_back(lane);
    }
    first_starved_[pool] = no_id;
    freed_[pool] = 0;
  }
  freed_pools_.clear();
}

void Replay::begin_flowing(LaneId lane) {
  LaneState& state = lanes_[lane];
  const TaskId task = state.head;
  const RouteId route = graph_.route[task];
  state.phase = Phase::flowing;
  state.remaining = graph_.work[task];
  state.rate = 0;
  state.rate_limit = graph_.rate_limit[task];
  state.alone_rate = std::min(state.rate_limit, alone_rate_[route]);
  state.updated = now_;
  state.bound_by = no_id;
  state.bound_since = now_;
  const std::uint32_t domain = domains_.of_route(route);
  if (domain == no_id) {
    set_share(lane, {state.rate_limit, no_id});
  } else {
    domains_.insert(domain, lane);
    mark_dirty(domain);
  }
}

void Replay::end_flow(LaneId lane) {
  LaneState& state = lanes_[lane];
  const TaskId task = state.head;
  const RouteId route = graph_.route[task];
  const std::uint32_t domain = domains_.of_route(route);
  if (domain == no_id) {
    return;
  }
  domains_.erase(domain, lane);
  mark_dirty(domain);
  settle_binding(lane);

  const SimTime alone = graph_.fixed_time[task] + flow_time(graph_.work[task], state.alone_rate);
  const SimTime lost = std::max(SimTime{0}, now_ - timeline_.start[task] - alone);
  timeline_.lost_to_sharing[task] = lost;
  SimTime longest_bound{0};
  SimTime* bound_time = bound_time_.data() + lane * longest_route_;
  for (const Use& use : graph_.uses_of(route)) {
    if (lost > SimTime{0} && *bound_time > longest_bound) {
      longest_bound = *bound_time;
      timeline_.bound_by[task] = use.resource;
    }
    *bound_time++ = SimTime{0};
  }
}

void Replay::set_share(LaneId lane, const FlowShare& share) {
  LaneState& state = lanes_[lane];
  if (share.rate == state.rate && share.bound_by == state.bound_by) {
    return;
  }
  settle_binding(lane);
  state.bound_by = share.bound_by;
  if (share.rate == state.rate) {
    return; // and the end stays as it is
  }
  const double elapsed = static_cast<double>((now_ - state.updated).count()) / ps_per_second;
  state.remaining = std::max(0.0, state.remaining - state.rate * elapsed);
  state.rate = share.rate;
  state.updated = now_;
  heap_.set(lane, later(now_, flow_time(state.remaining, state.rate)));
}

void Replay::settle_binding(LaneId lane) {
  LaneState& state = lanes_[lane];
  if (state.bound_by != no_id && state.rate < state.alone_rate) {
    const std::span<const Use> uses = graph_.uses_of(graph_.route[state.head]);
    std::size_t at = 0;
    while (uses[at].resource != state.bound_by) {
      ++at;
    }
    bound_time_[lane * longest_route_ + at] += now_ - state.bound_since;
  }
  state.bound_since = now_;
}

void Replay::mark_dirty(std::uint32_t domain) {
  if (dirty_[domain] == 0) {
    dirty_[domain] = 1;
    dirty_domains_.push_back(domain);
  }
}

void Replay::solve_dirty_domains() {
  for (const std::uint32_t domain : dirty_domains_) {
    dirty_[domain] = 0;
    const std::span<const LaneId> members = domains_.members(domain);
    if (members.empty()) {
      continue;
    }
    demands_.clear();
    for (const LaneId lane : members) {
      const RouteId route = graph_.route[lanes_[lane].head];
      demands_.push_back({graph_.uses_of(route), lanes_[lane].rate_limit});
    }
    solver_.solve(demands_, machine_.resources, shares_);
    ++timeline_.solver_calls;
    for (std::size_t i = 0; i < members.size(); ++i) {
      set_share(members[i], shares_[i]);
    }
  }
  dirty_domains_.clear();
}

void Replay::report_deadlock() const {
  std::vector<StuckLane> stuck;
  bool out_of_memory = false;
  for (LaneId lane = 0; lane < lanes_.size(); ++lane) {
    const LaneState& state = lanes_[lane];
    if (state.head == no_id) {
      continue;
    }
    StuckLane& entry = stuck.emplace_back(StuckLane{lane, state.head, no_id, 0});
    if (state.phase == Phase::starved) {
      entry.short_of = state.short_of;
      entry.free_bytes = ledger_.room(state.short_of);
      out_of_memory = true;
    }
  }
  throw Deadlock(describe_deadlock(graph_, machine_, stuck), out_of_memory);
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

Timeline replay(const TaskGraph& graph, const Machine& machine) {
  check_fit(graph, machine);
  return Replay(graph, machine).run();
}

} // namespace spillway
