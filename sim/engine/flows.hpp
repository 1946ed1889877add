// The flows that move something now: what is left of each, at which rate, and
// which resource holds it back.
//
// Remaining work is brought up to date only when a rate changes, so a flow whose
// rate stays needs nothing at all. A flow's end is set once per change of rate.
#pragma once

#include "sim/engine/event_tree.hpp"
#include "sim/engine/fair_share.hpp"
#include "sim/engine/share_cache.hpp"
#include "sim/engine/sharing_domains.hpp"
#include "sim/engine/sim_clock.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace spillway {

class Flows {
public:
  // `remaining` holds as of `updated`, the last change of rate.
  struct Flow {
    TaskId task = no_id; // no_id = the lane moves nothing
    ResourceId bound_by = no_id;
    SimTime bound_since{0};
    SimTime updated{0};
    double remaining = 0;
    double rate = 0;
    double alone_rate = 0;
    double rate_limit = 0;
    RouteId route = no_id;
    bool changed = false; // its rate, since it began
  };
  // What sharing cost a flow, and the resource that bound it for the longest time.
  struct Loss {
    SimTime lost{0};
    ResourceId bound_by = no_id;
  };

  Flows(const TaskGraph& graph, const Machine& machine)
      : graph_(graph), machine_(machine), domains_(graph, machine.resources.size()),
        solver_(machine.resources.size()), cache_(domains_.most_members(), domains_.flow_count()),
        key_(domains_.count(), 0), flows_(machine.lanes.size()), dirty_(domains_.count(), 0) {
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
    bound_time_.assign(flows_.size() * longest_route_, SimTime{0});
  }

  // Its rate comes with the next solve_dirty_domains(), or at once when it shares nothing.
  void begin(LaneId lane, TaskId task, SimTime now, EventTree& events) {
    const RouteId route = graph_.tasks[task].route;
    Flow& flow = flows_[lane];
    flow.task = task;
    flow.bound_by = no_id;
    flow.bound_since = flow.updated = now;
    flow.remaining = graph_.tasks[task].work;
    flow.rate = 0;
    flow.changed = false;
    flow.rate_limit = graph_.tasks[task].rate_limit;
    flow.route = route;
    flow.alone_rate = std::min(flow.rate_limit, alone_rate_[route]);
    const std::uint32_t domain = domains_.of_route(route);
    if (domain == no_id) {
      set_share(lane, {flow.rate_limit, no_id}, now, events);
    } else {
      domains_.insert(domain, lane);
      key_[domain] += ShareCache::key_of(route, flow.rate_limit);
      mark_dirty(domain);
    }
  }

  // `start` is that of the task, latency included.
  [[nodiscard]] Loss end(LaneId lane, SimTime start, SimTime now) {
    Flow& flow = flows_[lane];
    const TaskId task = flow.task;
    const RouteId route = flow.route;
    const std::uint32_t domain = domains_.of_route(route);
    if (domain == no_id) {
      flow.task = no_id;
      return {};
    }
    domains_.erase(domain, lane);
    key_[domain] -= ShareCache::key_of(route, flow.rate_limit);
    mark_dirty(domain);
    flow.task = no_id;
    if (!flow.changed && flow.rate == flow.alone_rate) {
      return {}; // as fast as alone from beginning to end
    }
    settle_binding(lane, now);
    const SimTime alone =
        graph_.tasks[task].fixed_time + flow_time(graph_.tasks[task].work, flow.alone_rate);
    return take_loss(lane, route, now - start - alone);
  }

  void solve_dirty_domains(SimTime now, EventTree& events) {
    for (const std::uint32_t domain : dirty_domains_) {
      dirty_[domain] = 0;
      const std::span<const LaneId> members = domains_.members(domain);
      if (!members.empty()) {
        ++solver_calls;
        const ShareCache::Entry* entry = shares_of(members, key_[domain]);
        for (const LaneId lane : members) {
          set_share(lane, (entry++)->share, now, events);
        }
      }
    }
    dirty_domains_.clear();
  }

  [[nodiscard]] const Flow& of(LaneId lane) const { return flows_[lane]; }
  // By position on the flow's route: how long that use bound it so far.
  [[nodiscard]] std::span<const SimTime> bound_times(LaneId lane) const {
    return {bound_time_.data() + lane * longest_route_, longest_route_};
  }
  // As if everything up to now had happened later.
  void shift(SimTime by) {
    for (Flow& flow : flows_) {
      flow.bound_since += by;
      flow.updated += by;
    }
  }

