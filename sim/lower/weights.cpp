// Weights and gradients of one rank: casts, gathers, reductions, the optimizer.
#include "sim/lower/rank_emitter.hpp"

#include <cmath>

namespace spillway {
namespace {

const char* group_label(std::size_t group) {
  return group == 0 ? "weights" : "expert weights";
}

} // namespace

MemoryChange RankEmitter::hbm(HbmOwner owner, std::int64_t bytes) const {
  return {context_.out.hbm_pool[rank_], static_cast<OwnerId>(owner), bytes};
}

// Gathers of a kind and group are alike in all layers: one work for them all.
std::uint32_t RankEmitter::collective_work(WorkKind kind, std::size_t layer, std::size_t group) {
  const CollectiveKey key{kind, context_.layers[layer].kind, group};
  for (const auto& [known, work] : collective_works_) {
    if (known == key) {
      return work;
    }
  }
  Work work;
  work.kind = kind;
  work.bytes = Bytes{context_.gathered_bytes(layer, group)};
  work.group = context_.shard_group(group);
  context_.out.works.push_back(work);
  const auto id = static_cast<std::uint32_t>(context_.out.works.size() - 1);
  collective_works_.emplace_back(key, id);
  return id;
}

void RankEmitter::gather_weights(std::size_t segment_index, TaskId top, WhichWeights which) {
  if (segment_index > 0 && weights_stay(segment_index - 1)) {
    gathered_[segment_index] = gathered_[segment_index - 1];
    return;
  }
  const Segment& segment = segments_[segment_index];
  const LayerProgram& program = context_.program_of(segment.layer);
  const std::int64_t stored = context_.scenario.precision.weights;
  const std::int64_t computed = bytes_per_element(context_.scenario.precision.compute);
  const Phase phase = segment.backward ? Phase::backward : Phase::forward;
  for (std::size_t g = 0; g < weight_group_count; ++g) {
    const bool gathers = context_.shard_group(g).size > 1;
    // A layer without checkpoint kept the casts of its forward.
    const bool kept =
        segment.backward && context_.by_matrix(g) && context_.keeps_casts(segment.layer);
    const bool casts = stored != computed && context_.kind_of(segment.layer).casts_weights && !kept;
    if (!program.uses_weights(segment.backward, g) || !(gathers ? which.gathers : which.casts)) {
      continue;
    }
    TaskId ready = top;
    if (casts) {
      const double bytes =
          context_.shard_parameters(segment.layer, g) * static_cast<double>(stored + computed);
      ready = add_kernel(hbm_work(bytes), info(TaskKind::kernel, phase, segment.layer,
                                               std::string("cast ") + group_label(g)));
      if (!gathers && !context_.by_matrix(g)) {
        context_.graph.allocate_at_start(
            ready, hbm(HbmOwner::gathered_weights, context_.gathered_bytes(segment.layer, g)));
      }
    }
    if (gathers) {
      const TaskId gather = add_collective(collective_work(WorkKind::all_gather, segment.layer, g),
                                           info(TaskKind::collective, phase, segment.layer,
                                                std::string("gather ") + group_label(g)));
      context_.graph.depend(gather, ready);
      context_.graph.allocate_at_start(
          gather, hbm(HbmOwner::gathered_weights, context_.gathered_bytes(segment.layer, g)));
      gathered_[segment_index][g] = gather;
    }
  }
}

void RankEmitter::reduce_gradients(const Segment& segment, const ProgramStep& step, TaskId task) {
  for (std::size_t g = 0; g < weight_group_count; ++g) {
    if (!step.last_gradient[g]) {
      continue;
    }
    PendingGradient pending{task, segment.layer, g, segment.micro_batch};
    const bool reduces = context_.shard_group(g).size > 1;
    if (reduces) {
      pending.reduced = add_collective(collective_work(WorkKind::reduce_scatter, segment.layer, g),
                                       info(TaskKind::collective, Phase::backward, segment.layer,
                                            std::string("reduce gradients of ") + group_label(g)));
      context_.graph.depend(pending.reduced, task);
      // Whole gradients go in, this rank's shard comes out.
      context_.graph.allocate_at_start(pending.reduced,
                                       hbm(HbmOwner::gradients, shard_bytes(segment.layer, g)));
      context_.graph.free_at_end(
          pending.reduced, hbm(HbmOwner::gradients, context_.gathered_bytes(segment.layer, g)));
    }
    if (context_.scenario.runtime.overlap_collectives && reduces) {
      pending_gradients_.push_back(pending); // folded when the next segment has run
    } else {
      fold_gradient(pending);
    }
  }
}

// A rank's part of a layer's gradient in the compute precision.
std::int64_t RankEmitter::shard_bytes(std::size_t layer, std::size_t group) const {
  return std::llround(context_.shard_parameters(layer, group) *
                      static_cast<double>(bytes_per_element(context_.scenario.precision.compute)));
}

// Converts a layer's reduced gradients to their own precision, adding to what
// earlier micro-batches left, and to what the head left of a table that it shares
// with the embedding. Outside the layer loops a compiled step uses a gradient as soon
// as all of it is there, in the compute precision.
void RankEmitter::fold_gradient(const PendingGradient& pending) {
  const std::int64_t bytes = context_.shard_group(pending.group).size > 1
                                 ? shard_bytes(pending.layer, pending.group)
                                 : context_.gathered_bytes(pending.layer, pending.group);
  const bool compiled = context_.scenario.framework.gradients_allocated_at_once;
  if (compiled && !context_.kind_of(pending.layer).checkpointed &&
      context_.scenario.trace.micro_batches == 1) {
    use_gradient(pending, bytes);
    return;
  }
  const auto held = static_cast<double>(context_.scenario.precision.gradients);
  const auto computed = static_cast<double>(bytes_per_element(context_.scenario.precision.compute));
  const double parameters = context_.shard_parameters(pending.layer, pending.group);
  const double there =
      context_.gradient_is_there(pending.layer, pending.group) ? context_.tied_shard() : 0;
  const double added = pending.micro_batch > 0 ? parameters : there;
  const TaskId fold =
      add_kernel(hbm_work(parameters * (computed + held) + added * held),
                 info(TaskKind::kernel, Phase::backward, pending.layer,
                      std::string("keep gradients of ") + group_label(pending.group)));
  context_.graph.depend(fold, pending.reduced);
  if (!compiled && pending.micro_batch == 0) {
    hold_gradients(fold, parameters - there);
    const std::int64_t more = context_.layers_beside(pending.layer); // given back with them
    gradient_bytes_ += more * gradient_shard_bytes(parameters);
  }
  if (!context_.folds_by_matrix(pending.layer, pending.group)) {
    context_.graph.free_at_end(fold, hbm(HbmOwner::gradients, bytes));
  }
}

// The head's gradient of a shared table stays until the embedding's is there.
void RankEmitter::use_gradient(const PendingGradient& pending, std::int64_t bytes) {
  if (context_.kind_of(pending.layer).tied_parameters > 0) {
    tied_gradient_bytes_ = bytes;
    return;
  }
  const TaskId used = context_.graph.add_fixed(lanes_.release, SimTime{0});
  note(used, info(TaskKind::bookkeeping, Phase::backward, pending.layer, "gradient is used"),
       {PriceOf::constant, 0});
  context_.graph.depend(used, pending.reduced);
  context_.graph.free_at_end(used, hbm(HbmOwner::gradients, bytes));
  if (context_.gradient_is_there(pending.layer, pending.group)) {
    context_.graph.free_at_end(used, hbm(HbmOwner::gradients, tied_gradient_bytes_));
  }
}

std::int64_t RankEmitter::gradient_shard_bytes(double parameters) const {
  return std::llround(parameters * static_cast<double>(context_.scenario.precision.gradients));
}

// Sharded gradients, from `task` on until the optimizer has used them.
void RankEmitter::hold_gradients(TaskId task, double parameters) {
  const std::int64_t bytes = gradient_shard_bytes(parameters);
  context_.graph.allocate_at_start(task, hbm(HbmOwner::gradients, bytes));
  gradient_bytes_ += bytes;
}

// Where the gradients of all layers in loops are one buffer, it is set to zero
// before the backward loop.
// Accumulation keeps a second buffer, of all gradients, for the sum of micro-batches.
void RankEmitter::zero_gradients() {
  const bool accumulates = context_.scenario.trace.micro_batches > 1;
  const double parameters =
      context_.loop_parameters() + (accumulates ? context_.held_parameters() : 0);
  const double bytes = parameters * static_cast<double>(context_.scenario.precision.gradients);
  const TaskId zero =
      add_kernel(hbm_work(bytes), info(TaskKind::kernel, Phase::backward,
                                       context_.layers.size() - 1, "zero gradients"));
  hold_gradients(zero, parameters);
}

// What a compiled backward loop holds from its start beside the loop's gradients: the
// logits' gradient until the head's weights are done, or the embedding's table.
void RankEmitter::hold_across_backward(TaskId top, std::size_t layer) {
  if (!holds_logit_gradient() && !table_is_hoisted()) {
    return;
  }
  const TaskId held = context_.graph.add_fixed(lanes_.release, SimTime{0});
  note(held, info(TaskKind::bookkeeping, Phase::backward, layer, "buffers of the backward loop"),
       {PriceOf::constant, 0});
  context_.graph.depend(held, top);
  context_.graph.allocate_at_start(
      held, holds_logit_gradient() ? hbm(HbmOwner::logits_and_loss, context_.logit_gradient())
                                   : hbm(HbmOwner::gradients, context_.gathered_bytes(0, 0)));
}

bool RankEmitter::holds_logit_gradient() const {
  return context_.scenario.framework.gradients_allocated_at_once &&
         context_.head_gradient() == HeadGradient::late;
}

// Whether the embedding's gradient table is there from the start of the backward loop.
bool RankEmitter::table_is_hoisted() const {
  return context_.scenario.framework.gradients_allocated_at_once &&
         context_.head_gradient() == HeadGradient::early;
}

// The framework's stacks of kept tensors start as zeros.
void RankEmitter::fill_stacks() {
  const FrameworkSpec& framework = context_.scenario.framework;
  double bytes = 0;
  for (const LayersOfProgram& same : context_.layers_of) {
    if (context_.kind_of(same.one).checkpointed) {
      const std::int64_t more = context_.unchecked_bytes(same.one);
      const std::int64_t kept = context_.program_of(same.one).kept_bytes + more;
      bytes += static_cast<double>(same.count * kept) *
               (more > 0 ? framework.unchecked_fill.value : framework.stack_fill.value);
    }
  }
  if (bytes > 0) {
    static_cast<void>(add_kernel(hbm_work(bytes), step_info(TaskKind::kernel, Phase::forward,
                                                            "zero stacks of saved tensors")));
  }
}

// What the compiler keeps beside backward's operands is written after the forward
// of its layer and read back before its backward.
void RankEmitter::keep_unchecked(std::size_t layer) {
  const std::int64_t bytes = context_.unchecked_bytes(layer);
  if (bytes > 0) {
    const double traffic =
        context_.scenario.framework.saved_write.value * static_cast<double>(bytes);
    const TaskId task = add_kernel(hbm_work(traffic),
                                   info(TaskKind::kernel, Phase::forward, layer, "save residuals"));
    context_.graph.allocate_at_start(task, hbm(HbmOwner::saved_activations, bytes));
  }
}

void RankEmitter::read_unchecked(std::size_t layer) {
  const std::int64_t bytes = context_.unchecked_bytes(layer);
  if (bytes > 0) {
    const auto kept = static_cast<double>(context_.program_of(layer).kept_bytes + bytes);
    static_cast<void>(add_kernel(hbm_work(context_.scenario.framework.unchecked_read.value * kept),
                                 info(TaskKind::kernel, Phase::backward, layer, "read residuals")));
  }
}

void RankEmitter::release_unchecked(std::size_t layer) {
  const std::int64_t bytes = context_.unchecked_bytes(layer);
  if (bytes > 0) {
    context_.graph.free_at_end(last_compute_, hbm(HbmOwner::saved_activations, bytes));
  }
}

void RankEmitter::run_optimizer() {
  const PrecisionSpec& p = context_.scenario.precision;
  // Every state is read and written, the gradient read.
  const auto per_parameter =
      static_cast<double>(2 * (p.weights + p.master + p.moment1 + p.moment2) + p.gradients);
  const TaskId task = add_kernel(hbm_work(context_.held_parameters() * per_parameter),
                                 step_info(TaskKind::kernel, Phase::optimizer, "optimizer"));
  context_.graph.free_at_end(task, hbm(HbmOwner::gradients, gradient_bytes_));
  if (holds_logit_gradient()) { // of the last micro-batch
    context_.graph.free_at_end(task, hbm(HbmOwner::logits_and_loss, context_.logit_gradient()));
  }
  const TaskId last = context_.graph.add_fixed(
      lanes_.compute, to_sim_time(Seconds{context_.scenario.framework.step_gap.value}));
  note(last, step_info(TaskKind::gap, Phase::other, "host gap between steps"),
       {PriceOf::constant, 0});
}

} // namespace spillway
