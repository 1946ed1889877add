#include "sim/lower/rank_emitter.hpp"

#include "sim/lower/pricing.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway {

RankEmitter::RankEmitter(StepContext& context, std::uint16_t rank, RankLanes lanes,
                         RankResources resources)
    : context_(context), rank_(rank), lanes_(lanes), resources_(resources) {
  const auto copy_route = [&](ResourceId link) {
    std::vector<Use> uses{{link, 1.0}, {context_.out.cpu_memory, 1.0}};
    if (resources_.duplex != no_id) {
      uses.push_back({resources_.duplex, 1.0});
    }
    return context_.graph.add_route(uses);
  };
  d2h_route_ = copy_route(resources_.d2h);
  h2d_route_ = copy_route(resources_.h2d);

  const std::size_t layers = context_.layers.size();
  tasks_.resize(layers);
  const std::int64_t micro_batches =
      context_.scenario.trace.micro_batches - context_.left_out.micro_batches;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    for (std::size_t layer = 0; layer < layers; ++layer) {
      segments_.push_back({layer, false, m});
    }
    for (std::size_t layer = layers; layer-- > 0;) {
      segments_.push_back({layer, true, m});
    }
  }
  gathered_.assign(segments_.size(), {no_id, no_id});
  context_.out.resources.push_back(resources_);
}

TaskInfo RankEmitter::info(TaskKind kind, Phase phase, std::size_t layer,
                           const std::string& label) const {
  return {
      kind, phase, rank_, static_cast<std::int32_t>(layer), micro_batch_, context_.label(label)};
}

TaskInfo RankEmitter::step_info(TaskKind kind, Phase phase, const std::string& label) const {
  return {kind, phase, rank_, -1, -1, context_.label(label)}; // of no layer
}

void RankEmitter::note(TaskId task, TaskInfo task_info, TaskPrice price) {
  context_.out.tasks.resize(task + std::size_t{1});
  context_.out.tasks[task] = task_info;
  context_.out.prices.resize(task + std::size_t{1});
  context_.out.prices[task] = price;
}

std::uint32_t RankEmitter::hbm_work(double bytes) {
  Work work;
  work.kind = WorkKind::memory;
  work.bytes = Bytes{std::llround(bytes)};
  context_.out.works.push_back(work);
  return static_cast<std::uint32_t>(context_.out.works.size() - 1);
}

TaskId RankEmitter::add_kernel(std::uint32_t work, TaskInfo task_info) {
  const TaskId task = context_.graph.add_fixed(lanes_.compute, SimTime{0});
  note(task, task_info, {PriceOf::work, work});
  wait_at_start(task);
  last_compute_ = task;
  return task;
}

// One route per collective operation; all layers use it. No route: nothing to do.
RouteId RankEmitter::collective_route(std::uint32_t work) {
  if (routes_.size() <= work) {
    routes_.resize(work + std::size_t{1}, no_id);
  }
  if (routes_[work] == no_id) {
    const CollectiveCost cost = context_.topology.collective(context_.out.works[work]);
    if (cost.amount > 0) {
      routes_[work] =
          context_.graph.add_route(collective_uses(cost, resources_, context_.out.cpu_memory));
      context_.out.collective_routes.push_back({routes_[work], work, rank_});
    }
  }
  return routes_[work];
}

TaskId RankEmitter::add_collective(std::uint32_t work, TaskInfo task_info) {
  const bool overlapped = context_.scenario.runtime.overlap_collectives;
  const bool exchange = context_.out.works[work].kind == WorkKind::all_to_all;
  const LaneId lane = !overlapped ? lanes_.compute : exchange ? lanes_.exchange : lanes_.weights;
  const RouteId route = collective_route(work);
  const TaskId task = route == no_id ? context_.graph.add_fixed(lane, SimTime{0})
                                     : context_.graph.add_flow(lane, SimTime{0}, 1.0, route);
  note(task, task_info, {route == no_id ? PriceOf::constant : PriceOf::work, work});
  if (!overlapped) {
    wait_at_start(task);
    last_compute_ = task;
  }
  return task;
}

void RankEmitter::wait_at_start(TaskId task) {
  for (const TaskId wait : start_waits_) {
    context_.graph.depend(task, wait);
  }
  start_waits_.clear();
}

void RankEmitter::emit_step() {
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    const std::size_t first = context_.graph.task_count();
    if (!segments_[s].backward && segments_[s].layer == 0) {
      fill_stacks();
      micro_batch_begin_ = first;
    }
    emit_segment(s);
    end_layer_iteration(segments_[s], first);
    if (segments_[s].backward && segments_[s].layer == 0) {
      end_micro_batch(segments_[s].micro_batch);
    }
  }
  for (const PendingGradient& pending : std::exchange(pending_gradients_, {})) {
    fold_gradient(pending);
  }
  run_optimizer();
}

