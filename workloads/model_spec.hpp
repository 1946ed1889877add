// The architecture of a language model: the sizes that decide its work.
//
// Parameters count matrices only; norms and biases are ignored (below 0.01 %).
#pragma once

#include "sim/base/yaml.hpp"

#include <cstdint>
#include <string>

namespace spillway {

enum class AttentionKind : std::uint8_t { grouped_query, latent };

struct AttentionSpec {
  AttentionKind kind = AttentionKind::grouped_query;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0; // grouped_query
  std::int64_t head_dim = 0; // grouped_query
  bool qk_norm = false;      // grouped_query: norm of query and key per head
  std::int64_t query_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, value_dim = 0; // latent

  [[nodiscard]] std::int64_t qk_dim() const {
    return kind == AttentionKind::latent ? nope_dim + rope_dim : head_dim;
  }
  [[nodiscard]] std::int64_t v_dim() const {
    return kind == AttentionKind::latent ? value_dim : head_dim;
  }
};

struct ModelSpec {
  std::string name;
  std::string title;
  std::string source;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t vocabulary = 0;
  AttentionSpec attention;
  std::int64_t dense_layers = 0; // the first ones; all of them without experts
  std::int64_t dense_width = 0;
  std::int64_t experts = 0; // 0 = dense model
  std::int64_t experts_per_token = 0;
  std::int64_t shared_experts = 0;
  std::int64_t expert_width = 0;

  [[nodiscard]] std::int64_t moe_layers() const { return layers - dense_layers; }
};

// Reads a `kind: model` map; mistakes go to `diagnostics`.
[[nodiscard]] ModelSpec read_model(const YamlNode& node, Diagnostics& diagnostics);

struct ParameterCount {
  std::int64_t attention_per_layer = 0;
  std::int64_t dense_ffn_per_layer = 0;
  std::int64_t routed_experts_per_layer = 0;
  std::int64_t shared_and_router_per_layer = 0;
  std::int64_t embedding = 0; // head the same again
  std::int64_t total = 0;
};
[[nodiscard]] ParameterCount count_parameters(const ModelSpec& model);

// Model FLOPs per token, forward plus backward (three times forward), after
// MaxText's convention: causal attention halved, router counted, head counted
// once, recompute never (AI-Hypercomputer/maxtext, maxtext_utils.py at e591f30cb).
struct ModelFlops {
  Flops weights;   // matrix products with weights
  Flops attention; // score and value products
  [[nodiscard]] Flops total() const { return weights + attention; }
};
[[nodiscard]] ModelFlops flops_per_token(const ModelSpec& model, std::int64_t sequence);

} // namespace spillway
