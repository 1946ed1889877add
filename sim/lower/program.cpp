#include "sim/lower/program.hpp"

#include <algorithm>
#include <optional>

namespace spillway {
namespace {

constexpr std::uint32_t never = 0xffffffffU;

HbmOwner owner_of(const Tensor& tensor, const TensorDecision& decision, HbmOwner otherwise) {
  if (tensor.role == TensorRole::logits) {
    return HbmOwner::logits_and_loss;
  }
  if (decision.offloaded()) {
    return HbmOwner::offload_staging;
  }
  if (decision.kept()) {
    return HbmOwner::saved_activations;
  }
  return tensor.role == TensorRole::dispatch ? HbmOwner::dispatch_buffers : otherwise;
}

void add_bytes(std::vector<OwnerBytes>& list, HbmOwner owner, Bytes bytes) {
  if (bytes.count() == 0) {
    return;
  }
  for (OwnerBytes& entry : list) {
    if (entry.owner == owner) {
      entry.bytes += bytes.count();
      return;
    }
  }
  list.push_back({owner, bytes.count()});
}

ProgramStep make_step(const std::string& name, Phase phase, const Work& work,
                      std::vector<Work>& works) {
  ProgramStep step;
  step.name = name;
  step.phase = phase;
  step.is_collective = work.is_collective();
  step.is_attention_backward = work.kind == WorkKind::attention && work.stage == Stage::backward;
  step.work = static_cast<std::uint32_t>(works.size());
  works.push_back(work);
  return step;
}

std::size_t group_index(WeightGroup group) {
  return static_cast<std::size_t>(group) - 1;
}

// Marks first and last use of weights and weight gradients per group.
class WeightMarks {
public:
  explicit WeightMarks(const LayerKind& kind) : kind_(kind), matrix_user_(kind.ops.size(), never) {}

  // `op`: the forward operation whose weights these are.
  void use(std::vector<ProgramStep>& steps, WeightGroup group, OpIndex op, std::uint32_t step) {
    if (group != WeightGroup::none) {
      const std::size_t g = group_index(group);
      if (last_use_[g] == never) {
        steps[step].first_use[g] = true;
      }
      if (matrix_user_[op] == never) {
        steps[step].first_use_bytes[g] += matrix_bytes(op);
      }
      last_use_[g] = matrix_user_[op] = step;
    }
  }
  void gradient(std::vector<ProgramStep>& steps, WeightGroup group, OpIndex op,
                std::uint32_t step) {
    if (group != WeightGroup::none) {
      const std::size_t g = group_index(group);
      steps[step].gradient_bytes[g] += matrix_bytes(op);
      if (last_gradient_[g] == never) {
        steps[step].first_gradient[g] = true;
      }
      last_gradient_[g] = step;
    }
  }
  void finish(std::vector<ProgramStep>& steps) const {
    for (OpIndex op = 0; op < matrix_user_.size(); ++op) {
      if (matrix_user_[op] != never) {
        steps[matrix_user_[op]].last_use_bytes[group_index(kind_.ops[op].weights)] +=
            matrix_bytes(op);
      }
    }
    for (std::size_t g = 0; g < weight_group_count; ++g) {
      if (last_use_[g] != never) {
        steps[last_use_[g]].last_use[g] = true;
      }
      if (last_gradient_[g] != never) {
        steps[last_gradient_[g]].last_gradient[g] = true;
      }
    }
  }

private:
  [[nodiscard]] std::int64_t matrix_bytes(OpIndex op) const {
    const Work& work = kind_.ops[op].work;
    return work.kind == WorkKind::matmul
               ? work.groups * work.n * work.k * bytes_per_element(work.type)
               : 0;
  }