// A layer of a block that leaves some out; `first`: the first task of its segment.
void RankEmitter::end_layer_iteration(const Segment& segment, std::size_t first) {
  const LayerInstance& instance = context_.layers[segment.layer];
  const LoweredLayer& layer = context_.out.layers[segment.layer];
  if (layer.left_out == 0) {
    return;
  }
  const bool begins = segment.backward ? instance.last_of_loop() : instance.first_of_loop();
  const auto first_layer =
      static_cast<std::int32_t>(segment.layer) - static_cast<std::int32_t>(instance.position);
  if (begins) {
    layer_loop_ =
        loop_of({.micro_batches = false,
                 .backward = segment.backward,
                 .micro_batch = micro_batch_,
                 .block = instance.block,
                 .first_layer = first_layer,
                 .last_layer = first_layer + static_cast<std::int32_t>(instance.loop_length) - 1},
                layer.left_out);
  }
  const std::int64_t margin = special_layers(context_.scenario.runtime);
  const std::int64_t to_border =
      std::min(instance.position, instance.loop_length - 1 - instance.position);
  end_iteration(layer_loop_,
                {.is_special = to_border < margin,
                 .in_the_middle = instance.position == instance.loop_length / 2},
                first);
}

void RankEmitter::end_micro_batch(std::int64_t micro_batch) {
  const std::int64_t left_out = context_.left_out.micro_batches;
  if (left_out > 0) {
    const std::size_t loop = loop_of({.micro_batches = true}, left_out);
    const std::int64_t held = context_.scenario.trace.micro_batches - left_out;
    end_iteration(loop,
                  {.is_special = micro_batch == 0 || micro_batch + 1 == held,
                   .in_the_middle = micro_batch == held / 2},
                  micro_batch_begin_);
  }
}

// All ranks run the same loops; the first one makes them.
std::size_t RankEmitter::loop_of(const LoopOf& what, std::int64_t left_out) {
  std::vector<LoopOf>& known = context_.out.loops_of;
  const auto found = std::find(known.begin(), known.end(), what);
  const auto loop = static_cast<std::size_t>(found - known.begin());
  if (found == known.end()) {
    known.push_back(what);
    context_.out.loops.push_back({{}, {}, static_cast<std::uint64_t>(left_out)});
  }
  return loop;
}

void RankEmitter::end_iteration(std::size_t loop, Iteration iteration, std::size_t first) {
  Loop& made = context_.out.loops[loop];
  if (rank_ == 0 && !iteration.is_special) {
    made.ends.push_back(last_compute_);
  }
  if (iteration.in_the_middle) {
    made.tasks.resize(context_.out.machine.lanes.size(), 0);
    for (std::size_t task = first; task < context_.graph.task_count(); ++task) {
      ++made.tasks[context_.graph.lane_of(static_cast<TaskId>(task))];
    }
  }
}

bool RankEmitter::weights_stay(std::size_t segment_index) const {
  return segment_index + 1 < segments_.size() &&
         segments_[segment_index].layer == segments_[segment_index + 1].layer &&
         !segments_[segment_index].backward;
}

void RankEmitter::emit_segment(std::size_t index) {
  const Segment& segment = segments_[index];
  const TaskId top = last_compute_;
  micro_batch_ = static_cast<std::int32_t>(segment.micro_batch);
  const bool overlapped = context_.scenario.runtime.overlap_collectives;
  // Casts stay with their layer; only what is gathered is gathered ahead.
  gather_weights(index, top, {.gathers = index == 0 || !overlapped, .casts = true});
  if (overlapped && index + 1 < segments_.size()) {
    gather_weights(index + 1, top, {.gathers = true, .casts = false});
  }
  const std::vector<PendingGradient> reducing = std::exchange(pending_gradients_, {});
  if (segment.backward) {
    if (context_.scenario.framework.gradients_allocated_at_once &&
        segment.layer + 2 == context_.layers.size()) {
      if (segment.micro_batch == 0) {
        zero_gradients();
      }
      hold_across_backward(segment.micro_batch == 0 ? last_compute_ : top, segment.layer);
    }
    before_backward(segment.layer, top);
    read_unchecked(segment.layer);
  } else {
    LayerTasks& tasks = tasks_[segment.layer];
    const std::size_t offloaded = context_.program_of(segment.layer).offloaded.size();
    tasks.stores.assign(offloaded, no_id);
    tasks.reloads.assign(offloaded, no_id);
    before_forward(segment.layer, top);
  }
  emit_program(index);
  if (segment.backward) {
    release_unchecked(segment.layer);
  }
  if (segment.backward && segment.layer == 0 && index + 1 < segments_.size() &&
      holds_logit_gradient()) {
    context_.graph.free_at_end(last_compute_,
                               hbm(HbmOwner::logits_and_loss, context_.logit_gradient()));
  }
  if (!segment.backward) {
    keep_unchecked(segment.layer);
    after_forward(segment.layer);
  }
  for (const PendingGradient& pending : reducing) { // while this segment ran
    fold_gradient(pending);
  }
}

