#include "results/variation.hpp"

#include "sim/lower/clock.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

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

// Runs jobs 0 .. count-1 on a few threads, each with a state of its own; results
// are indexed, so the order in which jobs finish does not matter.
template <class MakeState, class Job>
void run_jobs(std::size_t count, unsigned threads, const MakeState& make_state, const Job& job) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  const auto work = [&] {
    try {
      auto state = make_state();
      for (std::size_t i = next++; i < count && !failed; i = next++) {
        job(i, state);
      }
    } catch (...) {
      if (!failed.exchange(true)) {
        failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> pool;
  try {
    for (std::size_t t = 1; t < std::min<std::size_t>(threads, count); ++t) {
      pool.emplace_back(work);
    }
  } catch (const std::system_error&) {
    // No more threads to be had: those that there are do the work.
  }
  work();
  for (std::thread& thread : pool) {
    thread.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
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
