// The clock of a power-limited board: the balance solved by hand, and its place in a step.
#include "sim/lower/clock.hpp"

#include "tests/support/step.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

using namespace spillway;
using namespace spillway::testing;

namespace {

// Work is stated with a limit rate of 1 flop/s, so flops are the seconds that they take there.
ClockRule clock_rule(double memory_power, double idle_power, double max_speed, double exponent,
                     double attention_power = 1) {
  ClockRule made;
  made.limit_rate.value = 1;
  made.attention_power.value = attention_power;
  made.memory_power.value = memory_power;
  made.idle_power.value = idle_power;
  made.max_speed.value = max_speed;
  made.exponent.value = exponent;
  return made;
}

// Matmuls at the limit rate, HBM-bound kernels, idle time.
StepWork work(double matmul_s, double memory_s, double idle_s) {
  return {matmul_s, matmul_s, 0, memory_s, idle_s};
}

// What a result says of the clock; empty if nothing.
std::string clock_line(const RunResult& result) {
  for (const AssumptionLine& line : result.assumptions) {
    if (line.what == "clock of matmul and attention") {
      return line.value;
    }
  }
  return {};
}

// Energy used over energy allowed at speed s, from the formula in the header.
double share_of_limit(const ClockRule& r, const StepWork& w, double s) {
  const double idle = r.idle_power.value;
  const double scale = std::pow(s, r.exponent.value - 1);
  const double time = (w.matmul_s + w.attention_s) / s + w.memory_s + w.idle_s;
  const double used = idle * time + (1 - idle) * w.matmul_flops / r.limit_rate.value * scale +
                      (r.attention_power.value - idle) * w.attention_s * scale +
                      (r.memory_power.value - idle) * w.memory_s;
  return used / time;
}

const std::string one_gpu = R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 3, hidden: 4096, dense_ffn: {width: 12288},
        attention: {heads: 32}}
hardware: h200
gpus: 1
batch: {micro: 2, sequence: 4096}
precision: {weights: bf16, gradients: bf16, master: none, moment1: bf16, moment2: bf16}
runtime: {framework: maxtext}
policies:
  remat: {preset: full}
  offload: {preset: full, tensors: {query_proj: offload}}
)";

struct Balanced {
  Lowered lowered;
  Timeline timeline;
  double speed = 1;
};

Balanced balance(const Scenario& scenario, const std::string& policy, double from = 1) {
  RateCache cache;
  const Plan plan = decide(scenario.policy(policy), scenario.trace, scenario.framework);
  Balanced found{lower(scenario, plan, cache), {}, from};
  CostModel cost(scenario.device, scenario.parallel.gpus, cache);
  found.timeline = replay_balanced(scenario, cost, found.lowered, found.speed);
  return found;
}

// What the compute lane did, products and attention as they would be at speed 1.
StepWork done_by(const Balanced& step) {
  StepWork work;
  double busy = 0;
  for (const TaskId task : step.lowered.graph.tasks_of(step.lowered.lanes[0].compute)) {
    if (step.lowered.tasks[task].kind != TaskKind::kernel) {
      continue;
    }
    const Work& what = step.lowered.works[step.lowered.prices[task].work];
    const double seconds =
        to_seconds(step.timeline.tasks[task].end - step.timeline.tasks[task].start).count();
    busy += seconds;
    if (what.kind == WorkKind::memory) {
      work.memory_s += seconds;
    } else if (what.kind == WorkKind::attention) {
      work.attention_s += seconds * step.speed;
    } else {
      work.matmul_s += seconds * step.speed;
      work.matmul_flops += what.flops().value();
    }
  }
  work.idle_s = to_seconds(step.timeline.makespan).count() - busy;
  return work;
}

} // namespace

// s^(e-1) = 1 / s only at s = 1.
TEST_CASE("A step of nothing but matmuls at the limit rate runs at speed 1") {
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 1.22, 3), work(0.8, 0, 0)) == doctest::Approx(1.0));
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 1.22, 2), work(5.0, 0, 0)) == doctest::Approx(1.0));
}