void RankEmitter::emit_program(std::size_t index) {
  const Segment& segment = segments_[index];
  const LayerProgram& program = context_.program_of(segment.layer);
  const std::vector<ProgramStep>& steps = segment.backward ? program.backward : program.forward;
  std::vector<TaskId> step_tasks(steps.size(), no_id);
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const ProgramStep& step = steps[i];
    if (segment.backward) {
      before_backward_step(segment.layer, step);
      const TaskId task = emit_step_task(index, i, step_tasks);
      wait_for_reloads(segment.layer, step, task);
      after_backward_step(segment.layer, i, task);
      reduce_gradients(segment, step, task);
    } else {
      const TaskId task = emit_step_task(index, i, step_tasks);
      before_forward_step(segment.layer, step, task);
      after_forward_step(segment.layer, step, task);
    }
  }
  if (!segment.backward) {
    tasks_[segment.layer].forward_steps = std::move(step_tasks);
  }
}

TaskId RankEmitter::emit_step_task(std::size_t segment_index, std::uint32_t step_index,
                                   std::vector<TaskId>& step_tasks) {
  const Segment& segment = segments_[segment_index];
  const LayerProgram& program = context_.program_of(segment.layer);
  const ProgramStep& step = (segment.backward ? program.backward : program.forward)[step_index];
  const TaskId before = last_compute_;
  const TaskInfo task_info = info(step.is_collective ? TaskKind::collective : TaskKind::kernel,
                                  step.phase, segment.layer, step.name);
  const TaskId task =
      step.is_collective ? add_collective(step.work, task_info) : add_kernel(step.work, task_info);
  step_tasks[step_index] = task;
  for (const std::uint32_t wait : step.waits) {
    context_.graph.depend(task, step_tasks[wait]);
  }
  if (step.is_collective && step.waits.empty()) {
    context_.graph.depend(task, before); // reads only what this segment was given
  }
  for (std::size_t g = 0; g < weight_group_count; ++g) {
    if (step.first_use[g]) {
      context_.graph.depend(task, gathered_[segment_index][g]);
    }
  }
  if (segment_index % (2 * context_.layers.size()) == 0 && step_index == 0) {
    // The first layer's input comes from outside.
    const LayerKind& kind = context_.kind_of(segment.layer);
    context_.graph.allocate_at_start(task, {context_.out.hbm_pool[rank_],
                                            static_cast<OwnerId>(program.input_owner),
                                            kind.tensors[kind.input].bytes.count()});
  }
  hold_step_memory(task, segment_index, step);
  return task;
}

// Gathered weights come and go together, and so do an eager framework's casts; a compiled
// loop casts whole weights matrix by matrix. The casts that a layer without checkpoint
// kept are all taken out of their stacks at its top.
void RankEmitter::hold_weights(TaskId task, std::size_t segment_index, const ProgramStep& step) {
  const std::size_t layer = segments_[segment_index].layer;
  const bool stay = weights_stay(segment_index);
  const bool stayed = segment_index > 0 && weights_stay(segment_index - 1);
  const bool all_at_once = segments_[segment_index].backward && context_.keeps_casts(layer);
  for (std::size_t g = 0; g < weight_group_count; ++g) {
    if (!context_.copies_weights(layer, g)) {
      continue;
    }
    const bool by_matrix = context_.by_matrix(g);
    const std::int64_t taken =
        !by_matrix || stayed ? 0
        : all_at_once        ? (step.first_use[g] ? context_.program_of(layer).matrix_bytes(g) : 0)
                             : step.first_use_bytes[g];
    const std::int64_t given_back =
        stay        ? 0
        : by_matrix ? step.last_use_bytes[g]
                    : (step.last_use[g] ? context_.gathered_bytes(layer, g) : 0);
    if (taken > 0) {
      context_.graph.allocate_at_start(task, hbm(HbmOwner::gathered_weights, taken));
    }
    if (given_back > 0) {
      context_.graph.free_at_end(task, hbm(HbmOwner::gathered_weights, given_back));
    }
  }
}

void RankEmitter::hold_step_memory(TaskId task, std::size_t segment_index,
                                   const ProgramStep& step) {
  for (const OwnerBytes& entry : step.allocate) {
    context_.graph.allocate_at_start(task, hbm(entry.owner, entry.bytes));
  }
  for (const OwnerBytes& entry : step.release) {
    context_.graph.free_at_end(task, hbm(entry.owner, entry.bytes));
  }
  const Segment& segment = segments_[segment_index];
  hold_weights(task, segment_index, step);
  for (std::size_t g = 0; g < weight_group_count; ++g) {
    if (context_.folds_by_matrix(segment.layer, g)) {
      if (step.gradient_bytes[g] > 0) { // used as soon as it is there
        context_.graph.allocate_at_start(task, hbm(HbmOwner::gradients, step.gradient_bytes[g]));
        context_.graph.free_at_end(task, hbm(HbmOwner::gradients, step.gradient_bytes[g]));
      }
      continue;
    }
    const std::int64_t bytes = context_.gathered_bytes(segment.layer, g);
    const bool there = segment.layer == 0 && table_is_hoisted();
    if (step.first_gradient[g] && !there) {
      context_.graph.allocate_at_start(task, hbm(HbmOwner::gradients, bytes));
    }
  }
}

} // namespace spillway
