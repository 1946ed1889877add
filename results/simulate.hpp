// The pipeline of one run: decide, lower, replay, summarize; and the re-runs
// behind low, expected and high.
#pragma once

#include "results/run_result.hpp"
#include "sim/lower/fold.hpp"

namespace spillway {

// Everything that a run produced; views (explain, traces) read it afterwards.
struct Simulation {
  std::int64_t micro_batches = 1; // of the step
  Plan plan;
  Lowered lowered;
  Timeline timeline;
  RunResult result;
};

// Runs one policy without a band: low and high equal the expected time. The result does
// not depend on folding; whoever looks at single tasks wants all of them, unfolded.
[[nodiscard]] Simulation simulate(const Scenario& scenario, const PolicySpec& policy,
                                  RateCache& cache, Folding folding = Folding::automatic);

// As simulate, with the band: every coefficient that has a range takes its low
// and its high value, one at a time; deviations add as root sum of squares.
[[nodiscard]] Simulation simulate_with_band(const Scenario& scenario, const PolicySpec& policy,
                                            RateCache& cache, unsigned threads,
                                            Folding folding = Folding::automatic);

// From a timeline to the fields. `device`: the one that was lowered.
[[nodiscard]] RunResult summarize(const Scenario& scenario, const PolicySpec& policy,
                                  const Plan& plan, const Lowered& lowered,
                                  const Timeline& timeline);

// The wait before each task of the reported GPU's compute lane, binned; used by
// summarize and explain.
[[nodiscard]] TimeBin bin_of_gap(const Lowered& lowered, const Timeline& timeline, TaskId before);
[[nodiscard]] TimeBin bin_of_task(const TaskInfo& info);

// The largest micro-batch below the scenario's at which the policy fits; 0 = none.
[[nodiscard]] std::int64_t largest_fitting_micro_batch(const Scenario& scenario,
                                                       const std::string& policy);

} // namespace spillway