// Matmuls of half the limit rate draw half as much above idle: s^(e-1) / 2 = 1 / s. With
// e = 2, s = sqrt(2); with e = 3 its cube is 2. At 1.21 times the limit rate, e = 2:
// 1.21 s = 1 / s, s = 1 / 1.1.
TEST_CASE("What a matmul draws follows its flops, so slow shapes leave the clock more room") {
  const StepWork slow{1.0, 0.5, 0, 0, 0};
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 2, 2), slow) == doctest::Approx(std::sqrt(2.0)));
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 2, 3), slow) == doctest::Approx(std::cbrt(2.0)));
  const StepWork fast{1.0, 1.21, 0, 0, 0};
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 2, 2), fast) == doctest::Approx(1 / 1.1));
}

// Attention of p_a = 0.625 with p_x = 0.25: 0.375 s^(e-1) = 0.75 / s, so s^e = 2.
TEST_CASE("Attention has a power of its own") {
  const StepWork attention{0, 0, 1.0, 0, 0};
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 2, 2, 0.625), attention) ==
        doctest::Approx(std::sqrt(2.0)));
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 2, 2, 1.0), attention) == doctest::Approx(1.0));
}

TEST_CASE("A step without matmuls and attention has no speed to choose") {
  const ClockRule r = clock_rule(0.7, 0.25, 1.22, 3);
  CHECK(balanced_speed(r, work(0, 0.5, 0.5)) == 1);
  CHECK(balanced_speed(r, work(0, 0, 1)) == 1);
  CHECK(balanced_speed(r, {}) == 1);
}

// 0.525 s^2 + 0.045 = 0.525 / s + 0.225, so s^3 - (0.18 / 0.525) s - 1 = 0. At 1.1138 the
// left side is 1.381725 - 0.381874 - 1 = -0.000149, at 1.1139 it is 0.000189.
TEST_CASE("The example of the formula, solved by hand") {
  const double s = balanced_speed(clock_rule(0.7, 0.25, 1.22, 3), work(0.7, 0.1, 0.2));
  CHECK(s > 1.1138);
  CHECK(s < 1.1139);
}

// With e = 2 and t_g = F / R = 1: s^2 - D s - 1 = 0 where D = (t_m (1 - p_m)) / (1 - p_x) + t_x.
// t_m = 0.5, t_x = 0.25, p_m = 0.7, p_x = 0.25: D = 0.2 + 0.25 = 0.45 and
// s = (0.45 + sqrt(0.2025 + 4)) / 2 = (0.45 + 2.05) / 2 = 1.25.
TEST_CASE("An exponent of two makes the balance a quadratic equation") {
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 2.0, 2), work(1.0, 0.5, 0.25)) ==
        doctest::Approx(1.25));
  // The unit of time does not matter.
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 2.0, 2), work(10, 5, 2.5)) == doctest::Approx(1.25));
}

TEST_CASE("The speed stops at its limit") {
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 1.2, 2), work(1.0, 0.5, 0.25)) == 1.2);
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 1.22, 3), work(0.01, 0, 1)) == 1.22);
  CHECK(balanced_speed(clock_rule(0.7, 0.25, 1.0, 3), work(0.5, 0, 0.5)) == 1.0);
}

TEST_CASE("More idle time never lowers the speed, and raises it below the limit") {
  const ClockRule r = clock_rule(0.7, 0.25, 1.22, 3);
  double before = 1;
  for (int i = 1; i <= 100; ++i) {
    const double idle = i / 100.0;
    CAPTURE(idle);
    const StepWork w = work(0.7, 0.1, idle);
    const double s = balanced_speed(r, w);
    if (s < 1.22) {
      CHECK(s > before);
      CHECK(share_of_limit(r, w, s) == doctest::Approx(1.0).epsilon(1e-9));
    } else {
      CHECK(s == 1.22);
      CHECK(share_of_limit(r, w, s) <= 1);
    }
    CHECK(s >= before);
    before = s;
  }
  CHECK(before == 1.22); // the limit was reached on the way
}

