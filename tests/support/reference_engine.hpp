// A second engine to compare with: no heap, no domains, no ledger, no lists of
// what changed. Whatever it wants to know it works out anew from the state of
// all tasks. Only the arithmetic of a flow's progress is the engine's.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace spillway::test {

struct NaiveFlow {
  std::span<const Use> uses;
  double limit = 0;
  double rate = 0; // 0 = still growing
  ResourceId bound_by = no_id;
};

// Max-min rates by sorting what could stop a flow next and taking the lowest.
// `order` keeps flows in the order in which they stopped, so that the capacity
// left over is the same sum in the same order as in the engine.
inline void naive_max_min(std::vector<NaiveFlow>& flows, const std::vector<Resource>& resources) {
  std::vector<std::size_t> order;
  while (order.size() < flows.size()) {
    std::vector<double> full_at(resources.size(), std::numeric_limits<double>::infinity());
    std::vector<double> stops;
    for (ResourceId resource = 0; resource < resources.size(); ++resource) {
      const auto weight_of = [resource](const NaiveFlow& flow) {
        double weight = 0;
        for (const Use& use : flow.uses) {
          weight += use.resource == resource ? use.weight : 0;
        }
        return weight;
      };
      double left = resources[resource].capacity;
      for (const std::size_t stopped : order) {
        left -= weight_of(flows[stopped]) * flows[stopped].rate;
      }
      double weights = 0;
      for (const NaiveFlow& flow : flows) {
        weights += flow.rate == 0 ? weight_of(flow) : 0;
      }
      if (weights > 0) {
        full_at[resource] = left / weights;
        stops.push_back(full_at[resource]);
      }
    }
    for (const NaiveFlow& flow : flows) {
      if (flow.rate == 0) {
        stops.push_back(flow.limit);
      }
    }
    std::sort(stops.begin(), stops.end());
    double level = stops.front();
    for (const std::size_t stopped : order) {
      level = std::max(level, flows[stopped].rate); // rounding must not slow anything
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      NaiveFlow& flow = flows[i];
      if (flow.rate != 0) {
        continue;
      }
      if (flow.limit <= level) {
        flow.rate = flow.limit;
        order.push_back(i);
        continue;
      }
      for (const Use& use : flow.uses) {
        if (full_at[use.resource] <= level) {
          flow.rate = level;
          flow.bound_by = use.resource;
          order.push_back(i);
          break;
        }
      }
    }
  }
}

class ReferenceEngine {
public:
  ReferenceEngine(const TaskGraph& graph, const Machine& machine)
      : graph_(graph), machine_(machine), tasks_(graph.task_count()) {
    for (TaskId task = 0; task < graph.task_count(); ++task) {
      for (const TaskId successor : graph.successors_of(task)) {
        tasks_[successor].dependencies.push_back(task);
      }
    }
    result.tasks.resize(graph.task_count());
    for (PoolId pool = 0; pool < machine.pools.size(); ++pool) {
      result.peaks.push_back({0, SimTime{0}, no_id, {}});
      note_peak(pool, SimTime{0}, no_id);
    }
  }

  // False when tasks remain that can never start.
  [[nodiscard]] bool run() {
    start_what_can_start();
    for (;;) {
      SimTime next = SimTime::max();
      for (const State& state : tasks_) {
        next = is_running(state) ? std::min(next, state.until) : next;
      }
      if (next == SimTime::max()) {
        break;
      }
      note_binding(next - now_);
      now_ = next;
      while (end_what_is_due()) {
        start_what_can_start();
      }
      share();
    }
    result.makespan = now_;
    for (PoolId pool = 0; pool < machine_.pools.size(); ++pool) {
      result.final_bytes.push_back(held(pool, no_id));
    }
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const State& state) { return state.stage == Stage::ended; });
  }

  [[nodiscard]] bool anything_waits_for_memory() const {
    return std::any_of(tasks_.begin(), tasks_.end(), [](const State& state) {
      return state.stage == Stage::unstarted && state.short_of != no_id;
    });
  }

  Timeline result; // without solver_calls