  const LayerKind& kind_;
  std::vector<std::uint32_t> matrix_user_; // last user of each operation's weights
  std::array<std::uint32_t, weight_group_count> last_use_{never, never};
  std::array<std::uint32_t, weight_group_count> last_gradient_{never, never};
};

// A step on one lane waits for the steps on the other lane that wrote what it reads.
void add_wait(std::vector<ProgramStep>& steps, std::uint32_t step, std::uint32_t writer) {
  if (writer != never && writer != step &&
      steps[writer].is_collective != steps[step].is_collective) {
    std::vector<std::uint32_t>& waits = steps[step].waits;
    if (std::find(waits.begin(), waits.end(), writer) == waits.end()) {
      waits.push_back(writer);
    }
  }
}

void make_forward(const LayerKind& kind, const KindPlan& plan, HbmOwner output_owner,
                  const FrameworkSpec& framework, std::vector<Work>& works, LayerProgram& program) {
  std::vector<ProgramStep>& steps = program.forward;
  std::vector<std::uint32_t> writer(kind.tensors.size(), never);
  std::vector<std::uint32_t> last_reader(kind.tensors.size(), never);
  std::vector<std::uint32_t> stored_after(kind.tensors.size(), never);
  WeightMarks marks(kind);

  // A kept tensor is copied into the framework's stack of all layers.
  const auto save = [&](TensorIndex t) {
    const double bytes =
        framework.saved_write.value * static_cast<double>(kind.tensors[t].bytes.count());
    if (plan.tensors[t].kept() && bytes > 0 && kind.checkpointed) {
      Work work;
      work.kind = WorkKind::memory;
      work.bytes = Bytes{static_cast<std::int64_t>(bytes)};
      steps.push_back(make_step("save " + kind.tensors[t].name, Phase::forward, work, works));
      const auto step = static_cast<std::uint32_t>(steps.size() - 1);
      add_wait(steps, step, writer[t]);
      last_reader[t] = step;
    }
  };
  save(kind.input);
  for (OpIndex index = 0; index < kind.ops.size(); ++index) {
    const Op& op = kind.ops[index];
    const auto step = static_cast<std::uint32_t>(steps.size());
    steps.push_back(make_step(op.name, Phase::forward, op.work, works));
    marks.use(steps, op.weights, index, step);
    for (const TensorIndex t : op.reads) {
      add_wait(steps, step, writer[t]);
      last_reader[t] = step;
    }
    for (const TensorIndex t : op.writes) {
      writer[t] = last_reader[t] = stored_after[t] = step;
      const HbmOwner owner = t == kind.output
                                 ? output_owner
                                 : owner_of(kind.tensors[t], plan.tensors[t], HbmOwner::workspace);
      add_bytes(steps[step].allocate, owner, kind.tensors[t].bytes);
    }
    for (const TensorIndex t : op.writes) {
      save(t);
    }
  }
  marks.finish(steps);
  for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
    const TensorDecision& decision = plan.tensors[t];
    if (decision.offloaded()) {
      OffloadedTensor offloaded;
      offloaded.tensor = t;
      offloaded.bytes = kind.tensors[t].bytes.count();
      offloaded.last_forward_reader = last_reader[t] == never ? 0 : last_reader[t];
      offloaded.is_input = t == kind.input;
      const std::vector<std::string>& names = kind.tensors[t].policy_names;
      offloaded.name = names.empty() ? kind.tensors[t].name : names.front();
      program.offloaded.push_back(std::move(offloaded));
      if (t != kind.input) {
        steps[stored_after[t]].stores.push_back(t);
      }
    } else if (!decision.kept() && t != kind.output && last_reader[t] != never) {
      const HbmOwner owner = t == kind.input
                                 ? program.input_owner
                                 : owner_of(kind.tensors[t], decision, HbmOwner::workspace);
      add_bytes(steps[last_reader[t]].release, owner, kind.tensors[t].bytes);
    }
  }
}

// Whether no other re-run needs what this one writes.
bool only_backward_reads(const LayerKind& kind, const KindPlan& plan, const Op& op) {
  const auto reads_its_output = [&](OpIndex other) {
    const std::vector<TensorIndex>& reads = kind.ops[other].reads;
    return std::any_of(reads.begin(), reads.end(), [&](TensorIndex t) {
      return t != kind.input && &kind.ops[kind.tensors[t].producer] == &op;
    });
  };
  return std::none_of(plan.rerun.begin(), plan.rerun.end(), reads_its_output);
}

// A re-run that its own backward does in passing: it rebuilds the output, from what is
// at hand, and no other re-run needs it. Elsewhere than in a compiled loop the weight
// gradient that reads the output comes first.
bool is_free_rerun(const LayerKind& kind, const KindPlan& plan, const Op& op, bool compiled) {
  const bool at_hand = std::all_of(op.reads.begin(), op.reads.end(), [&](TensorIndex t) {
    return t == kind.input || plan.tensors[t].saved();
  });
  return compiled && op.fuses_into_backward && at_hand && only_backward_reads(kind, plan, op);
}

bool is_rerun(const LayerKind& kind, const KindPlan& plan, TensorIndex t) {
  return t != kind.input && !plan.tensors[t].saved();
}

} // namespace

