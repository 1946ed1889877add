// Weighted max-min fairness by progressive filling, on flat arrays.
//
// Example (two resources): link 10, memory 12. Flow a uses link 1 and memory 1,
// flow b uses memory 2. All rates grow together: at rate 4 memory is full
// (4 + 2*4 = 12), so a = b = 4, although the link would allow a 10.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace spillway {

struct FlowDemand {
  std::span<const Use> uses;
  double rate_limit = 0; // may be infinity when uses is not empty
};

struct FlowShare {
  double rate = 0;             // units per second, > 0
  ResourceId bound_by = no_id; // the resource that stopped it (when several fill up at
                               // once, the first on its route); no_id = its own limit
};

// Reusable buffers; one per thread. solve() allocates only when it sees more
// flows or resources than ever before.
class FairShareSolver {
public:
  explicit FairShareSolver(std::size_t resource_count);
  // Rates for exactly these flows; other flows must not touch their resources. A
  // flow without uses runs at its rate limit, which must then be finite.
  void solve(std::span<const FlowDemand> flows, std::span<const Resource> resources,
             std::vector<FlowShare>& shares);

private:
  enum class State : unsigned char { growing, stopping, stopped };

  [[nodiscard]] double next_level(std::span<const FlowDemand> flows, double previous);
  [[nodiscard]] std::size_t stop_at(double level, std::span<const FlowDemand> flows,
                                    std::vector<FlowShare>& shares);
  void take_stopped(std::span<const FlowDemand> flows, const std::vector<FlowShare>& shares);

  std::vector<double> left_;       // per resource: capacity minus what stopped flows use
  std::vector<double> weight_sum_; // per resource, over growing flows; 0 between calls
  std::vector<double> level_;      // per resource: the rate at which it is full
  std::vector<ResourceId> touched_;
  std::vector<State> state_; // per flow
};

} // namespace spillway
