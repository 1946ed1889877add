// What a model's sizes add up to: parameters and FLOPs.
#pragma once

#include "workloads/model_spec.hpp"

namespace spillway {

// Of one layer unless said otherwise. Matrices with their biases; norms, which are less
// than 0.01 % of any model, stand apart.
struct ParameterCount {
  std::int64_t attention = 0; // norms inside it and sinks included
  std::int64_t dense_ffn = 0;
  std::int64_t routed_experts = 0;
  std::int64_t shared_and_router = 0;
  std::int64_t norms = 0;     // around the blocks
  std::int64_t embedding = 0; // of the model; the head the same again unless tied
  std::int64_t positions = 0; // of the model
  std::int64_t total = 0;
  // That work on a token: of the routed experts those that it goes to, and not the tables
  // of which it takes a row (an embedding that the head does not multiply with, positions).
  std::int64_t active = 0;
};
[[nodiscard]] ParameterCount count_parameters(const ModelSpec& model);

// Model FLOPs per token, forward plus backward (three times forward), after
// MaxText's convention: causal attention halved, a window W of S tokens counted as
// S W - W^2 / 2 pairs, router counted, head counted once, recompute never
// (AI-Hypercomputer/maxtext, maxtext_utils.py at e591f30cb).
struct ModelFlops {
  Flops weights;   // matrix products with weights
  Flops attention; // score and value products
  [[nodiscard]] Flops total() const { return weights + attention; }
};
[[nodiscard]] ModelFlops flops_per_token(const ModelSpec& model, std::int64_t sequence,
                                         const FlopConvention& convention = {});

} // namespace spillway
