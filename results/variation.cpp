#include "results/variation.hpp"

#include "results/parallel.hpp"
#include "sim/lower/clock.hpp"

#include <algorithm>
#include <array>

namespace spillway {
namespace {

bool differs(const std::optional<ClockRule>& one, const std::optional<ClockRule>& other) {
  if (!one || !other) {
    return one.has_value() != other.has_value();
  }
  const auto values = [](const ClockRule& rule) {
    return std::array{rule.limit_rate.value, rule.attention_power.value, rule.memory_power.value,
                      rule.idle_power.value, rule.max_speed.value,       rule.exponent.value};
  };
  return values(*one) != values(*other);
}

SimTime step_time(const Scenario& scenario, const Simulation& run, const Variation& variation,
                  const RateCache& warm, Lowered& lowered) {
  Device device = scenario.device;
  variation.change(device);
  RateCache cache = warm; // look-ups do not depend on coefficients
  CostModel cost(device, scenario.parallel.gpus, cache);
  if (variation.shape) {
    cost.vary_shape(*variation.shape, variation.shape_factor);
  }
  // A variation that moves no price of this step needs no replay.
  cost.set_speed(run.result.clock_speed);
  if (!price(scenario, cost, lowered) && !differs(device.clock, scenario.device.clock)) {
    return run.timeline.makespan;
  }
  Timeline timeline;
  try {
    double speed = run.result.clock_speed;
    timeline = replay_balanced(scenario, cost, lowered, speed);
  } catch (const NoRecurrence&) { // with these prices layers do not repeat themselves
    timeline =
        run_step(scenario, run.plan, cost, cache, Folding::micro_batches, run.result.clock_speed)
            .timeline;
  }
  // Back to the expected prices.
  CostModel usual(scenario.device, scenario.parallel.gpus, cache);
  usual.set_speed(run.result.clock_speed);
  static_cast<void>(price(scenario, usual, lowered));
  return timeline.makespan;
}

} // namespace

std::vector<SimTime> step_times(const Scenario& scenario, const Simulation& run,
                                const std::vector<Variation>& variations, const RateCache& cache,
                                unsigned threads) {
  std::vector<SimTime> times(variations.size());
  // Each thread has a copy of the step: long ones get fewer.
  const std::size_t tasks = std::max<std::size_t>(1, run.lowered.graph.task_count());
  const auto affordable = static_cast<unsigned>(std::max<std::size_t>(1, 4'000'000 / tasks));
  run_jobs(
      times.size(), std::min(threads, affordable), [&] { return run.lowered; },
      [&](std::size_t job, Lowered& lowered) {
        times[job] = step_time(scenario, run, variations[job], cache, lowered);
      });
  return times;
}

} // namespace spillway
