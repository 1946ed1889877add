#include "sim/lower/step_bound.hpp"

#include "sim/engine/repeats.hpp"
#include "sim/lower/clock.hpp"
#include "sim/lower/memory_bound.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway {
namespace {

constexpr double clock_slack = 2 * speed_settled; // the balance is found to this
constexpr double rounding = 1e-9;                 // of times to whole picoseconds

// Around the reference's speed finely, since other policies' are not far.
std::vector<double> speed_grid(const std::optional<ClockRule>& rule, double reference) {
  if (!rule) {
    return {1.0};
  }
  const double highest = rule->max_speed.value;
  std::vector<double> speeds;
  for (const double relative : {0.5, 0.9, 0.97, 1.0, 1.03, 1.1}) {
    if (relative * reference < highest) {
      speeds.push_back(relative * reference);
    }
  }
  speeds.push_back(highest);
  return speeds;
}

KernelSums scaled(KernelSums sums, double factor) {
  sums.matmul_s *= factor;
  sums.attention_s *= factor;
  sums.memory_s *= factor;
  sums.matmul_flops *= factor;
  return sums;
}

KernelSums& operator+=(KernelSums& sums, const KernelSums& more) {
  sums.matmul_s += more.matmul_s;
  sums.attention_s += more.attention_s;
  sums.memory_s += more.memory_s;
  sums.matmul_flops += more.matmul_flops;
  return sums;
}

// Of the first rank's compute lane over the whole step.
double kernel_seconds(const StepRun& run) {
  const RunCounts runs(run.lowered.graph, run.timeline);
  SimTime sum{0};
  for (const TaskId task : run.lowered.graph.tasks_of(run.lowered.lanes.front().compute)) {
    const TaskTimes& times = run.timeline.tasks[task];
    const TaskKind kind = run.lowered.tasks[task].kind;
    if (kind == TaskKind::kernel || kind == TaskKind::gap) {
      sum += (times.end - times.start) * runs.of(task);
    }
  }
  return to_seconds(sum).count();
}

} // namespace

StepBound::Share& StepBound::Share::operator+=(const Share& other) {
  time.resize(std::max(time.size(), other.time.size()), 0.0);
  for (std::size_t s = 0; s < other.time.size(); ++s) {
    time[s] += other.time[s];
  }
  kernels += other.kernels;
  kept += other.kept;
  offloaded += other.offloaded;
  return *this;
}

StepBound::StepBound(const Scenario& scenario, const Plan& reference, const StepRun& run,
                     RateCache& cache)
    : scenario_(&scenario), cost_(scenario.device, scenario.parallel.gpus, cache),
      speeds_(speed_grid(scenario.device.clock, run.clock_speed)) {
  for (std::uint32_t kind = 0; kind < scenario.trace.kinds.size(); ++kind) {
    bounds_.emplace_back(scenario, kind, cost_);
  }
  for (const LayerBlock& block : scenario.trace.blocks) {
    forward_weights_.push_back(weights_of(block, false));
    backward_weights_.push_back(weights_of(block, true));
  }
  make_groups();
  measure_reference(reference, run);
}

void StepBound::make_groups() {
  const StepTrace& trace = scenario_->trace;
  for (std::uint32_t kind = 0; kind < trace.kinds.size(); ++kind) {
    if (!trace.kinds[kind].checkpointed) {
      continue;
    }
    const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
      return group.name == trace.kinds[kind].name;
    });
    (found == groups_.end() ? groups_.emplace_back(Group{trace.kinds[kind].name, {}}) : *found)
        .kinds.push_back(kind);
  }
  parts_.resize(groups_.size());
  for (std::uint32_t b = 0; b < trace.blocks.size(); ++b) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      Part part{b, std::vector<std::int64_t>(groups_[g].kinds.size(), 0), true};
      std::int64_t sum = 0;
      for (std::int64_t position = 0; position < trace.blocks[b].layers; ++position) {
        const auto at = std::find(groups_[g].kinds.begin(), groups_[g].kinds.end(),
                                  trace.blocks[b].kind_of(position));
        if (at != groups_[g].kinds.end()) {
          ++part.layers[static_cast<std::size_t>(at - groups_[g].kinds.begin())];
          ++sum;
        }
      }
      part.whole = sum == trace.blocks[b].layers;
      if (sum > 0) {
        parts_[g].push_back(std::move(part));
      }
    }
  }
}

