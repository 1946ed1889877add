#include "sim/lower/clock.hpp"

#include <cmath>

namespace spillway {
namespace {

constexpr int max_rounds = 12;
constexpr double settled = 1e-3;

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
    const WorkKind kind = lowered.works[price.work].kind;
    if (kind == WorkKind::memory) {
      work.memory_s += seconds;
    } else {
      work.compute_s += seconds * speed;
    }
  }
  work.idle_s = to_seconds(timeline.makespan).count() - busy;
  return work;
}

} // namespace

double balanced_speed(const ClockRule& rule, const StepWork& work) {
  if (!(work.compute_s > 0)) {
    return 1;
  }
  const auto surplus = [&](double s) { // energy used less energy allowed
    return work.compute_s / s * (std::pow(s, rule.exponent.value) - 1) +
           work.memory_s * (rule.memory_power.value - 1) +
           work.idle_s * (rule.idle_power.value - 1);
  };
  double low = 1;
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
