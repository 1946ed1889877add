// The clock that a power-limited board settles at over one step.
//
// Speed s multiplies the (derated) table rates of matmul and attention kernels; s = 1 is
// the state of the tables of products. Powers are shares of the board's limit: p_x
// with idle compute, p_m under kernels bound by HBM, p_a under attention at s = 1.
// Above p_x a matmul draws in proportion to its flops, whatever their shape: one whose
// shape runs at a low rate leaves the clock more room. With F flops of matmuls and the
// rate R that alone holds the board at its limit, times t at s = 1 (matmul t_g,
// attention t_a, HBM t_m) and the time t_x in which the compute lane runs no kernel,
// the energy of a step is its duration times the limit:
//
//   (1 - p_x) F / R s^(e-1) + (p_a - p_x) t_a s^(e-1) + (p_m - p_x) t_m
//       =  (1 - p_x) (t_g / s + t_a / s + t_m + t_x),     s <= s_max
//
// Example: t_g = 0.7 at a rate of R (F / R = 0.7), t_a = 0, t_m = 0.1, t_x = 0.2,
// p_m = 0.7, p_x = 0.25, e = 3: 0.525 s^2 + 0.045 = 0.525 / s + 0.225, so s = 1.1138.
// The card follows within about 50 to 100 ms; one speed for a step is the mean.
#pragma once

#include "sim/lower/pricing.hpp"

namespace spillway {

inline constexpr double speed_settled = 1e-3; // how near two rounds of the balance are

struct StepWork {
  double matmul_s = 0; // at speed 1
  double matmul_flops = 0;
  double attention_s = 0; // at speed 1
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
