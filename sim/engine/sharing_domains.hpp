// The connected sets of resources: flows in different domains never slow each
// other, so each domain is solved on its own.
//
// Two resources are connected when a route that some flow takes uses both. A
// domain also knows which of its flows are moving, as lanes in ascending order.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace spillway {

class SharingDomains {
public:
  explicit SharingDomains(const TaskGraph& graph, std::size_t resource_count) {
    const std::size_t route_count = graph.route_offset.size() - 1;
    std::vector<char> taken(route_count, 0);
    for (std::size_t t = 0; t < graph.task_count(); ++t) {
      if (graph.tasks[t].work > 0) {
        taken[graph.tasks[t].route] = 1;
      }
    }
    of_route_.assign(route_count, no_id);
    std::vector<ResourceId> parent(resource_count);
    std::iota(parent.begin(), parent.end(), ResourceId{0});
    for (RouteId route = 0; route < route_count; ++route) {
      const std::span<const Use> uses = graph.uses_of(route);
      for (std::size_t i = 1; taken[route] != 0 && i < uses.size(); ++i) {
        join(parent, uses[0].resource, uses[i].resource);
      }
    }
    std::vector<std::uint32_t> domain_of_root(resource_count, no_id);
    for (RouteId route = 0; route < route_count; ++route) {
      const std::span<const Use> uses = graph.uses_of(route);
      if (taken[route] != 0 && !uses.empty()) {
        std::uint32_t& domain = domain_of_root[root_of(parent, uses[0].resource)];
        if (domain == no_id) {
          domain = static_cast<std::uint32_t>(domains_.size());
          domains_.emplace_back();
        }
        of_route_[route] = domain;
      }
    }
    reserve_members(graph);
  }

  [[nodiscard]] std::size_t count() const { return domains_.size(); }
  [[nodiscard]] std::size_t most_members() const { return most_members_; }
  [[nodiscard]] std::size_t flow_count() const { return flow_count_; } // that share anything
  // no_id when the route uses nothing.
  [[nodiscard]] std::uint32_t of_route(RouteId route) const { return of_route_[route]; }

  [[nodiscard]] std::span<const LaneId> members(std::uint32_t domain) const {
    return std::span<const LaneId>(members_).subspan(domains_[domain].begin, domains_[domain].size);
  }

  void insert(std::uint32_t domain, LaneId lane) {
    LaneId* const begin = members_.data() + domains_[domain].begin;
    LaneId* at = begin + domains_[domain].size++;
    for (; at != begin && *(at - 1) > lane; --at) {
      *at = *(at - 1);
    }
    *at = lane;
  }

  void erase(std::uint32_t domain, LaneId lane) {
    LaneId* const begin = members_.data() + domains_[domain].begin;
    LaneId* const end = begin + domains_[domain].size--;
    LaneId* const at = std::lower_bound(begin, end, lane);
    std::copy(at + 1, end, at);
  }

private:
  struct Domain {
    std::size_t begin = 0; // in members_
    std::size_t size = 0;
    std::size_t capacity = 0; // lanes that ever send a flow through the domain
    LaneId last_lane = no_id; // counted last
  };

  [[nodiscard]] static ResourceId root_of(std::vector<ResourceId>& parent, ResourceId resource) {
    while (parent[resource] != resource) {
      parent[resource] = parent[parent[resource]];
      resource = parent[resource];
    }
    return resource;
  }

  static void join(std::vector<ResourceId>& parent, ResourceId a, ResourceId b) {
    a = root_of(parent, a);
    b = root_of(parent, b);
    parent[std::max(a, b)] = std::min(a, b);
  }

  void reserve_members(const TaskGraph& graph) {
    for (std::size_t i = 0; i < graph.lane_tasks.size(); ++i) {
      const TaskId task = graph.lane_tasks[i];
      if (graph.tasks[task].work > 0 && of_route_[graph.tasks[task].route] != no_id) {
        ++flow_count_;
        Domain& domain = domains_[of_route_[graph.tasks[task].route]];
        if (domain.last_lane != graph.tasks[task].lane) {
          domain.last_lane = graph.tasks[task].lane;
          ++domain.capacity;
        }
      }
    }
    std::size_t total = 0;
    for (Domain& domain : domains_) {
      domain.begin = total;
      total += domain.capacity;
      most_members_ = std::max(most_members_, domain.capacity);
    }
    members_.resize(total);
  }

  std::vector<std::uint32_t> of_route_;
  std::vector<Domain> domains_;
  std::vector<LaneId> members_;
  std::size_t most_members_ = 0;
  std::size_t flow_count_ = 0;
};

} // namespace spillway
