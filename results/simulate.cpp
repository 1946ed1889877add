#include "results/simulate.hpp"

#include "results/variation.hpp"
#include "sim/lower/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

// The band's re-runs: every coefficient that has a range, or one product shape, at its
// low and then at its high value.
void add_ends(std::vector<Variation>& variations, const std::string& name, std::size_t coefficient,
              const Coefficient& varied, const std::optional<ProductShape>& shape) {
  for (const double value : {varied.low, varied.high}) {
    if (shape) {
      variations.push_back({name, [](Device&) {}, shape, value / varied.value});
    } else {
      variations.push_back(
          {name, [coefficient, value](Device& d) { d.coefficients()[coefficient]->value = value; },
           std::nullopt, 1});
    }
  }
}

std::vector<Variation> band_variations(const Scenario& scenario, const Lowered& lowered) {
  std::vector<Variation> variations;
  const std::vector<const Coefficient*> all = scenario.device.coefficients();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->has_range()) {
      continue;
    }
    const std::string name = "hardware." + all[i]->path;
    if (all[i] != &scenario.device.shape_factor) {
      add_ends(variations, name, i, *all[i], std::nullopt);
      continue;
    }
    // The table's error at one shape says nothing about another: one at a time.
    std::set<ProductShape> shapes;
    for (const Work& work : lowered.works) {
      if (work.kind == WorkKind::matmul) {
        shapes.insert(product_shape(work));
      }
    }
    for (const ProductShape& shape : shapes) {
      add_ends(variations, name + " of " + shape_name(shape), i, *all[i], shape);
    }
  }
  return variations;
}

} // namespace

Simulation simulate(const Scenario& scenario, const PolicySpec& policy, RateCache& cache,
                    Folding folding) {
  Simulation run;
  run.micro_batches = scenario.trace.micro_batches;
  run.plan = decide(policy, scenario.trace, scenario.framework);
  CostModel cost(scenario.device, scenario.parallel.gpus, cache);
  StepRun step = run_step(scenario, run.plan, cost, cache, folding);
  run.lowered = std::move(step.lowered);
  run.timeline = std::move(step.timeline);
  const double speed = step.clock_speed;
  run.result = summarize(scenario, policy, run.plan, run.lowered, run.timeline);
  run.result.clock_speed = speed;
  if (scenario.device.clock) {
    run.result.assumptions.push_back(
        {"clock of matmul and attention", fmt::format("{:.3f} of the kernel tables'", speed),
         "inferred", "the step's power meets the board's limit, see hardware.gpu.clock"});
  }
  return run;
}

Simulation simulate_with_band(const Scenario& scenario, const PolicySpec& policy, RateCache& cache,
                              unsigned threads, Folding folding) {
  Simulation run = simulate(scenario, policy, cache, folding);
  RunResult& r = run.result;
  const std::vector<Variation> variations = band_variations(scenario, run.lowered);
  const std::vector<SimTime> times = step_times(scenario, run, variations, cache, threads);
  double below = 0;
  double above = 0;
  for (std::size_t i = 0; i < times.size(); i += 2) {
    const double at_low = to_seconds(times[i]).count();
    const double at_high = to_seconds(times[i + 1]).count();
    r.sensitivities.push_back({variations[i].name, at_low, at_high});
    const double down = std::min({0.0, at_low - r.step_time_s, at_high - r.step_time_s});
    const double up = std::max({0.0, at_low - r.step_time_s, at_high - r.step_time_s});
    below += down * down;
    above += up * up;
  }
  r.step_time_low_s = r.step_time_s - std::sqrt(below);
  r.step_time_high_s = r.step_time_s + std::sqrt(above);
  return run;
}

std::int64_t largest_fitting_micro_batch(const Scenario& scenario, const std::string& policy) {
  std::vector<std::int64_t> legal; // that can be routed evenly
  for (std::int64_t micro = 1; micro < scenario.batch.micro; ++micro) {
    BatchSpec batch = scenario.batch;
    batch.micro = micro;
    if (routes_evenly(scenario.model, scenario.parallel, batch)) {
      legal.push_back(micro);
    }
  }
  RateCache cache;
  std::size_t fits = 0; // the first `fits` of them fit: memory grows with the micro-batch
  std::size_t fails = legal.size() + 1;
  while (fails - fits > 1) {
    const std::size_t middle = fits + (fails - fits) / 2;
    Scenario smaller = scenario;
    smaller.batch.micro = legal[middle - 1];
    smaller.trace = build_trace(smaller.model, smaller.parallel, smaller.batch, smaller.framework,
                                smaller.precision.compute);
    const Simulation run = simulate(smaller, smaller.policy(policy), cache);
    (run.result.verdict == Verdict::fits ? fits : fails) = middle;
  }
  return fits == 0 ? 0 : legal[fits - 1];
}

} // namespace spillway
