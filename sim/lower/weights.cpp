// Weights and gradients of one rank: casts, gathers, reductions, the optimizer.
#include "sim/lower/rank_emitter.hpp"

#include <cmath>

namespace spillway {
namespace {

const char* group_label(std::size_t group) {
  return group == 0 ? "weights" : "expert weights";
}

} // namespace

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

void RankEmitter::gather_weights(std::size_t segment_index, TaskId top) {
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
    if (!program.uses_weights(segment.backward, g)) {
      continue;
    }
    TaskId ready = top;
    const MemoryChange copy{context_.out.hbm_pool[rank_],
                            static_cast<OwnerId>(HbmOwner::gathered_weights),
                            context_.gathered_bytes(segment.layer, g)};
    const bool gathers = context_.shard_group(g).size > 1;
    if (stored != computed) {
      const double bytes =
          context_.shard_parameters(segment.layer, g) * static_cast<double>(stored + computed);
      ready = add_kernel(hbm_work(bytes), info(TaskKind::kernel, phase, segment.layer,
                                               std::string("cast ") + group_label(g)));
      if (!gathers) {
        context_.graph.allocate_at_start(ready, copy);
      }
    }
    if (gathers) {
      const TaskId gather = add_collective(collective_work(WorkKind::all_gather, segment.layer, g),
                                           info(TaskKind::collective, phase, segment.layer,
                                                std::string("gather ") + group_label(g)));
      context_.graph.depend(gather, ready);
      context_.graph.allocate_at_start(gather, copy);
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
    if (context_.shard_group(g).size > 1) {
      pending.reduced = add_collective(collective_work(WorkKind::reduce_scatter, segment.layer, g),
                                       info(TaskKind::collective, Phase::backward, segment.layer,
                                            std::string("reduce gradients of ") + group_label(g)));
      context_.graph.depend(pending.reduced, task);
    }
    if (context_.scenario.runtime.overlap_collectives && context_.shard_group(g).size > 1) {
      pending_gradients_.push_back(pending); // folded when the next segment has run
    } else {
      fold_gradient(pending);
    }
  }
}

// Converts a layer's reduced gradients to their own precision, adding to what
// earlier micro-batches left.
void RankEmitter::fold_gradient(const PendingGradient& pending) {
  const std::int64_t held = context_.scenario.precision.gradients;
  const std::int64_t computed = bytes_per_element(context_.scenario.precision.compute);
  const std::int64_t per_parameter = computed + held * (pending.micro_batch > 0 ? 2 : 1);
  const double bytes =
      context_.shard_parameters(pending.layer, pending.group) * static_cast<double>(per_parameter);
  const TaskId fold = add_kernel(
      hbm_work(bytes), info(TaskKind::kernel, Phase::backward, pending.layer,
                            std::string("keep gradients of ") + group_label(pending.group)));
  context_.graph.depend(fold, pending.reduced);
  if (!context_.scenario.framework.gradients_allocated_at_once && pending.micro_batch == 0) {
    hold_gradients(fold, context_.shard_parameters(pending.layer, pending.group));
  }
  context_.graph.free_at_end(fold, {context_.out.hbm_pool[rank_],
                                    static_cast<OwnerId>(HbmOwner::gradients),
                                    context_.gathered_bytes(pending.layer, pending.group)});
}

// Sharded gradients, from `task` on until the optimizer has used them.
void RankEmitter::hold_gradients(TaskId task, double parameters) {
  const std::int64_t bytes =
      std::llround(parameters * static_cast<double>(context_.scenario.precision.gradients));
  context_.graph.allocate_at_start(
      task, {context_.out.hbm_pool[rank_], static_cast<OwnerId>(HbmOwner::gradients), bytes});
  gradient_bytes_ += bytes;
}

// Where the gradients of all layers are one buffer, it is set to zero before the
// backward loop.
void RankEmitter::zero_gradients() {
  const double bytes =
      context_.held_parameters() * static_cast<double>(context_.scenario.precision.gradients);
  const TaskId zero =
      add_kernel(hbm_work(bytes), info(TaskKind::kernel, Phase::backward,
                                       context_.layers.size() - 1, "zero gradients"));
  hold_gradients(zero, context_.held_parameters());
}

void RankEmitter::run_optimizer() {
  const PrecisionSpec& p = context_.scenario.precision;
  const double parameters = context_.held_parameters();
  // Every state is read and written, the gradient read.
  const auto per_parameter =
      static_cast<double>(2 * (p.weights + p.master + p.moment1 + p.moment2) + p.gradients);
  TaskInfo update = info(TaskKind::kernel, Phase::optimizer, 0, "optimizer");
  update.layer = -1;
  const TaskId task = add_kernel(hbm_work(parameters * per_parameter), update);
  context_.graph.free_at_end(task, {context_.out.hbm_pool[rank_],
                                    static_cast<OwnerId>(HbmOwner::gradients), gradient_bytes_});
  TaskInfo gap = info(TaskKind::gap, Phase::other, 0, "host gap between steps");
  gap.layer = -1;
  const TaskId last = context_.graph.add_fixed(
      lanes_.compute, to_sim_time(Seconds{context_.scenario.framework.step_gap.value}));
  note(last, gap, {PriceOf::constant, 0});
}

} // namespace spillway