std::vector<BackwardItem> backward_order(const LayerKind& kind, const KindPlan& plan,
                                         bool compiled) {
  std::vector<BackwardItem> order;
  const auto add_rerun = [&](OpIndex op) {
    order.push_back({.rerun = true,
                     .free = is_free_rerun(kind, plan, kind.ops[op], compiled),
                     .after_rerun = false,
                     .index = op});
  };
  std::vector<bool> done(kind.ops.size(), false);
  std::vector<bool> rerun(kind.ops.size(), false);
  for (const OpIndex op : plan.rerun) {
    rerun[op] = true;
  }
  if (compiled) {
    for (const OpIndex op : plan.rerun) {
      // Cheap ones come where they are needed.
      if (!kind.ops[op].fuses_into_backward || !only_backward_reads(kind, plan, kind.ops[op])) {
        done[op] = true;
        add_rerun(op);
      }
    }
  }
  const auto run = [&](std::uint32_t b) {
    std::vector<OpIndex> batch;
    std::vector<TensorIndex> open = kind.backward[b].needs;
    const OpIndex own = kind.backward[b].forward;
    if (rerun[own] && !done[own] && is_free_rerun(kind, plan, kind.ops[own], compiled)) {
      done[own] = true;
      batch.push_back(own);
    }
    while (!open.empty()) {
      const TensorIndex t = open.back();
      open.pop_back();
      const OpIndex producer = kind.tensors[t].producer;
      if (t == kind.input || plan.tensors[t].saved() || done[producer]) {
        continue;
      }
      done[producer] = true;
      batch.push_back(producer);
      open.insert(open.end(), kind.ops[producer].reads.begin(), kind.ops[producer].reads.end());
    }
    std::sort(batch.begin(), batch.end());
    for (const OpIndex op : batch) {
      add_rerun(op);
    }
    const std::vector<TensorIndex>& needs = kind.backward[b].needs;
    const bool after_rerun = std::any_of(needs.begin(), needs.end(),
                                         [&](TensorIndex t) { return is_rerun(kind, plan, t); });
    order.push_back({.rerun = false, .free = false, .after_rerun = after_rerun, .index = b});
  };
  for (const bool late : {false, true}) { // late: weight gradients of a compiled loop
    for (std::uint32_t b = 0; b < kind.backward.size(); ++b) {
      if (late == (compiled && kind.backward[b].weight_gradient != WeightGroup::none)) {
        run(b);
      }
    }
  }
  return order;
}

namespace {

// Values and gradients of backward: who wrote them, who reads them last.
class BackwardLiveness {
public:
  BackwardLiveness(const LayerKind& kind, const KindPlan& plan, const FrameworkSpec& framework,
                   LayerProgram& program)
      : kind_(kind), plan_(plan), program_(program),
        stacked_(kind.checkpointed && framework.saved_write.value > 0),
        value_writer_(kind.tensors.size(), never), value_reader_(value_writer_),
        slice_reader_(value_writer_), gradient_writer_(value_writer_),
        gradient_reader_(value_writer_), gradient_shared_(kind.tensors.size(), false) {}

