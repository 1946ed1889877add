#include "sim/lower/fold.hpp"

#include "sim/base/error.hpp"
#include "sim/engine/repeats.hpp"
#include "sim/lower/step_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

constexpr std::int64_t settling_layers = 8; // beside special ones
constexpr std::int64_t kept_micro_batches = 6;
constexpr double most_tasks = 2e7; // of one graph: a few gigabytes

// The largest even number of iterations to leave out: stores may change their order
// from layer to layer.
std::int64_t even(std::int64_t iterations) {
  return std::max<std::int64_t>(0, iterations - iterations % 2);
}

// An even number of rounds in which every kind of layer has its turn.
std::int64_t even_rounds(const LayerBlock& block, std::int64_t layers) {
  const auto turns = static_cast<std::int64_t>(block.kinds.size());
  return std::max<std::int64_t>(0, layers - layers % (turns % 2 == 0 ? turns : 2 * turns));
}

// About 120 tasks a layer, forward and backward, for each GPU of a CPU.
void check_length(const Scenario& scenario, const LeftOut& left_out) {
  std::int64_t layers = scenario.model.layers;
  for (const std::int64_t fewer : left_out.layers) {
    layers -= fewer;
  }
  const double tasks = 120 * static_cast<double>(layers) *
                       static_cast<double>(scenario.device.gpus_per_cpu) *
                       static_cast<double>(scenario.trace.micro_batches - left_out.micro_batches);
  if (tasks > most_tasks) {
    throw InputError(
        fmt::format("a step of about {:.0f} million tasks is too long to replay one by one",
                    tasks / 1e6),
        "it is not folded or does not repeat itself; lower batch.accumulation");
  }
}

std::uint32_t position_of(const TaskGraph& graph, TaskId task) {
  const std::span<const TaskId> tasks = graph.tasks_of(graph.tasks[task].lane);
  const auto at = std::lower_bound(tasks.begin(), tasks.end(), task); // ids ascend on a lane
  return graph.lane_offset[graph.tasks[task].lane] + static_cast<std::uint32_t>(at - tasks.begin());
}

} // namespace

LeftOut foldable(const Scenario& scenario, const Plan& plan, Folding folding) {
  LeftOut left_out;
  if (folding == Folding::off) {
    return left_out;
  }
  left_out.micro_batches = even(scenario.trace.micro_batches - kept_micro_batches);
  if (folding == Folding::micro_batches) {
    return left_out;
  }
  const std::int64_t held = settling_layers + 2 * special_layers(scenario.runtime);
  for (const LayerBlock& block : plan.blocks) {
    const auto turns = static_cast<std::int64_t>(block.kinds.size());
    left_out.layers.push_back(even_rounds(block, block.layers - held * turns));
  }
  return left_out;
}

StepRun run_step(const Scenario& scenario, const Plan& plan, CostModel& cost, RateCache& cache,
                 Folding folding, double speed) {
  LeftOut left_out = foldable(scenario, plan, folding);
  for (;;) {
    check_length(scenario, left_out);
    StepRun run;
    run.clock_speed = speed;
    run.lowered = lower(scenario, plan, cache, left_out);
    try {
      run.timeline = replay_balanced(scenario, cost, run.lowered, run.clock_speed);
      return run;
    } catch (const NoRecurrence& none) {
      const LoopOf& loop = run.lowered.loops_of[none.loop()];
      const auto possible = static_cast<std::int64_t>(none.possible());
      if (loop.micro_batches) {
        left_out.micro_batches = even(possible);
      } else {
        left_out.layers[loop.block] = even_rounds(plan.blocks[loop.block], possible);
      }
    }
  }
}

std::int32_t layer_of(const Lowered& lowered, const Timeline& timeline, TaskId task) {
  const TaskInfo& info = lowered.tasks[task];
  if (info.layer < 0) {
    return -1;
  }
  const LoweredLayer& layer = lowered.layers[static_cast<std::size_t>(info.layer)];
  const bool backward = info.phase != Phase::forward;
  const std::uint32_t position = position_of(lowered.graph, task);
  for (const Repeat& repeat : timeline.repeats) {
    const LoopOf& loop = lowered.loops_of[repeat.loop];
    if (!loop.micro_batches && loop.backward == backward && loop.micro_batch == info.micro_batch &&
        loop.first_layer <= info.layer && info.layer <= loop.last_layer) {
      const bool after = position >= repeat.end[lowered.graph.tasks[task].lane];
      return layer.index + (after != backward ? layer.left_out : 0); // backward: the last first
    }
  }
  return layer.index;
}

std::string Lowered::describe(TaskId task, const Timeline& timeline) const {
  const TaskInfo& task_info = tasks[task];
  std::string text = labels[task_info.label];
  if (task_info.phase == Phase::recompute) {
    text = "re-run of " + text;
  }
  if (task_info.layer >= 0) {
    text += " in " + layer_names[static_cast<std::size_t>(layer_of(*this, timeline, task))];
  }
  return text;
}

StepSums sums_of(const Lowered& lowered, const Timeline& timeline) {
  const RunCounts runs(lowered.graph, timeline);
  StepSums sums;
  std::vector<std::int64_t> runs_of(lowered.works.size(), 0);
  for (TaskId task = 0; task < lowered.tasks.size(); ++task) {
    const TaskInfo& info = lowered.tasks[task];
    if (info.rank != 0) {
      continue;
    }
    if (info.kind == TaskKind::store || info.kind == TaskKind::reload) {
      const std::int64_t bytes =
          runs.of(task) * static_cast<std::int64_t>(lowered.graph.tasks[task].work);
      (info.kind == TaskKind::store ? sums.d2h_bytes : sums.h2d_bytes) += bytes;
      sums.copying += (timeline.tasks[task].end - timeline.tasks[task].start) * runs.of(task);
    } else if (lowered.prices[task].of == PriceOf::work) {
      runs_of[lowered.prices[task].work] += runs.of(task);
    }
  }
  for (std::size_t work = 0; work < lowered.works.size(); ++work) {
    sums.hardware_flops += static_cast<double>(runs_of[work]) * lowered.works[work].flops().value();
  }
  return sums;
}

} // namespace spillway
