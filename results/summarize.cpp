#include "results/simulate.hpp"

#include "sim/analysis/explain.hpp"
#include "sim/engine/repeats.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

constexpr double tera = 1e12;

Verdict verdict_of(const RunResult& r) {
  if (r.peak_hbm_bytes > r.hbm_limit_bytes) {
    return Verdict::hbm_oom;
  }
  return r.peak_host_bytes > r.host_limit_bytes ? Verdict::host_oom : Verdict::fits;
}

OwnerMap owners_at(const Timeline::PoolPeak& peak, const Pool& pool) {
  OwnerMap map;
  for (std::size_t owner = 0; owner < pool.owners.size(); ++owner) {
    if (peak.owners[owner] > 0) {
      map.emplace_back(pool.owners[owner], peak.owners[owner]);
    }
  }
  return map;
}

// Integer picoseconds per bin, so that the bins sum to the step exactly.
std::array<SimTime, time_bin_count> bin_time(const Lowered& lowered, const Timeline& timeline) {
  std::array<SimTime, time_bin_count> bins{};
  const auto add = [&](TimeBin bin, SimTime time) { bins[static_cast<std::size_t>(bin)] += time; };
  const LaneId compute = lowered.lanes.front().compute;
  const RunCounts runs(lowered.graph, timeline);
  SimTime free{0};
  for (const TaskId task : lowered.graph.tasks_of(compute)) {
    add(bin_of_task(lowered.tasks[task]),
        (timeline.tasks[task].end - timeline.tasks[task].start) * runs.of(task));
    free = timeline.tasks[task].end;
  }
  for (const LaneGap& gap : gaps_of(lowered.graph, timeline, compute)) {
    add(bin_of_gap(lowered, timeline, gap.before), gap.length * gap.runs);
  }
  add(TimeBin::other, timeline.makespan - free); // what outlasts the compute lane
  return bins;
}

void fill_copies(RunResult& r, const StepSums& sums) {
  r.d2h_bytes = sums.d2h_bytes;
  r.h2d_bytes = sums.h2d_bytes;
  if (sums.copying > SimTime{0}) {
    const double exposed = r.time[static_cast<std::size_t>(TimeBin::exposed_offload)];
    r.offload_hidden_fraction =
        std::clamp(1.0 - exposed / to_seconds(sums.copying).count(), 0.0, 1.0);
  }
}

bool is_listed(const std::vector<Assumption>& list, std::string_view what) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Assumption& assumption) { return assumption.what == what; });
}

void fill_assumptions(RunResult& r, const Scenario& scenario) {
  for (const Assumption& assumption : scenario.assumed) {
    r.assumptions.push_back({assumption.what, assumption.value, "assumed", assumption.why});
  }
  if (scenario.runtime.head_gradient == HeadGradient::automatic &&
      scenario.framework.gradients_allocated_at_once) {
    r.assumptions.push_back({"runtime.head_gradient", "automatic", "inferred",
                             "early or late as compiled steps of one GPU were seen to do"});
  }
  if (scenario.batch.routing_imbalance > 1 && !is_listed(scenario.assumed, "routing.imbalance")) {
    r.assumptions.push_back({"routing.imbalance",
                             fmt::format("{:g}", scenario.batch.routing_imbalance), "assumed",
                             "the simulated GPUs are the busiest of their expert-parallel group; "
                             "hardware FLOPs are theirs, model FLOPs the mean of all"});
  }
  for (const Coefficient* c : scenario.device.coefficients()) {
    std::string value = format_coefficient(*c, c->value);
    if (c->has_range()) {
      value += fmt::format(" ({} .. {})", format_coefficient(*c, c->low),
                           format_coefficient(*c, c->high));
    }
    r.assumptions.push_back({"hardware." + c->path, std::move(value), c->kind, c->source});
  }
  for (const NamedNumber& number : framework_numbers()) {
    const SourcedNumber& value = scenario.framework.*number.member;
    const bool is_time = &value == &scenario.framework.step_gap;
    r.assumptions.push_back(
        {std::string("framework.kernels.") + number.key,
         is_time ? format_seconds(value.value) : fmt::format("{:g}", value.value), value.kind,
         value.source});
  }
  for (const auto& table : scenario.device.tables) {
    r.assumptions.push_back({"hardware.gpu.kernels", table->device, table->kind, table->source});
  }
}