private:
  enum class Stage { unstarted, timed, flowing, ended };
  struct State {
    Stage stage = Stage::unstarted;
    std::vector<TaskId> dependencies;
    SimTime until{0};
    SimTime startable_since{-1};
    PoolId short_of = no_id;
    std::size_t ended_as = 0; // the how-manieth task to end
    double remaining = 0;
    double rate = 0;
    SimTime updated{0};
    ResourceId bound_by = no_id;
    std::vector<SimTime> bound_for; // per use of the route
  };

  [[nodiscard]] static bool is_running(const State& state) {
    return state.stage == Stage::timed || state.stage == Stage::flowing;
  }

  [[nodiscard]] TaskId previous_on_lane(TaskId task) const {
    for (TaskId other = task; other-- > 0;) {
      if (graph_.tasks[other].lane == graph_.tasks[task].lane) {
        return other;
      }
    }
    return no_id;
  }

  // Bytes held of a pool, by one owner or (no_id) by all.
  [[nodiscard]] std::int64_t held(PoolId pool, OwnerId owner) const {
    std::int64_t bytes = 0;
    const auto add = [&](std::span<const MemoryChange> changes, std::int64_t sign) {
      for (const MemoryChange& change : changes) {
        if (change.pool == pool && (owner == no_id || owner == change.owner)) {
          bytes += sign * change.bytes;
        }
      }
    };
    add(graph_.initial, 1);
    for (TaskId task = 0; task < tasks_.size(); ++task) {
      if (tasks_[task].stage != Stage::unstarted) {
        add(graph_.allocations_of(task), 1);
      }
      if (tasks_[task].stage == Stage::ended) {
        add(graph_.frees_of(task), -1);
      }
    }
    return bytes;
  }

  [[nodiscard]] bool fits(TaskId task, PoolId pool) const {
    std::int64_t bytes = 0;
    for (const MemoryChange& change : graph_.allocations_of(task)) {
      bytes += change.pool == pool ? change.bytes : 0;
    }
    return bytes == 0 || machine_.pools[pool].mode == PoolMode::record ||
           held(pool, no_id) + bytes <= machine_.pools[pool].capacity;
  }

  void note_peak(PoolId pool, SimTime time, TaskId task) {
    if (held(pool, no_id) > result.peaks[pool].bytes || result.peaks[pool].owners.empty()) {
      result.peaks[pool] = {held(pool, no_id), time, task, {}};
      for (OwnerId owner = 0; owner < machine_.pools[pool].owners.size(); ++owner) {
        result.peaks[pool].owners.push_back(held(pool, owner));
      }
    }
  }

  [[nodiscard]] double alone_rate(TaskId task) const {
    double rate = graph_.tasks[task].rate_limit;
    for (const Use& use : graph_.uses_of(graph_.tasks[task].route)) {
      rate = std::min(rate, machine_.resources[use.resource].capacity / use.weight);
    }
    return rate;
  }

  [[nodiscard]] static SimTime time_for(double work, double rate) {
    return SimTime{static_cast<std::int64_t>(std::ceil(work / rate * 1e12))};
  }

  // Ends (and ends of latencies) of this instant that are known so far.
  [[nodiscard]] bool end_what_is_due() {
    std::vector<TaskId> due;
    for (TaskId task = 0; task < tasks_.size(); ++task) {
      if (is_running(tasks_[task]) && tasks_[task].until == now_) {
        due.push_back(task);
      }
    }
    std::sort(due.begin(), due.end(),
              [this](TaskId a, TaskId b) { return graph_.tasks[a].lane < graph_.tasks[b].lane; });
    ended_now_.clear();
    for (const TaskId task : due) {
      State& state = tasks_[task];
      if (state.stage == Stage::timed && graph_.tasks[task].work > 0) {
        state.stage = Stage::flowing;
        state.until = SimTime::max();
        state.remaining = graph_.tasks[task].work;
        state.updated = now_;
        state.bound_for.assign(graph_.uses_of(graph_.tasks[task].route).size(), SimTime{0});
        continue;
      }
      if (state.stage == Stage::flowing) {
        note_loss(task);
      }
      state.stage = Stage::ended;
      state.ended_as = ++ended_;
      result.tasks[task].end = now_;
      ended_now_.push_back(task);
    }
    return !due.empty();
  }

  void note_loss(TaskId task) {
    const SimTime alone =
        graph_.tasks[task].fixed_time + time_for(graph_.tasks[task].work, alone_rate(task));
    const SimTime lost = now_ - result.tasks[task].start - alone;
    if (lost <= SimTime{0}) {
      return;
    }
    result.tasks[task].lost_to_sharing = lost;
    const std::vector<SimTime>& times = tasks_[task].bound_for;
    const auto longest = std::max_element(times.begin(), times.end());
    if (longest != times.end() && *longest > SimTime{0}) {
      const auto at = static_cast<std::size_t>(longest - times.begin());
      result.tasks[task].bound_by = graph_.uses_of(graph_.tasks[task].route)[at].resource;
    }
  }

  void start_what_can_start() {
    std::vector<TaskId> startable;
    for (TaskId task = 0; task < tasks_.size(); ++task) {
      State& state = tasks_[task];
      const TaskId previous = previous_on_lane(task);
      bool can = state.stage == Stage::unstarted &&
                 (previous == no_id || tasks_[previous].stage == Stage::ended);
      for (const TaskId dependency : state.dependencies) {
        can = can && tasks_[dependency].stage == Stage::ended;
      }
      if (can) {
        startable.push_back(task);
        state.startable_since = state.startable_since < SimTime{0} ? now_ : state.startable_since;
      }
    }
    std::sort(startable.begin(), startable.end(), [this](TaskId a, TaskId b) {
      return std::pair(tasks_[a].startable_since, graph_.tasks[a].lane) <
             std::pair(tasks_[b].startable_since, graph_.tasks[b].lane);
    });
    for (const TaskId task : startable) {
      start(task);
    }
  }

  void start(TaskId task) {
    State& state = tasks_[task];
    PoolId lacking = no_id;
    for (PoolId pool = 0; pool < machine_.pools.size() && lacking == no_id; ++pool) {
      lacking = fits(task, pool) ? no_id : pool;
    }
    if (lacking == no_id) {
      note_cause(task);
      result.tasks[task].start = now_;
      state.stage = Stage::timed;
      state.until = now_ + graph_.tasks[task].fixed_time;
      for (const MemoryChange& change : graph_.allocations_of(task)) {
        note_peak(change.pool, now_, task);
      }
    } else if (state.short_of == no_id || last_to_free(state.short_of) != no_id) {
      state.short_of = lacking;
    }
  }

  // In the latest round of ends.
  [[nodiscard]] TaskId last_to_free(PoolId pool) const {
    TaskId last = no_id;
    for (const TaskId ended : ended_now_) {
      for (const MemoryChange& change : graph_.frees_of(ended)) {
        last = change.pool == pool ? ended : last;
      }
    }
    return last;
  }

  void note_cause(TaskId task) {
    SimTime when{-1};
    const TaskId previous = previous_on_lane(task);
    if (previous != no_id) {
      when = result.tasks[previous].end;
      result.tasks[task].cause = Cause::lane;
      result.tasks[task].cause_task = previous;
    }
    const State& state = tasks_[task];
    const auto last = std::max_element(
        state.dependencies.begin(), state.dependencies.end(),
        [this](TaskId a, TaskId b) { return tasks_[a].ended_as < tasks_[b].ended_as; });
    if (last != state.dependencies.end()) {
      result.tasks[task].ready = result.tasks[*last].end;
      const bool elsewhere = graph_.tasks[*last].lane != graph_.tasks[task].lane;
      if (result.tasks[*last].end > when || (result.tasks[*last].end == when && elsewhere)) {
        when = result.tasks[*last].end;
        result.tasks[task].cause = Cause::dependency;
        result.tasks[task].cause_task = *last;
      }
    }
    if (state.short_of != no_id && now_ > when) {
      result.tasks[task].cause = Cause::memory;
      result.tasks[task].cause_pool = state.short_of;
      result.tasks[task].cause_task = last_to_free(state.short_of);
    }
  }

  void note_binding(SimTime elapsed) {
    for (TaskId task = 0; task < tasks_.size(); ++task) {
      State& state = tasks_[task];
      if (state.stage != Stage::flowing || state.bound_by == no_id ||
          state.rate >= alone_rate(task)) {
        continue;
      }
      const std::span<const Use> uses = graph_.uses_of(graph_.tasks[task].route);
      for (std::size_t i = 0; i < uses.size(); ++i) {
        state.bound_for[i] += uses[i].resource == state.bound_by ? elapsed : SimTime{0};
      }
    }
  }

  // All flows of the machine at once.
  void share() {
    std::vector<TaskId> flowing;
    for (TaskId task = 0; task < tasks_.size(); ++task) {
      if (tasks_[task].stage == Stage::flowing) {
        flowing.push_back(task);
      }
    }
    std::sort(flowing.begin(), flowing.end(),
              [this](TaskId a, TaskId b) { return graph_.tasks[a].lane < graph_.tasks[b].lane; });
    std::vector<NaiveFlow> flows;
    for (const TaskId task : flowing) {
      flows.push_back(
          {graph_.uses_of(graph_.tasks[task].route), graph_.tasks[task].rate_limit, 0, no_id});
    }
    naive_max_min(flows, machine_.resources);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      State& state = tasks_[flowing[i]];
      state.bound_by = flows[i].bound_by;
      if (flows[i].rate != state.rate) {
        const double seconds = static_cast<double>((now_ - state.updated).count()) / 1e12;
        state.remaining = std::max(0.0, state.remaining - state.rate * seconds);
        state.rate = flows[i].rate;
        state.updated = now_;
        state.until = now_ + time_for(state.remaining, state.rate);
      }
    }
  }

  const TaskGraph& graph_;
  const Machine& machine_;
  std::vector<State> tasks_;
  SimTime now_{0};
  std::size_t ended_ = 0;
  std::vector<TaskId> ended_now_; // in the latest round of ends
};

} // namespace spillway::test
