#include "sim/lower/pricing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spillway {
namespace {

// Assigns and remembers whether anything differed.
class Changes {
public:
  template <class T>
  void set(T& place, const T& value) {
    any_ = any_ || place != value;
    place = value;
  }
  [[nodiscard]] bool any() const { return any_; }

private:
  bool any_ = false;
};

void price_resources(const Device& device, Lowered& lowered, Changes& changes) {
  std::vector<Resource>& resources = lowered.machine.resources;
  changes.set(resources[lowered.cpu_memory].capacity, device.host_pool_rate.value);
  for (const RankResources& rank : lowered.resources) {
    changes.set(resources[rank.d2h].capacity, device.d2h_rate.value);
    changes.set(resources[rank.h2d].capacity, device.h2d_rate.value);
    changes.set(resources[rank.scale_up].capacity, device.scale_up_rate.value);
    changes.set(resources[rank.scale_out].capacity, device.scale_out_rate.value);
    if (device.duplex_rate) {
      changes.set(resources[rank.duplex].capacity, device.duplex_rate->value);
    }
  }
}

// Whole bytes below a capacity that is a real number.
std::int64_t whole_bytes(double bytes) {
  return static_cast<std::int64_t>(std::floor(bytes));
}

void price_pools(const Scenario& scenario, const Device& device, Lowered& lowered) {
  for (std::size_t rank = 0; rank < lowered.hbm_pool.size(); ++rank) {
    lowered.machine.pools[lowered.hbm_pool[rank]].capacity =
        whole_bytes(hbm_limit(scenario.runtime, device));
    lowered.machine.pools[lowered.host_pool[rank]].capacity =
        whole_bytes(host_limit(scenario.runtime, device));
  }
}

void price_copy(const Device& device, PriceOf of, CopySchedule schedule, TaskGraph& graph,
                TaskId task, Changes& changes) {
  const bool to_host = of == PriceOf::store || of == PriceOf::peeled_store;
  const Coefficient& latency = to_host ? device.d2h_latency : device.h2d_latency;
  changes.set(graph.tasks[task].fixed_time, to_sim_time(Seconds{latency.value}));
  changes.set(graph.tasks[task].rate_limit, copy_limit(device, of, schedule));
}

} // namespace

double copy_limit(const Device& device, PriceOf of, CopySchedule schedule) {
  if (of == PriceOf::peeled_store || of == PriceOf::peeled_reload) {
    return device.peeled_copy_rate.value;
  }
  const bool in_loop = schedule == CopySchedule::loop_bound || schedule == CopySchedule::pipelined;
  if (of == PriceOf::store && in_loop && device.loop_store_share) {
    return device.loop_store_share->value * device.d2h_rate.value;
  }
  return std::numeric_limits<double>::infinity();
}

std::vector<Use> collective_uses(const CollectiveCost& cost, const RankResources& resources,
                                 ResourceId cpu_memory) {
  std::vector<Use> uses;
  const auto use = [&](ResourceId resource, double weight) {
    if (weight > 0) {
      uses.push_back({resource, weight});
    }
  };
  use(resources.scale_up, cost.scale_up_weight);
  use(resources.scale_out, cost.scale_out_weight);
  use(cpu_memory, cost.host_weight);
  use(resources.d2h, cost.link_weight);
  use(resources.h2d, cost.link_weight);
  use(resources.duplex, resources.duplex == no_id ? 0.0 : 2 * cost.link_weight);
  return uses;
}

bool price(const Scenario& scenario, const CostModel& cost, Lowered& lowered) {
  const Device& device = cost.device();
  Changes changes;
  price_resources(device, lowered, changes);
  price_pools(scenario, device, lowered);

  std::vector<SimTime> kernel_times(lowered.works.size());
  std::vector<CollectiveCost> collectives(lowered.works.size());
  for (std::size_t i = 0; i < lowered.works.size(); ++i) {
    if (lowered.works[i].is_collective()) {
      collectives[i] = cost.collective(lowered.works[i]);
    } else {
      kernel_times[i] = to_sim_time(cost.kernel_time(lowered.works[i]));
    }
  }
  for (std::size_t i = 0; i < lowered.collective_routes.size(); ++i) {
    const CollectiveRoute& route = lowered.collective_routes[i];
    const std::vector<Use> uses =
        collective_uses(collectives[route.work], lowered.resources[route.rank], lowered.cpu_memory);
    for (std::size_t u = 0; u < uses.size(); ++u) {
      changes.set(lowered.graph.route_uses[lowered.graph.route_offset[route.route] + u].weight,
                  uses[u].weight);
    }
  }
  TaskGraph& graph = lowered.graph;
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    const TaskPrice& task_price = lowered.prices[task];
    if (task_price.of == PriceOf::constant) {
      continue;
    }
    if (task_price.of != PriceOf::work) {
      price_copy(device, task_price.of, scenario.runtime.schedule, graph, task, changes);
    } else if (graph.tasks[task].route == no_id) {
      changes.set(graph.tasks[task].fixed_time, kernel_times[task_price.work]);
    } else {
      const CollectiveCost& flow = collectives[task_price.work];
      changes.set(graph.tasks[task].fixed_time, to_sim_time(flow.latency));
      changes.set(graph.tasks[task].work, flow.amount);
    }
  }
  return changes.any();
}

} // namespace spillway
