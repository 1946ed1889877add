// The clock that a power-limited board settles at over one step.
//
// Speed s is the clock of matmul and attention kernels over the one they sustain
// when nothing else runs (s = 1). With their time w_c at s = 1, the time w_m of
// kernels bound by HBM and the time x in which the compute lane runs no kernel,
// the energy of a step is its duration times the power limit:
//
//   (w_c / s) s^e + w_m p_m + x p_x  =  w_c / s + w_m + x,     1 <= s <= s_max
//
// Example: w_c = 0.7, w_m = 0.1, x = 0.2, p_m = 0.7, p_x = 0.25, e = 3:
// 0.7 s^2 + 0.12 = 0.7 / s + 0.3, so s = 1.0855. The card follows within about
// 50 ms; one speed for a step is the mean.
#pragma once

#include "sim/lower/pricing.hpp"

namespace spillway {

struct StepWork {
  double compute_s = 0; // matmul and attention, at speed 1
  double memory_s = 0;
  double idle_s = 0;
};

// Solves the balance for given times; 1 without compute.
[[nodiscard]] double balanced_speed(const ClockRule& rule, const StepWork& work);

// Prices and replays until speed and idle time agree; just once for a device
// without a clock rule. `speed` is where to begin and what was found.
[[nodiscard]] Timeline replay_balanced(const Scenario& scenario, CostModel& cost, Lowered& lowered,
                                       double& speed);

} // namespace spillway
