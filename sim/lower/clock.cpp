#include "sim/lower/clock.hpp"

#include <cmath>

namespace spillway {
namespace {

constexpr int max_rounds = 12;
constexpr double settled = 1e-3;
constexpr double slowest = 0.1; // the balance is met above it for any sane input

// Times of the reported GPU's compute lane, kernels at speed 1.
StepWork work_of(const Lowered& lowered, const Timeline& timeline, double speed) {
  StepWork work;
  double busy = 0;
  for (const TaskId task : lowered.graph.tasks_of(lowered.lanes.front().compute)) {
    const TaskPrice& price = lowered.prices[task];
    if (price.of != PriceOf::work || lowered.graph.route[task] != no_id) {
      continue;
    }
    const double seconds = to_seconds(timeline.end[task] - timeline.start[task]).count();
    busy += seconds;
    const Work& done = lowered.works[price.work];
    switch (done.kind) {
    case WorkKind::matmul:
      work.matmul_s += seconds * speed;
      work.matmul_flops += done.flops().value();
      break;
    case WorkKind::attention: work.attention_s += seconds * speed; break;
    default: work.memory_s += seconds;
    }
  }
  work.idle_s = to_seconds(timeline.makespan).count() - busy;
  return work;
}

} // namespace

double balanced_speed(const ClockRule& rule, const StepWork& work) {
  const double scaled = work.matmul_s + work.attention_s;
  if (!(scaled > 0)) {
    return 1;
  }
  const double idle = rule.idle_power.value;
  const double matmul = (1 - idle) * work.matmul_flops / rule.limit_rate.value;
  const double attention = (rule.attention_power.value - idle) * work.attention_s;
  const double memory = (rule.memory_power.value - idle) * work.memory_s;
  const auto surplus = [&](double s) { // energy used less energy allowed
    return (matmul + attention) * std::pow(s, rule.exponent.value - 1) + memory -
           (1 - idle) * (scaled / s + work.memory_s + work.idle_s);
  };
  double low = slowest;
  double high = rule.max_speed.value;
  if (surplus(high) <= 0) {
    return high;
  }
  for (int i = 0; i < 60; ++i) { // surplus grows with s
    const double middle = (low + high) / 2;
    (surplus(middle) > 0 ? high : low) = middle;
  }
  return low;
}

Timeline replay_balanced(const Scenario& scenario, CostModel& cost, Lowered& lowered,
                         double& speed) {
  const std::optional<ClockRule>& rule = cost.device().clock;
  if (!rule) {
    price(scenario, cost, lowered);
    return replay(lowered.graph, lowered.machine);
  }
  Timeline timeline;
  double next = speed;
  for (int round = 0; round < max_rounds; ++round) {
    speed = next;
    cost.set_speed(speed);
    price(scenario, cost, lowered);
    timeline = replay(lowered.graph, lowered.machine);
    next = balanced_speed(*rule, work_of(lowered, timeline, speed));
    if (std::abs(next - speed) < settled) {
      break;
    }
  }
  return timeline;
}

} // namespace spillway
