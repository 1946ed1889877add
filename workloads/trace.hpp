// What one training step computes, per rank and micro-batch, without time.
//
// A step is a row of layers. Layers of the same kind are identical and described
// once, as a LayerKind: forward operations in order, the tensors between them,
// and for every forward operation the operations of its backward. What backward
// reads (`needs`) decides what a policy has to save or recompute:
//
//     needs of all backward operations
//       minus what is saved            -> must be re-run: its producer,
//                                         whose inputs are needed in turn
//
// Example, a dense layer in which only the layer input is kept: the weight
// gradient of the down projection needs the activation product, whose producer
// needs gate and up, which need the normed input, ... back to the layer input.
// The down projection itself is needed by nobody and is not re-run.
#pragma once

#include "sim/base/work.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

using TensorIndex = std::uint32_t; // within a LayerKind
using OpIndex = std::uint32_t;

enum class TensorRole : std::uint8_t { activation, dispatch, logits };

struct Axis {
  std::string name;
  std::int64_t size = 0;
};

struct Tensor {
  std::string name;
  std::vector<std::string> policy_names; // names a policy may use, most specific first
  std::vector<Axis> axes;                // per rank, e.g. [batch, sequence, heads, head_dim]
  DataType type = DataType::bf16;
  Bytes bytes;
  Bytes gradient_bytes;
  TensorRole role = TensorRole::activation;
  OpIndex producer = 0; // meaningless for the layer input
};

// Weights are gathered and their gradients reduced per group: experts are
// sharded over fewer ranks than everything else.
enum class WeightGroup : std::uint8_t { none, shared, expert };
inline constexpr std::size_t weight_group_count = 2; // shared, expert

struct Op {
  std::string name;
  Work work;
  std::vector<TensorIndex> reads;
  std::vector<TensorIndex> writes;
  WeightGroup weights = WeightGroup::none;
  // Cheap, and its backward rebuilds what it writes: a compiled loop re-runs it where it
  // is read, or at no cost in that backward when all that it reads is at hand.
  bool fuses_into_backward = false;
};

struct BackwardOp {
  std::string name;
  Work work;
  OpIndex forward = 0;
  std::vector<TensorIndex> needs;                  // forward values it reads
  std::vector<TensorIndex> gradients_read;         // of the forward operation's outputs
  std::vector<TensorIndex> gradients_written;      // of its inputs, added to if several write
  WeightGroup weights = WeightGroup::none;         // reads the weights
  WeightGroup weight_gradient = WeightGroup::none; // writes their gradient
  Work work_after_rerun{};      // instead of `work` when `needs` had to be re-run
  bool passes_gradient = false; // inputs share the output's gradient, the first one keeps it
};

struct LayerKind {
  std::string name;      // "dense", "moe", "embedding", "head"; not unique
  bool windowed = false; // its attention sees a window of the sequence
  std::vector<Tensor> tensors;
  std::vector<Op> ops;              // forward, in order
  std::vector<BackwardOp> backward; // in order of execution
  TensorIndex input = 0;
  TensorIndex output = 0;
  bool checkpointed = false; // a policy decides about its tensors
  Bytes inner_bytes;         // of gate, up and product of its feed-forward blocks
  Bytes normed_bytes;        // of what the norms around its blocks read
  bool casts_weights = true; // false: reads a few rows of a table and casts those
  // Parameters of one layer on one rank before sharding: shared, expert.
  std::array<std::int64_t, weight_group_count> parameters{};
  // Of them, those that are another layer's: the head of a model with tied embeddings.
  std::int64_t tied_parameters = 0;

  [[nodiscard]] std::string title() const { return (windowed ? "windowed " : "") + name; }
};

// Consecutive layers in one scan loop: of one kind, or of a few that take turns.
struct LayerBlock {
  std::vector<std::uint32_t> kinds; // indices into StepTrace::kinds
  std::int64_t layers = 0;
  [[nodiscard]] std::uint32_t kind_of(std::int64_t position) const {
    return kinds[static_cast<std::size_t>(position) % kinds.size()];
  }
};

// The first `layers` of a block and the others, each a loop of its own whose kinds take
// turns as before. Precondition: 0 < layers < block.layers.
[[nodiscard]] std::array<LayerBlock, 2> cut(const LayerBlock& block, std::int64_t layers);

struct ParallelPlan {
  std::int64_t gpus = 1;
  std::int64_t fsdp = 1;
  std::int64_t expert = 1; // gpus = fsdp x expert
};

struct StepTrace {
  std::vector<LayerKind> kinds;
  std::vector<LayerBlock> blocks; // embedding first, head last
  std::array<RankGroup, weight_group_count> shard_group;
  std::int64_t tokens = 0;        // per rank and micro-batch
  std::int64_t micro_batches = 1; // per step (gradient accumulation)
  Flops model_flops;              // per rank and step, MaxText's convention
  // Parameters held by one rank after sharding, by group, over all layers.
  std::array<double, weight_group_count> sharded_parameters{};
};

// Layers that a policy decides about: all but embedding and head.
[[nodiscard]] std::int64_t decoder_layers(const StepTrace& trace);

[[nodiscard]] std::string shape_text(const Tensor& tensor); // "[8, 4096, 128, 192]"

} // namespace spillway