// n - 1 layers' gathers, and in backward n - 1 reductions, run while the loop does.
StepBound::LoopLoad StepBound::weights_of(const LayerBlock& block, bool backward) const {
  LoopLoad load;
  double largest = 0;
  double largest_link = 0;
  for (std::int64_t position = 0; position < block.layers; ++position) {
    const LayerKind& kind = scenario_->trace.kinds[block.kind_of(position)];
    double lane = 0;
    double link = 0;
    for (std::size_t g = 0; g < weight_group_count; ++g) {
      for (const WorkKind what : {WorkKind::all_gather, WorkKind::reduce_scatter}) {
        if (what == WorkKind::reduce_scatter && !backward) {
          continue;
        }
        Work work;
        work.kind = what;
        work.bytes = Bytes{kind.parameters[g] * bytes_per_element(scenario_->precision.compute)};
        work.group = scenario_->trace.shard_group[g];
        const CollectiveTime time = solo_collective(*scenario_, cost_, work);
        lane += time.total;
        link += time.link;
      }
    }
    load.lane += lane;
    load.link += link;
    largest = std::max(largest, lane);
    largest_link = std::max(largest_link, link);
  }
  load.exposed = scenario_->runtime.overlap_collectives ? 0 : load.lane - largest;
  load.lane -= largest;
  load.link -= largest_link;
  return load;
}

StepBound::Orders StepBound::orders(std::size_t group, const std::vector<KindPlan>& plans) const {
  Orders result;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    result.push_back(backward_order(scenario_->trace.kinds[groups_[group].kinds[k]], plans[k],
                                    scenario_->framework.compiled_order));
  }
  return result;
}

StepBound::Saved StepBound::saved(std::size_t group, const Orders& orders) const {
  Saved result;
  for (std::size_t k = 0; k < orders.size(); ++k) {
    std::vector<LayerBound::Backward>& by_speed = result.emplace_back();
    for (const double speed : speeds_) {
      by_speed.push_back(bounds_[groups_[group].kinds[k]].backward(orders[k], speed));
    }
  }
  return result;
}

double StepBound::part_time(const Part& part, const Group& group,
                            const std::vector<KindPlan>& plans, const Saved& saved,
                            std::size_t speed) const {
  double forward = 0, backward = 0;             // paths
  double forward_alone = 0, backward_alone = 0; // without copies
  double forward_link = 0, backward_link = 0;   // of exchanges
  double stores = 0, reloads = 0;
  std::int64_t layers = 0;
  const bool one_kind = scenario_->trace.blocks[part.block].kinds.size() == 1;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    const std::int64_t n = part.layers[k];
    if (n == 0) {
      continue;
    }
    const LayerBound& bound = bounds_[group.kinds[k]];
    const LayerBound::Backward& of_saved = saved[k][speed];
    const DirectionBound f = bound.forward_of(plans[k], speeds_[speed]);
    const DirectionBound b = bound.backward_of(plans[k], of_saved, speeds_[speed]);
    const auto count = static_cast<double>(n);
    // Where kinds take turns a layer waits for copies of another one's tensors.
    forward_alone += count * f.compute;
    backward_alone += count * b.compute;
    forward += one_kind ? f.of(n) : count * f.first;
    backward += one_kind ? b.of(n) : count * b.first;
    forward_link += count * bound.forward_link();
    backward_link += count * of_saved.link;
    stores += count * bound.store_time(plans[k]);
    reloads += count * bound.reload_time(plans[k]);
    layers += n;
  }
  if (!part.whole) {
    return forward + backward;
  }
  // Copies of some layers at the ends may reach beyond the loop.
  const RuntimeSpec& runtime = scenario_->runtime;
  const bool streamed = runtime.schedule == CopySchedule::streamed;
  const auto inside = [&](std::int64_t beyond) {
    return std::max(0.0, 1.0 - static_cast<double>(beyond) / static_cast<double>(layers));
  };
  const double s = stores * inside(streamed ? runtime.in_flight_layers + 2 : 1);
  const double r = reloads * inside(streamed ? runtime.prefetch_layers + 1 : 1);
  const LoopLoad& fw = forward_weights_[part.block];
  const LoopLoad& bw = backward_weights_[part.block];
  // Copies move while the compute lane runs exposed collectives.
  return std::max({forward, forward_alone + fw.exposed, s, fw.lane, fw.link + forward_link}) +
         std::max({backward, backward_alone + bw.exposed, r, bw.lane, bw.link + backward_link});
}