TEST_CASE("A replayed step uses as much energy as the board allows") {
  int inside = 0; // balanced between both limits
  for (const char* policy : {"remat", "offload"}) {
    for (const char* rate : {"1 GB/s", "5 GB/s", "20 GB/s", "60 GB/s"}) {
      CAPTURE(policy);
      CAPTURE(rate);
      const Scenario scenario = scenario_from(
          one_gpu, {"runtime.schedule=loop_bound", std::string("hardware.host.d2h.rate=") + rate,
                    std::string("hardware.host.h2d.rate=") + rate});
      REQUIRE(scenario.device.clock.has_value());
      const ClockRule& r = *scenario.device.clock;
      const Balanced step = balance(scenario, policy);
      CHECK(step.speed <= r.max_speed.value);
      const double share = share_of_limit(r, done_by(step), step.speed);
      if (step.speed < r.max_speed.value) {
        CHECK(share == doctest::Approx(1.0).epsilon(1e-2));
        inside += step.speed > 1.001 ? 1 : 0;
      } else {
        CHECK(share < 1.01);
      }
      // Where it began does not matter, beyond the tolerance of one part in a thousand.
      const Balanced other = balance(scenario, policy, r.max_speed.value);
      CHECK(other.speed == doctest::Approx(step.speed).epsilon(3e-3));
    }
  }
  CHECK(inside >= 4);
}

TEST_CASE("A step that waits for slow copies clocks higher than one that does not") {
  const auto speed = [](const std::string& rate) {
    return balance(scenario_from(one_gpu,
                                 {"runtime.schedule=loop_bound", "hardware.host.d2h.rate=" + rate,
                                  "hardware.host.h2d.rate=" + rate}),
                   "offload")
        .speed;
  };
  CHECK(speed("1 GB/s") > speed("60 GB/s"));
  CHECK(speed("1 GB/s") == 1.191); // of the catalogue: next to no compute
}

TEST_CASE("Speed divides the time of matmuls and attention and of nothing else") {
  const Scenario scenario =
      scenario_from(one_gpu, {"runtime.schedule=loop_bound", "hardware.host.d2h.rate=5 GB/s",
                              "hardware.host.h2d.rate=5 GB/s"});
  const Balanced step = balance(scenario, "offload");
  REQUIRE(step.speed > 1.01);
  RateCache cache;
  const CostModel plain(scenario.device, 1, cache);
  std::array<int, 2> seen{};
  for (const TaskId task : step.lowered.graph.tasks_of(step.lowered.lanes[0].compute)) {
    if (step.lowered.tasks[task].kind != TaskKind::kernel) {
      continue;
    }
    const Work& work = step.lowered.works[step.lowered.prices[task].work];
    if (work.kind == WorkKind::none) {
      continue;
    }
    const double seconds =
        to_seconds(step.timeline.tasks[task].end - step.timeline.tasks[task].start).count();
    const double slow = plain.kernel_time(work).count();
    const bool memory = work.kind == WorkKind::memory;
    const double expected = memory ? slow : slow / step.speed;
    // The last round may end a tolerance of 1e-3 away from the speed that it found.
    CHECK(seconds == doctest::Approx(expected).epsilon(memory ? 1e-6 : 1.1e-3));
    ++seen[memory ? 1 : 0];
  }
  CHECK(seen[0] > 0);
  CHECK(seen[1] > 0);
}

TEST_CASE("Without a clock rule the speed stays what it was and is not used") {
  Scenario scenario = scenario_from(one_gpu);
  scenario.device.clock.reset();
  const Balanced step = balance(scenario, "offload");
  CHECK(step.speed == 1);
  RateCache cache;
  const Plan plan = decide(scenario.policy("offload"), scenario.trace, scenario.framework);
  const Lowered lowered = lower(scenario, plan, cache);
  CHECK(replay(lowered.graph, lowered.machine).makespan == step.timeline.makespan);
  const RunResult result = run(scenario, "offload").result;
  CHECK(result.step_time_s == to_seconds(step.timeline.makespan).count());
  CHECK(clock_line(result).empty());
}

TEST_CASE("A result states the speed that it assumes of matmuls") {
  const Scenario scenario = scenario_from(one_gpu);
  const RunResult result = run(scenario, "offload").result;
  CHECK(result.clock_speed == balance(scenario, "offload").speed);
  CHECK(clock_line(result) == fmt::format("{:.3f} of the kernel tables'", result.clock_speed));
}