  void reads_value(TensorIndex t, const Work& reader, std::uint32_t step) {
    const bool library_call = reader.kind == WorkKind::matmul || reader.kind == WorkKind::attention;
    if (stacked_ && library_call && plan_.tensors[t].kept()) {
      slice_reader_[t] = step;
    }
    add_wait(program_.backward, step, value_writer_[t]);
    if (value_reader_[t] == never && plan_.tensors[t].offloaded()) {
      program_.backward[step].reloads.push_back(t);
    }
    value_reader_[t] = step;
  }
  void writes_value(TensorIndex t, std::uint32_t step) {
    const bool scratch = plan_.tensors[t].saved() || !plan_.tensors[t].needed || t == kind_.output;
    const HbmOwner owner = rerun_owner(t);
    add_bytes(program_.backward[step].allocate, owner, kind_.tensors[t].bytes);
    if (scratch) { // produced in passing, not what anybody reads
      add_bytes(program_.backward[step].release, owner, kind_.tensors[t].bytes);
    } else {
      value_writer_[t] = value_reader_[t] = step;
    }
  }
  void reads_gradient(TensorIndex t, std::uint32_t step) {
    add_wait(program_.backward, step, gradient_writer_[t]);
    gradient_reader_[t] = step;
  }
  // The output's gradient becomes that of the first input; the others share it.
  void passes_gradient(const BackwardOp& op, std::uint32_t step) {
    for (std::size_t i = 0; i < op.gradients_written.size(); ++i) {
      const TensorIndex t = op.gradients_written[i];
      if (gradient_writer_[t] == never) {
        gradient_writer_[t] = step; // nothing to allocate
        gradient_shared_[t] = i > 0;
      }
      gradient_writer_[t] = gradient_reader_[t] = step;
    }
    for (const TensorIndex t : op.gradients_read) {
      gradient_shared_[t] = true; // handed on, not given back here
    }
  }
  void writes_gradient(TensorIndex t, std::uint32_t step) {
    if (gradient_writer_[t] == never) {
      add_bytes(program_.backward[step].allocate, gradient_owner(t),
                kind_.tensors[t].gradient_bytes);
    } else {
      add_wait(program_.backward, step, gradient_writer_[t]);
    }
    gradient_writer_[t] = gradient_reader_[t] = step; // every read comes after every write
  }
  void finish() {
    std::vector<ProgramStep>& steps = program_.backward;
    const auto attention = std::find_if(steps.begin(), steps.end(), [](const ProgramStep& step) {
      return step.is_attention_backward;
    });
    for (OffloadedTensor& offloaded : program_.offloaded) {
      const std::uint32_t reader = value_reader_[offloaded.tensor];
      offloaded.last_backward_reader = reader;
      offloaded.done_before_attention =
          attention != steps.end() && reader != never &&
          reader < static_cast<std::size_t>(attention - steps.begin());
    }
    for (TensorIndex t = 0; t < kind_.tensors.size(); ++t) {
      const Tensor& tensor = kind_.tensors[t];
      const TensorDecision& decision = plan_.tensors[t];
      if (value_reader_[t] != never) {
        const HbmOwner owner = t == kind_.input   ? program_.input_owner
                               : decision.saved() ? owner_of(tensor, decision, HbmOwner::workspace)
                                                  : rerun_owner(t);
        // A part of a stack goes when the loop does, at the earliest after its layer.
        ProgramStep& last = stacked_ && decision.kept() ? steps.back() : steps[value_reader_[t]];
        add_bytes(last.release, owner, tensor.bytes);
      }
      if (slice_reader_[t] != never) {
        add_bytes(steps.front().allocate, HbmOwner::workspace, tensor.bytes);
        add_bytes(steps[slice_reader_[t]].release, HbmOwner::workspace, tensor.bytes);
      }
      // The gradient of the layer input is freed by the previous layer.
      if (gradient_reader_[t] != never && t != kind_.input && !gradient_shared_[t]) {
        const HbmOwner owner = t == kind_.output ? HbmOwner::workspace : gradient_owner(t);
        add_bytes(steps[gradient_reader_[t]].release, owner, tensor.gradient_bytes);
      }
    }
  }

private:
  [[nodiscard]] HbmOwner rerun_owner(TensorIndex t) const {
    return kind_.tensors[t].role == TensorRole::dispatch ? HbmOwner::dispatch_buffers
                                                         : HbmOwner::recompute_workspace;
  }
  [[nodiscard]] HbmOwner gradient_owner(TensorIndex t) const {
    switch (kind_.tensors[t].role) {
    case TensorRole::logits: return HbmOwner::logits_and_loss;
    case TensorRole::dispatch: return HbmOwner::dispatch_buffers;
    case TensorRole::activation: break;
    }
    return HbmOwner::workspace;
  }