// The last layer may keep what others offload. Streamed stores of the last layers may still
// run in backward: when the last one starts its own layer's reloads may have freed the rest
// of that layer, and no others, since copies of a direction are in order.
void StepBound::count_last_layers(std::size_t group, const std::vector<KindPlan>& plans,
                                  Share& share) const {
  const RuntimeSpec& runtime = scenario_->runtime;
  const std::vector<std::uint32_t>& kinds = groups_[group].kinds;
  const auto offloaded_by = [&](std::int64_t before_last) -> std::int64_t {
    const auto at = std::find(kinds.begin(), kinds.end(), kind_at(before_last));
    return at == kinds.end()
               ? 0
               : plans[static_cast<std::size_t>(at - kinds.begin())].offloaded.count();
  };
  if (!runtime.offload_last_layer) {
    share.kept += offloaded_by(0);
    share.offloaded -= offloaded_by(0);
  }
  if (runtime.schedule != CopySchedule::streamed) {
    return;
  }
  for (std::int64_t i = runtime.offload_last_layer ? 0 : 1; i < runtime.in_flight_layers; ++i) {
    if (const std::int64_t freed = offloaded_by(i); freed > 0) {
      share.offloaded = std::max<std::int64_t>(1, share.offloaded - freed); // it does offload
      return;
    }
  }
}

StepBound::Share StepBound::share(std::size_t group, const std::vector<KindPlan>& plans,
                                  const Saved& saved) const {
  Share result;
  result.time.assign(speeds_.size(), 0.0);
  const auto micro_batches = static_cast<double>(scenario_->trace.micro_batches);
  for (std::size_t s = 0; s < speeds_.size(); ++s) {
    for (const Part& part : parts_[group]) {
      result.time[s] += micro_batches * part_time(part, groups_[group], plans, saved, s);
    }
  }
  for (const Part& part : parts_[group]) {
    for (std::size_t k = 0; k < plans.size(); ++k) {
      const std::int64_t n = part.layers[k];
      KernelSums sums = bounds_[groups_[group].kinds[k]].forward_kernels(plans[k]);
      sums += saved[k].front().kernels;
      result.kernels += scaled(sums, static_cast<double>(n) * micro_batches);
      result.kept += n * plans[k].kept.count();
      result.offloaded += n * plans[k].offloaded.count();
    }
  }
  count_last_layers(group, plans, result);
  // The stacks of what is kept are filled with zeros in every micro-batch.
  const double fill = micro_batches * scenario_->framework.stack_fill.value *
                      static_cast<double>(result.kept) / scenario_->device.hbm_rate.value;
  result.kernels.memory_s += fill;
  for (double& time : result.time) {
    time += fill;
  }
  return result;
}

double StepBound::step_time(const Share& groups) const {
  const auto at = [&](std::size_t s) { return groups.time[s] + fixed_time_[s]; };
  if (!scenario_->device.clock) {
    return at(0) * (1 - rounding);
  }
  const ClockRule& rule = *scenario_->device.clock;
  KernelSums sums = fixed_kernels_;
  sums += groups.kernels;
  const double idle = rule.idle_power.value;
  const double scaling = (1 - idle) * sums.matmul_flops / rule.limit_rate.value +
                         (rule.attention_power.value - idle) * sums.attention_s;
  const double rest = (rule.memory_power.value - idle) * sums.memory_s;
  const auto energy = [&](double speed) {
    return (scaling * std::pow(speed, rule.exponent.value - 1) + rest) / (1 - idle);
  };
  double least = at(0);                                  // below the slowest of the grid
  for (std::size_t s = 0; s + 1 < speeds_.size(); ++s) { // between two speeds
    least = std::min(least, std::max(at(s + 1), energy(speeds_[s])));
  }
  return least * (1 - clock_slack);
}

