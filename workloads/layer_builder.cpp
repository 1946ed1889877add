#include "workloads/layer_builder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway {

Work memory_work(double bytes) {
  Work work;
  if (bytes > 0) {
    work.kind = WorkKind::memory;
    work.bytes = Bytes{std::llround(bytes)};
  }
  return work;
}

LayerBuilder::LayerBuilder(std::string kind_name, bool checkpointed) {
  kind_.name = std::move(kind_name);
  kind_.checkpointed = checkpointed;
}

TensorIndex LayerBuilder::tensor(std::string name, std::vector<std::string> policy_names,
                                 std::vector<Axis> axes, DataType type, TensorRole role) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.policy_names = std::move(policy_names);
  tensor.axes = std::move(axes);
  tensor.type = type;
  tensor.role = role;
  std::int64_t elements = 1;
  for (const Axis& axis : tensor.axes) {
    elements *= axis.size;
  }
  tensor.bytes = Bytes{elements * bytes_per_element(type)};
  tensor.gradient_bytes = tensor.bytes;
  kind_.tensors.push_back(std::move(tensor));
  return static_cast<TensorIndex>(kind_.tensors.size() - 1);
}

void LayerBuilder::set_bytes(TensorIndex tensor, Bytes value, Bytes gradient) {
  kind_.tensors[tensor].bytes = value;
  kind_.tensors[tensor].gradient_bytes = gradient;
}

OpIndex LayerBuilder::op(Op op) {
  const auto index = static_cast<OpIndex>(kind_.ops.size());
  for (const TensorIndex written : op.writes) {
    kind_.tensors[written].producer = index;
  }
  kind_.ops.push_back(std::move(op));
  backward_of_.emplace_back();
  return index;
}

void LayerBuilder::backward(BackwardOp op) {
  if (op.work_after_rerun.kind == WorkKind::none) {
    op.work_after_rerun = op.work;
  }
  backward_of_[op.forward].push_back(std::move(op));
}

void LayerBuilder::parameters(WeightGroup group, std::int64_t count) {
  kind_.parameters[static_cast<std::size_t>(group) - 1] += count;
}

void LayerBuilder::product(const Product& p, DataType type) {
  Work forward;
  forward.kind = WorkKind::matmul;
  forward.type = type;
  forward.groups = p.groups;
  forward.m = p.m;
  forward.n = p.n;
  forward.k = p.k;
  const OpIndex index = op({p.name, forward, {p.in}, {p.out}, p.weights});
  parameters(p.weights, p.groups * p.n * (p.bias ? p.k + 1 : p.k));

  Work to_input = forward; // [m, n] x [n, k]
  to_input.stage = Stage::dgrad;
  std::swap(to_input.n, to_input.k);
  backward({"d " + p.name + " input",
            to_input,
            index,
            {},
            {p.out},
            {p.in},
            p.weights,
            WeightGroup::none});
  if (p.bias) { // before the weight, whose gradient may be reduced at once
    backward({"d " + p.name + " bias",
              memory_work(static_cast<double>(bytes_of(p.out).count())),
              index,
              {},
              {p.out},
              {},
              WeightGroup::none,
              WeightGroup::none});
  }
  Work to_weight = forward; // [n, m] x [m, k]
  to_weight.stage = Stage::wgrad;
  to_weight.m = p.n;
  to_weight.n = p.k;
  to_weight.k = p.m;
  backward({"d " + p.name + " weight",
            to_weight,
            index,
            {p.in},
            {p.out},
            {},
            WeightGroup::none,
            p.weights});
}

void LayerBuilder::elementwise(const Elementwise& e) {
  Op forward{e.name, memory_work(e.forward_bytes), e.reads, e.writes};
  forward.fuses_into_backward = e.backward_bytes_after_rerun > 0;
  BackwardOp gradient;
  gradient.name = "d " + e.name;
  gradient.work = memory_work(e.backward_bytes);
  gradient.work_after_rerun = memory_work(e.backward_bytes_after_rerun);
  gradient.forward = op(std::move(forward));
  gradient.needs = e.needs;
  gradient.gradients_read = e.writes;
  gradient.gradients_written = e.reads;
  gradient.passes_gradient = e.passes_gradient;
  backward(std::move(gradient));
}

void LayerBuilder::exchange(const std::string& name, TensorIndex in, TensorIndex out,
                            RankGroup group) {
  Work work;
  work.kind = WorkKind::all_to_all;
  // The busiest rank receives more than it sends, or the other way round.
  work.bytes = Bytes{std::max(bytes_of(in).count(), bytes_of(out).count())};
  work.group = group;
  const OpIndex index = op({name, work, {in}, {out}, WeightGroup::none});
  backward({"d " + name, work, index, {}, {out}, {in}, WeightGroup::none, WeightGroup::none});
}

LayerKind LayerBuilder::finish(TensorIndex input, TensorIndex output) && {
  kind_.input = input;
  kind_.output = output;
  for (std::size_t op = backward_of_.size(); op-- > 0;) {
    for (BackwardOp& backward : backward_of_[op]) {
      kind_.backward.push_back(std::move(backward));
    }
  }
  return std::move(kind_);
}

} // namespace spillway
