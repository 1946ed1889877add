// The same step on a changed device: priced and replayed again, exactly. What the
// band (simulate.hpp) and what-if (what_if.hpp) have in common.
//
//   Variation faster{"NIC", [](Device& d) { d.scale_out_rate.value *= 1.1; }};
//   step_times(scenario, run, {faster}, cache, 1)   // one time, in picoseconds
#pragma once

#include "results/simulate.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct Variation {
  std::string name;
  std::function<void(Device&)> change; // of coefficients; the shape of the step stays
  // One product shape runs at `shape_factor` times its rate; none: all as they are.
  std::optional<ProductShape> shape;
  double shape_factor = 1;
};

// Step time under each variation, in their order, whatever the number of threads. `run`
// is the scenario's own; a variation that moves no price and no clock rule takes its time
// from there.
[[nodiscard]] std::vector<SimTime> step_times(const Scenario& scenario, const Simulation& run,
                                              const std::vector<Variation>& variations,
                                              const RateCache& cache, unsigned threads);

} // namespace spillway