void StepBound::measure_reference(const Plan& reference, const StepRun& run) {
  const StepTrace& trace = scenario_->trace;
  const auto micro_batches = static_cast<double>(trace.micro_batches);
  fixed_time_.assign(speeds_.size(), 0.0);
  KernelSums programs;
  double kept = 0;
  for (const LayerBlock& block : trace.blocks) {
    for (std::int64_t position = 0; position < block.layers; ++position) {
      const std::uint32_t kind = block.kind_of(position);
      const KindPlan& plan = reference.kinds[kind];
      const std::vector<BackwardItem> order =
          backward_order(trace.kinds[kind], plan, scenario_->framework.compiled_order);
      const LayerBound::Backward at_speed_1 = bounds_[kind].backward(order, 1.0);
      KernelSums sums = bounds_[kind].forward_kernels(plan);
      sums += at_speed_1.kernels;
      programs += scaled(sums, micro_batches);
      if (trace.kinds[kind].checkpointed) {
        kept += static_cast<double>(plan.kept.count());
        continue;
      }
      fixed_kernels_ += scaled(sums, micro_batches);
      for (std::size_t s = 0; s < speeds_.size(); ++s) {
        fixed_time_[s] += micro_batches * (bounds_[kind].forward_of(plan, speeds_[s]).first +
                                           bounds_[kind].backward(order, speeds_[s]).alone);
      }
    }
  }
  Work fill;
  fill.kind = WorkKind::memory;
  fill.bytes = Bytes{static_cast<std::int64_t>(scenario_->framework.stack_fill.value * kept)};
  const double filling =
      fill.bytes.count() > 0 ? micro_batches * cost_.kernel_time(fill).count() : 0.0;
  const double extra = std::max(0.0, kernel_seconds(run) - programs.at(run.clock_speed) - filling);
  fixed_kernels_.memory_s += extra;
  for (double& time : fixed_time_) {
    time += extra;
  }
  fixed_bytes_ = least_fixed_bytes(*scenario_, false);
  fixed_bytes_offloading_ = least_fixed_bytes(*scenario_, true);
}

std::uint32_t StepBound::kind_at(std::int64_t before_last) const {
  const std::vector<LayerBlock>& blocks = scenario_->trace.blocks;
  for (std::size_t b = blocks.size() - 1; b-- > 0;) { // the head comes after them
    if (before_last < blocks[b].layers) {
      return blocks[b].kind_of(blocks[b].layers - 1 - before_last);
    }
    before_last -= blocks[b].layers;
  }
  return blocks.front().kind_of(0);
}

std::int64_t StepBound::last_layer_bytes(std::size_t group,
                                         const std::vector<KindPlan>& plans) const {
  return last_layer(group, plans, true);
}

std::int64_t StepBound::least_last_layer_bytes(std::size_t group,
                                               const std::vector<KindPlan>& offloading) const {
  return last_layer(group, offloading, false);
}

std::int64_t StepBound::last_layer(std::size_t group, const std::vector<KindPlan>& plans,
                                   bool reloads) const {
  const std::uint32_t last = kind_at(0);
  const std::vector<std::uint32_t>& kinds = groups_[group].kinds;
  const auto at = std::find(kinds.begin(), kinds.end(), last);
  if (at == kinds.end()) {
    return 0;
  }
  const LayerKind& kind = scenario_->trace.kinds[last];
  std::vector<Work> works;
  const LayerProgram program =
      make_program(kind, plans[static_cast<std::size_t>(at - kinds.begin())], HbmOwner::workspace,
                   scenario_->framework, works);
  // The last layer may keep what others offload.
  return least_peak(*scenario_, kind, program, reloads && scenario_->runtime.offload_last_layer);
}

} // namespace spillway
