// Small vocabulary for writing down a layer: tensors, forward operations and
// what each costs in backward. Used by transformer.cpp only.
#pragma once

#include "workloads/trace.hpp"

#include <string>
#include <vector>

namespace spillway {

// Forward operations are added in order; the backward operations of a forward
// operation are executed after those of every later one, in the order in which
// they were added to it.
class LayerBuilder {
public:
  LayerBuilder(std::string kind_name, bool checkpointed);

  // A tensor without a producer yet; the operation that writes it is its producer.
  TensorIndex tensor(std::string name, std::vector<std::string> policy_names,
                     std::vector<Axis> axes, DataType type,
                     TensorRole role = TensorRole::activation);
  // Where memory is not the product of the axes: logits, statistics without a gradient.
  void set_bytes(TensorIndex tensor, Bytes value, Bytes gradient);
  OpIndex op(Op op);
  void backward(BackwardOp op); // op.forward names the forward operation
  void parameters(WeightGroup group, std::int64_t count);
  void windowed(bool is) { kind_.windowed = is; }
  void tied(std::int64_t parameters) { kind_.tied_parameters = parameters; }
  void inner(TensorIndex of_block) { kind_.inner_bytes += bytes_of(of_block); }
  void normed(TensorIndex in) { kind_.normed_bytes += bytes_of(in); }

  // out = in x weight, with its two backward products; counts the weight's parameters. out: [...,
  // n], in: [..., k]; m = rows per group. The gradient of the input is skipped for the embedding.
  struct Product {
    std::string name;
    TensorIndex in = 0;
    TensorIndex out = 0;
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t groups = 1;
    WeightGroup weights = WeightGroup::shared;
    bool bias = false; // its gradient is the sum of out's over all rows
  };
  void product(const Product& p, DataType type);

  // Element-wise kernel over HBM. `needs`: forward tensors that its backward reads.
  struct Elementwise {
    std::string name;
    std::vector<TensorIndex> reads;
    std::vector<TensorIndex> writes;
    double forward_bytes = 0;
    double backward_bytes = 0;
    std::vector<TensorIndex> needs;
    // Not zero: backward rebuilds the output while `backward_bytes` pass; this many
    // pass when `needs` and the output had to be re-run before.
    double backward_bytes_after_rerun = 0;
    bool passes_gradient = false; // a sum: its terms share the output's gradient
  };
  void elementwise(const Elementwise& e);

  // rows exchanged among `group`; backward is the reverse exchange.
  void exchange(const std::string& name, TensorIndex in, TensorIndex out, RankGroup group);

  [[nodiscard]] Bytes bytes_of(TensorIndex tensor) const { return kind_.tensors[tensor].bytes; }
  [[nodiscard]] LayerKind finish(TensorIndex input, TensorIndex output) &&;

private:
  LayerKind kind_;
  std::vector<std::vector<BackwardOp>> backward_of_; // per forward operation
};

// HBM traffic as Work.
[[nodiscard]] Work memory_work(double bytes);

} // namespace spillway
