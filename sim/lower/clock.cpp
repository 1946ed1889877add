#include "sim/lower/clock.hpp"

#include "sim/engine/repeats.hpp"

#include <cmath>
#include <vector>

namespace spillway {
namespace {

constexpr int max_rounds = 12;
constexpr double slowest = 0.1; // the balance is met above it for any sane input

// Times of the reported GPU's compute lane, kernels at speed 1.
StepWork work_of(const Lowered& lowered, const Timeline& timeline, double speed) {
  const RunCounts runs(lowered.graph, timeline);
  SimTime matmul{0}, attention{0}, memory{0};
  std::vector<std::int64_t> runs_of(lowered.works.size(), 0);
  for (const TaskId task : lowered.graph.tasks_of(lowered.lanes.front().compute)) {
    const TaskPrice& price = lowered.prices[task];
    if (price.of != PriceOf::work || lowered.graph.tasks[task].route != no_id) {
      continue;
    }
    const SimTime time = (timeline.tasks[task].end - timeline.tasks[task].start) * runs.of(task);
    switch (lowered.works[price.work].kind) {
    case WorkKind::matmul:
      matmul += time;
      runs_of[price.work] += runs.of(task);
      break;
    case WorkKind::attention: attention += time; break;
    default: memory += time;
    }
  }
  StepWork work;
  work.matmul_s = to_seconds(matmul).count() * speed;
  work.attention_s = to_seconds(attention).count() * speed;
  work.memory_s = to_seconds(memory).count();
  work.idle_s = to_seconds(timeline.makespan - matmul - attention - memory).count();
  for (std::size_t w = 0; w < runs_of.size(); ++w) {
    work.matmul_flops += static_cast<double>(runs_of[w]) * lowered.works[w].flops().value();
  }
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
    return replay(lowered.graph, lowered.machine, lowered.loops);
  }
  Timeline timeline;
  double next = speed;
  for (int round = 0; round < max_rounds; ++round) {
    speed = next;
    cost.set_speed(speed);
    price(scenario, cost, lowered);
    timeline = replay(lowered.graph, lowered.machine, lowered.loops);
    next = balanced_speed(*rule, work_of(lowered, timeline, speed));
    if (std::abs(next - speed) < speed_settled) {
      break;
    }
  }
  return timeline;
}

} // namespace spillway
