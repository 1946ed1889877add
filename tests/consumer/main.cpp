// Two copies of 1e9 bytes share a link of 10e9 bytes/s: each moves at 5e9
// bytes/s, so both end after 0.2 s.
#include "sim/engine/engine.hpp"

#include <array>
#include <chrono>
#include <utility>

int main() {
  spillway::Machine machine;
  machine.resources.push_back({"link", 10e9});
  machine.lanes = {{"a"}, {"b"}};
  spillway::TaskGraphBuilder builder;
  const std::array uses{spillway::Use{0, 1.0}};
  const spillway::RouteId route = builder.add_route(uses);
  for (const spillway::LaneId lane : {0U, 1U}) {
    (void)builder.add_flow(lane, spillway::SimTime{0}, 1e9, route);
  }
  const spillway::TaskGraph graph = std::move(builder).build(machine);
  return spillway::replay(graph, machine).makespan == std::chrono::milliseconds{200} ? 0 : 1;
}
