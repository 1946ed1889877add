// What the step would take if one resource were faster, everything else as it is: the
// step is priced and replayed anew (variation.hpp), so that what then becomes critical
// in its place is counted.
#pragma once

#include "results/simulate.hpp"

#include <string>
#include <vector>

namespace spillway {

// The one resource that is no rate: it gets higher, not faster.
inline constexpr const char* power_limit = "power limit";

struct FasterResource {
  std::string resource; // "CPU memory"
  SimTime step{0};      // with it faster
};

struct WhatIf {
  std::int64_t percent = 0; // how much faster
  SimTime step{0};          // as it is
  // Shortest step first. Of those that change the step; a step can get longer, too, where
  // a copy that ends earlier meets another one.
  std::vector<FasterResource> changed;
  std::vector<std::string> unchanged; // names, in the order of the device

  // From the step as it is to `then`, as a fraction: -0.02 is 2 % shorter.
  [[nodiscard]] double change(SimTime then) const {
    return to_seconds(then).count() / to_seconds(step).count() - 1;
  }
};

// The device's resources: the links between GPU and host, CPU memory, network, HBM, the
// rates of matrix products and attention, the launch of HBM-bound kernels (its time
// divided), the power limit where there is a clock rule. Rates are multiplied by 1 +
// percent / 100. With a clock rule the clock is balanced anew, to 0.1 % of its speed.
// Same result on any number of threads.
[[nodiscard]] WhatIf what_if_faster(const Scenario& scenario, const Simulation& run,
                                    const RateCache& cache, std::int64_t percent, unsigned threads);

} // namespace spillway
