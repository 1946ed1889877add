#include "results/simulate.hpp"

#include "sim/lower/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace spillway {
namespace {

// One re-run of the band: a coefficient, or one product shape, at an end of its range.
struct Variation {
  std::string name;
  std::size_t coefficient = 0; // index into Device::coefficients()
  std::optional<ProductShape> shape;
};

std::vector<Variation> variations_of(const Scenario& scenario, const Lowered& lowered) {
  std::vector<Variation> variations;
  const std::vector<const Coefficient*> all = scenario.device.coefficients();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->has_range()) {
      continue;
    }
    const std::string name = "hardware." + all[i]->path;
    if (all[i] != &scenario.device.shape_factor) {
      variations.push_back({name, i, std::nullopt});
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
      variations.push_back({name + " of " + shape_name(shape), i, shape});
    }
  }
  return variations;
}

double step_time(const Scenario& scenario, const Variation& variation, bool high,
                 const Simulation& usual_run, const RateCache& warm, Lowered& lowered) {
  const RunResult& expected = usual_run.result;
  Device device = scenario.device;
  Coefficient& varied = *device.coefficients()[variation.coefficient];
  const double value = high ? varied.high : varied.low;
  RateCache cache = warm; // look-ups do not depend on coefficients
  CostModel cost(device, scenario.parallel.gpus, cache);
  if (variation.shape) {
    cost.vary_shape(*variation.shape, value / varied.value);
  } else {
    varied.value = value;
  }
  // A coefficient that moves no price of this step needs no replay.
  cost.set_speed(expected.clock_speed);
  const bool of_clock = variation.name.starts_with("hardware.gpu.clock.");
  if (!price(scenario, cost, lowered) && !of_clock) {
    return expected.step_time_s;
  }
  Timeline timeline;
  try {
    double speed = expected.clock_speed;
    timeline = replay_balanced(scenario, cost, lowered, speed);
  } catch (const NoRecurrence&) { // with these prices the step does not repeat itself
    timeline = run_step(scenario, usual_run.plan, cost, cache, Folding::off).timeline;
  }
  // Back to the expected prices.
  CostModel usual(scenario.device, scenario.parallel.gpus, cache);
  usual.set_speed(expected.clock_speed);
  static_cast<void>(price(scenario, usual, lowered));
  return to_seconds(timeline.makespan).count();
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

Simulation simulate(const Scenario& scenario, const PolicySpec& policy, RateCache& cache,
                    Folding folding) {
  Simulation run;
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
  const std::vector<Variation> variations = variations_of(scenario, run.lowered);
  std::vector<double> times(2 * variations.size());
  // Each thread has a copy of the step: long ones get fewer.
  const std::size_t tasks = std::max<std::size_t>(1, run.lowered.graph.task_count());
  const auto affordable = static_cast<unsigned>(std::max<std::size_t>(1, 4'000'000 / tasks));
  run_jobs(
      times.size(), std::min(threads, affordable), [&] { return run.lowered; },
      [&](std::size_t job, Lowered& lowered) {
        times[job] = step_time(scenario, variations[job / 2], job % 2 == 1, run, cache, lowered);
      });
  double below = 0;
  double above = 0;
  for (std::size_t i = 0; i < variations.size(); ++i) {
    const double at_low = times[2 * i];
    const double at_high = times[2 * i + 1];
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
