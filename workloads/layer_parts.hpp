// The parts of a decoder layer, each added to a LayerBuilder: norms, attention, feed-forward
// blocks. Used by transformer.cpp only.
#pragma once

#include "workloads/framework.hpp"
#include "workloads/layer_builder.hpp"
#include "workloads/model_spec.hpp"

#include <string>
#include <utility>
#include <vector>

namespace spillway {

// Sizes that every part of a layer needs.
struct Shape {
  const ModelSpec& model;
  const ParallelPlan& plan;
  const FrameworkSpec& framework;
  std::int64_t batch, sequence, tokens;
  DataType type;
  double imbalance; // of routing, see BatchSpec

  [[nodiscard]] std::vector<Axis> per_token(std::string name, std::int64_t size) const {
    return {{"batch", batch}, {"sequence", sequence}, {std::move(name), size}};
  }
  [[nodiscard]] std::vector<Axis> per_head(std::int64_t heads, std::int64_t size) const {
    return {{"batch", batch}, {"sequence", sequence}, {"heads", heads}, {"head_dim", size}};
  }
  [[nodiscard]] double bytes(std::int64_t per_token_elements) const {
    return static_cast<double>(tokens * per_token_elements * bytes_per_element(type));
  }
};

[[nodiscard]] TensorIndex add_norm(LayerBuilder& layer, const Shape& s, const std::string& name,
                                   TensorIndex in, std::int64_t width,
                                   std::vector<std::string> policy_names = {});

// The stream plus a block's output: [batch, sequence, hidden].
[[nodiscard]] TensorIndex add_residual(LayerBuilder& layer, const Shape& s, const std::string& name,
                                       std::vector<TensorIndex> terms);

// Norm, query/key/value, fused attention, output projection, residual. `windowed`: every
// token sees AttentionSpec::window tokens only.
[[nodiscard]] TensorIndex add_attention(LayerBuilder& layer, const Shape& s, TensorIndex stream,
                                        bool windowed);

// Norm, feed-forward block or experts, residual.
[[nodiscard]] TensorIndex add_dense_block(LayerBuilder& layer, const Shape& s, TensorIndex stream);
[[nodiscard]] TensorIndex add_moe_block(LayerBuilder& layer, const Shape& s, TensorIndex stream);

} // namespace spillway