  std::uint64_t solver_calls = 0;

private:
  // One entry a member, in their order.
  [[nodiscard]] const ShareCache::Entry* shares_of(std::span<const LaneId> members,
                                                   std::uint64_t key) {
    ShareCache::Entry* const entries = cache_.entries(key);
    if (cache_.holds(key, members.size()) && are_those_of(members, entries)) {
      return entries;
    }
    demands_.clear();
    for (const LaneId lane : members) {
      demands_.push_back({graph_.uses_of(flows_[lane].route), flows_[lane].rate_limit});
    }
    solver_.solve(demands_, machine_.resources, shares_);
    cache_.claim(key, members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Flow& flow = flows_[members[i]];
      entries[i] = {flow.route, flow.rate_limit, shares_[i]};
    }
    return entries;
  }

  [[nodiscard]] bool are_those_of(std::span<const LaneId> members,
                                  const ShareCache::Entry* entry) const {
    return std::all_of(members.begin(), members.end(), [&](LaneId lane) {
      const ShareCache::Entry& known = *entry++;
      return known.route == flows_[lane].route && known.rate_limit == flows_[lane].rate_limit;
    });
  }

  void set_share(LaneId lane, const FlowShare& share, SimTime now, EventTree& events) {
    Flow& flow = flows_[lane];
    if (share.rate == flow.rate && share.bound_by == flow.bound_by) {
      return;
    }
    settle_binding(lane, now);
    flow.bound_by = share.bound_by;
    if (share.rate == flow.rate) {
      return; // and the end stays as it is
    }
    if (flow.rate > 0) {
      const double elapsed = static_cast<double>((now - flow.updated).count()) / ps_per_second;
      flow.remaining = std::max(0.0, flow.remaining - flow.rate * elapsed);
      flow.changed = true;
    }
    flow.rate = share.rate;
    flow.updated = now;
    events.set(lane, later(now, flow_time(flow.remaining, flow.rate)));
  }

  // Charges the time since the last change to the resource that bound the flow
  // below the rate that it would have alone.
  void settle_binding(LaneId lane, SimTime now) {
    Flow& flow = flows_[lane];
    if (flow.bound_by != no_id && flow.rate < flow.alone_rate) {
      const std::span<const Use> uses = graph_.uses_of(flow.route);
      std::size_t at = 0;
      while (uses[at].resource != flow.bound_by) {
        ++at;
      }
      bound_time_[lane * longest_route_ + at] += now - flow.bound_since;
    }
    flow.bound_since = now;
  }

  [[nodiscard]] Loss take_loss(LaneId lane, RouteId route, SimTime lost) {
    Loss loss{std::max(SimTime{0}, lost), no_id};
    SimTime longest_bound{0};
    SimTime* bound_time = bound_time_.data() + lane * longest_route_;
    for (const Use& use : graph_.uses_of(route)) {
      if (loss.lost > SimTime{0} && *bound_time > longest_bound) {
        longest_bound = *bound_time;
        loss.bound_by = use.resource;
      }
      *bound_time++ = SimTime{0};
    }
    return loss;
  }

  void mark_dirty(std::uint32_t domain) {
    if (dirty_[domain] == 0) {
      dirty_[domain] = 1;
      dirty_domains_.push_back(domain);
    }
  }

  const TaskGraph& graph_;
  const Machine& machine_;
  SharingDomains domains_;
  FairShareSolver solver_;
  ShareCache cache_;
  std::vector<std::uint64_t> key_; // by domain, of the flows that move now
  std::vector<Flow> flows_;        // by lane
  std::vector<double> alone_rate_; // by route, without the task's own limit
  // Per lane and position on its flow's route: for how long that use bound the
  // flow. Zero between flows.
  std::size_t longest_route_ = 0;
  std::vector<SimTime> bound_time_;
  std::vector<std::uint32_t> dirty_domains_;
  std::vector<char> dirty_; // per domain: listed in dirty_domains_
  std::vector<FlowDemand> demands_;
  std::vector<FlowShare> shares_;
};

} // namespace spillway