  const LayerKind& kind_;
  const KindPlan& plan_;
  LayerProgram& program_;
  // Kept tensors are parts of stacks of all layers; library calls, which cannot read a
  // part in place, read a copy that is made at the top of the layer.
  const bool stacked_;
  std::vector<std::uint32_t> value_writer_, value_reader_, slice_reader_;
  std::vector<std::uint32_t> gradient_writer_, gradient_reader_;
  std::vector<bool> gradient_shared_; // its bytes are counted for another tensor
};

ProgramStep backward_step(const LayerKind& kind, const BackwardItem& item,
                          std::vector<Work>& works) {
  if (item.rerun) {
    const Op& op = kind.ops[item.index];
    return make_step(op.name, Phase::recompute, item.free ? Work{} : op.work, works);
  }
  const BackwardOp& op = kind.backward[item.index];
  return make_step(op.name, Phase::backward, item.after_rerun ? op.work_after_rerun : op.work,
                   works);
}

void make_backward(const LayerKind& kind, const KindPlan& plan, const FrameworkSpec& framework,
                   std::vector<Work>& works, LayerProgram& program) {
  std::vector<ProgramStep>& steps = program.backward;
  const std::vector<BackwardItem> order = backward_order(kind, plan, framework.compiled_order);
  for (const BackwardItem& item : order) {
    steps.push_back(backward_step(kind, item, works));
  }
  WeightMarks marks(kind);
  BackwardLiveness liveness(kind, plan, framework, program);
  for (std::uint32_t step = 0; step < order.size(); ++step) {
    const BackwardItem& item = order[step];
    if (item.rerun) {
      const Op& op = kind.ops[item.index];
      marks.use(steps, op.weights, item.index, step);
      for (const TensorIndex t : op.reads) {
        liveness.reads_value(t, op.work, step);
      }
      for (const TensorIndex t : op.writes) {
        liveness.writes_value(t, step);
      }
      continue;
    }
    const BackwardOp& op = kind.backward[item.index];
    marks.use(steps, op.weights, op.forward, step);
    marks.gradient(steps, op.weight_gradient, op.forward, step);
    for (const TensorIndex t : op.needs) {
      liveness.reads_value(t, op.work, step);
    }
    for (const TensorIndex t : op.gradients_read) {
      liveness.reads_gradient(t, step);
    }
    if (op.passes_gradient) {
      liveness.passes_gradient(op, step);
      continue;
    }
    for (const TensorIndex t : op.gradients_written) {
      liveness.writes_gradient(t, step);
    }
  }
  liveness.finish();
  marks.finish(steps);
}

} // namespace

std::int64_t LayerProgram::matrix_bytes(std::size_t group) const {
  std::int64_t sum = 0;
  for (const ProgramStep& step : backward) {
    sum += step.last_use_bytes[group];
  }
  return sum;
}

bool LayerProgram::uses_weights(bool backward_pass, std::size_t group) const {
  const std::vector<ProgramStep>& steps = backward_pass ? backward : forward;
  return std::any_of(steps.begin(), steps.end(),
                     [&](const ProgramStep& step) { return step.first_use[group]; });
}

HbmOwner input_owner(const LayerKind& kind, const KindPlan& plan) {
  return owner_of(kind.tensors[kind.input], plan.tensors[kind.input], HbmOwner::workspace);
}

LayerProgram make_program(const LayerKind& kind, const KindPlan& plan, HbmOwner output_owner,
                          const FrameworkSpec& framework, std::vector<Work>& works) {
  LayerProgram program;
  program.input_owner = input_owner(kind, plan);
  program.kept_bytes = plan.kept.count();
  make_forward(kind, plan, output_owner, framework, works, program);
  make_backward(kind, plan, framework, works, program);
  return program;
}

} // namespace spillway
