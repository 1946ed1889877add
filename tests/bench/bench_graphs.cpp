// A rank has four lanes: compute, in, out, network. Each step of a rank is a copy
// in over a link of its own and the host memory that two ranks share, three pieces
// of compute, a copy out and a transfer; a third of all tasks are copies.
//
// With contention for device memory a piece of compute is a flow as well: a unit
// is a picosecond of it alone and weighs on the memory with the bytes that it moves
// in that time. So two ranks are one domain of five resources, in which six flows
// meet, and each change in one of them asks for new rates for all.
#include "tests/bench/bench_graphs.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace spillway::bench {
namespace {

constexpr std::size_t lanes_per_rank = 4;
constexpr double units_per_second = 1e12; // of compute

// Bytes per unit of compute; the device moves four in a picosecond.
constexpr double matmul_weight = 2;
constexpr double elementwise_weight = 4;
constexpr double optimizer_weight = 3;

struct RankRoutes {
  RouteId in = no_id;
  RouteId out = no_id;
  RouteId matmul = no_id;
  RouteId elementwise = no_id;
  RouteId optimizer = no_id;
};

struct RankState {
  RankRoutes routes;
  TaskId compute = no_id;
  TaskId older_compute = no_id;
};

// Resources: the links of all ranks, the host memory of all pairs, the devices.
[[nodiscard]] std::size_t pairs_of(std::size_t ranks) {
  return (ranks + 1) / 2;
}

[[nodiscard]] RankRoutes make_routes(TaskGraphBuilder& builder, Contention contention,
                                     std::size_t ranks, std::size_t rank) {
  const Use link{static_cast<ResourceId>(rank), 1};
  const auto host = static_cast<ResourceId>(ranks + rank / 2);
  const auto device = static_cast<ResourceId>(ranks + pairs_of(ranks) + rank);
  const auto route = [&builder](const std::vector<Use>& uses) { return builder.add_route(uses); };
  RankRoutes routes;
  if (contention == Contention::links) {
    routes.in = route({link, {host, 1}});
    routes.out = routes.in;
    return routes;
  }
  routes.in = route({link, {host, 1}, {device, 1}});
  routes.out = route({link, {host, 2}, {device, 1}}); // the host reads a line before it writes it
  routes.matmul = route({{device, matmul_weight}});
  routes.elementwise = route({{device, elementwise_weight}});
  routes.optimizer = route({{device, optimizer_weight}});
  return routes;
}

// A fixed task without a route.
[[nodiscard]] TaskId add_compute(TaskGraphBuilder& builder, LaneId lane, SimTime time,
                                 RouteId route) {
  return route == no_id ? builder.add_fixed(lane, time)
                        : builder.add_flow(lane, SimTime{0}, static_cast<double>(time.count()),
                                           route, units_per_second);
}

void add_step(TaskGraphBuilder& builder, RankState& state, std::size_t rank, std::size_t step) {
  const RankRoutes& routes = state.routes;
  const auto lane = static_cast<LaneId>(rank * lanes_per_rank);
  const auto jitter = static_cast<std::int64_t>((rank * 7919 + step * 104'729) % 1000);
  const MemoryChange buffer{static_cast<PoolId>(rank), 1, 100'000'000};
  const TaskId in = builder.add_flow(lane + 1, SimTime{2'000'000}, 1e8, routes.in);
  builder.depend(in, state.older_compute); // double buffering
  builder.allocate_at_start(in, buffer);
  const TaskId first =
      add_compute(builder, lane, SimTime{1'000'000'000 + jitter * 1'000'000}, routes.matmul);
  builder.depend(first, in);
  const TaskId second =
      add_compute(builder, lane, SimTime{1'500'000'000 + jitter}, routes.elementwise);
  builder.free_at_end(second, buffer);
  const TaskId out = builder.add_flow(lane + 2, SimTime{2'000'000}, 6e7, routes.out);
  builder.depend(out, first);
  const TaskId network = builder.add_fixed(lane + 3, SimTime{400'000'000});
  builder.depend(network, second);
  const TaskId last = add_compute(builder, lane, SimTime{200'000'000}, routes.optimizer);
  builder.depend(last, out);
  state.older_compute = state.compute;
  state.compute = last;
}

} // namespace

Machine make_machine(Contention contention, std::size_t ranks) {
  Machine machine;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const char* name : {"compute", "in", "out", "network"}) {
      machine.lanes.push_back({fmt::format("{} {}", name, rank)});
    }
    machine.resources.push_back({fmt::format("link {}", rank), 50e9});
    machine.pools.push_back({fmt::format("device {}", rank),
                             std::int64_t{1} << 40,
                             PoolMode::record,
                             {"weights", "buffers"}});
  }
  for (std::size_t pair = 0; pair < pairs_of(ranks); ++pair) {
    machine.resources.push_back({fmt::format("host {}", pair), 80e9});
  }
  for (std::size_t rank = 0; rank < ranks && contention == Contention::hbm; ++rank) {
    machine.resources.push_back({fmt::format("device memory {}", rank), 4e12});
  }
  return machine;
}

TaskGraphBuilder make_builder(Contention contention, std::size_t ranks, std::size_t tasks) {
  TaskGraphBuilder builder;
  std::vector<RankState> states(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    states[rank].routes = make_routes(builder, contention, ranks, rank);
  }
  for (std::size_t step = 0; builder.task_count() < tasks; ++step) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      add_step(builder, states[rank], rank, step);
    }
  }
  return builder;
}

} // namespace spillway::bench