void fill_warnings(RunResult& r, const Scenario& scenario, const Plan& plan,
                   const Lowered& lowered) {
  r.warnings = plan.warnings;
  r.warnings.insert(r.warnings.end(), scenario.runtime.notes.begin(), scenario.runtime.notes.end());
  std::string shapes;
  for (const std::string& shape : lowered.extrapolations) {
    shapes += (shapes.empty() ? "" : "; ") + shape;
  }
  if (!shapes.empty()) {
    r.warnings.push_back("outside the measured tables, nearest rows used: " + shapes);
  }
  const double used =
      static_cast<double>(r.peak_hbm_bytes) / static_cast<double>(r.hbm_limit_bytes);
  if (used > 0.94 && used <= 1.0) {
    r.warnings.push_back(fmt::format(
        "HBM is {:.0f} % full at its peak: fragmentation may still run out of memory", 100 * used));
  }
  if (r.verdict == Verdict::hbm_oom && r.peak_host_bytes > r.host_limit_bytes) {
    r.warnings.emplace_back("pinned host memory does not fit either");
  }
  if (scenario.runtime.schedule == CopySchedule::serialized && r.d2h_bytes > 0) {
    r.warnings.emplace_back("copies run on the compute stream: nothing of them is hidden");
  }
}

} // namespace

TimeBin bin_of_task(const TaskInfo& info) {
  switch (info.kind) {
  case TaskKind::collective: return TimeBin::exposed_collective;
  case TaskKind::store:
  case TaskKind::reload: return TimeBin::exposed_offload;
  case TaskKind::gap:
  case TaskKind::bookkeeping: return TimeBin::other;
  case TaskKind::kernel: break;
  }
  switch (info.phase) {
  case Phase::forward: return TimeBin::forward;
  case Phase::recompute: return TimeBin::recompute;
  case Phase::backward: return TimeBin::backward;
  case Phase::optimizer: return TimeBin::optimizer;
  case Phase::other: break;
  }
  return TimeBin::other;
}

TimeBin bin_of_gap(const Lowered& lowered, const Timeline& timeline, TaskId before) {
  const TaskId cause = timeline.tasks[before].cause_task;
  if (cause == no_id) {
    return TimeBin::other;
  }
  switch (lowered.tasks[cause].kind) {
  case TaskKind::store:
  case TaskKind::reload:
  case TaskKind::bookkeeping: // room that a store gave back
    return TimeBin::exposed_offload;
  case TaskKind::collective: return TimeBin::exposed_collective;
  case TaskKind::kernel:
  case TaskKind::gap: break;
  }
  return TimeBin::other;
}

RunResult summarize(const Scenario& scenario, const PolicySpec& policy, const Plan& plan,
                    const Lowered& lowered, const Timeline& timeline) {
  RunResult r;
  r.scenario = scenario.name;
  r.policy = policy.name;
  r.step_time_s = to_seconds(timeline.makespan).count();
  r.step_time_low_s = r.step_time_high_s = r.step_time_s;
  const StepTrace& trace = scenario.trace;
  const StepSums sums = sums_of(lowered, timeline);
  r.tokens_per_s_per_gpu = static_cast<double>(trace.tokens * trace.micro_batches) / r.step_time_s;
  r.model_tflops_per_gpu = trace.model_flops.value() / r.step_time_s / tera;
  r.hardware_tflops_per_gpu = sums.hardware_flops / r.step_time_s / tera;
  r.mfu = trace.model_flops.value() / r.step_time_s / scenario.device.peak_bf16.value;

  const PoolId hbm = lowered.hbm_pool.front();
  const Timeline::PoolPeak& peak = timeline.peaks[hbm];
  r.peak_hbm_bytes = peak.bytes;
  r.hbm_limit_bytes = lowered.machine.pools[hbm].capacity;
  r.hbm_owners = owners_at(peak, lowered.machine.pools[hbm]);
  r.peak_hbm_moment =
      peak.task == no_id
          ? "before the step"
          : fmt::format("{} ({}), {} into the step", lowered.describe(peak.task, timeline),
                        phase_name(lowered.tasks[peak.task].phase),
                        format_seconds(to_seconds(peak.time).count()));
  const PoolId host = lowered.host_pool.front();
  r.peak_host_bytes = timeline.peaks[host].bytes;
  r.host_limit_bytes = lowered.machine.pools[host].capacity;
  r.host_owners = owners_at(timeline.peaks[host], lowered.machine.pools[host]);

  const std::array<SimTime, time_bin_count> bins = bin_time(lowered, timeline);
  for (std::size_t bin = 0; bin < time_bin_count; ++bin) {
    r.time[bin] = to_seconds(bins[bin]).count();
  }
  r.verdict = verdict_of(r);
  fill_copies(r, sums);
  fill_assumptions(r, scenario);
  fill_warnings(r, scenario, plan, lowered);
  return r;
}

} // namespace spillway
