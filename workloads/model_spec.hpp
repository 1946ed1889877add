// The architecture of a language model: the sizes that decide its work.
#pragma once

#include "sim/base/yaml.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace spillway {

enum class AttentionKind : std::uint8_t { grouped_query, latent };

struct AttentionSpec {
  AttentionKind kind = AttentionKind::grouped_query;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0; // grouped_query
  std::int64_t head_dim = 0; // grouped_query
  bool qk_norm = false;      // grouped_query: norm of query and key per head
  bool qkv_bias = false;     // grouped_query
  bool out_bias = false;     // grouped_query
  bool sinks = false;        // one learned logit a head that takes part in the softmax
  std::int64_t query_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, value_dim = 0; // latent
  // Tokens that a windowed layer looks back on, itself included; 0 = no windowed layers.
  // Every `full_every`-th layer sees the whole sequence; 0 = none does.
  std::int64_t window = 0;
  std::int64_t full_every = 0;

  [[nodiscard]] std::int64_t qk_dim() const {
    return kind == AttentionKind::latent ? nope_dim + rope_dim : head_dim;
  }
  [[nodiscard]] std::int64_t v_dim() const {
    return kind == AttentionKind::latent ? value_dim : head_dim;
  }
};

// A feed-forward block: down(activation(gate(x)) * up(x)), or down(activation(up(x))) when
// it is plain.
struct FeedForwardSpec {
  std::int64_t width = 0;
  bool gated = true;
  bool bias = false; // of every product in it
};

enum class PositionKind : std::uint8_t {
  rotary,  // query and key are rotated
  learned, // a table of `positions` rows is added to the embedding
  alibi,   // a bias inside the attention kernel; nothing to store
};

// A count as its source prints it: "671.0 B" is known to half a unit of its last digit.
struct PublishedCount {
  double value = 0;
  double half_digit = 0; // 0: exact
  std::string source;
  [[nodiscard]] bool agrees(double count) const {
    return count >= value - half_digit && count <= value + half_digit;
  }
};
// What a count of FLOPs takes in; the default is MaxText's.
struct FlopConvention {
  bool counts_router = true;
  bool full_attention = false; // all pairs of a sequence, though half of them are masked
};
struct PublishedFlops {
  PublishedCount per_token;
  std::int64_t sequence = 0;
  FlopConvention convention;
};

struct ModelSpec {
  std::string name;
  std::string title;
  std::string source;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t vocabulary = 0;
  bool tied_embeddings = false; // the head multiplies with the embedding's table
  PositionKind position_kind = PositionKind::rotary;
  std::int64_t positions = 0; // learned
  bool norm_bias = false;     // of layer norms; an RMS norm has none
  bool post_norms = false;    // attention and feed-forward outputs are normed as well
  AttentionSpec attention;
  std::int64_t dense_layers = 0; // the first ones; all of them without experts
  FeedForwardSpec dense;
  std::int64_t experts = 0; // 0 = dense model
  std::int64_t experts_per_token = 0;
  std::int64_t shared_experts = 0;
  bool router_bias = false;
  bool router_bias_trained = false; // else it corrects the choice of experts, without gradient
  FeedForwardSpec expert;           // each of them, the shared ones too
  std::optional<PublishedCount> published_parameters, published_active_parameters;
  std::optional<PublishedFlops> published_flops;

  [[nodiscard]] std::int64_t norm_parameters(std::int64_t width) const {
    return norm_bias ? 2 * width : width;
  }
  [[nodiscard]] std::int64_t moe_layers() const { return layers - dense_layers; }
  // `layer` counts decoder layers from 0.
  [[nodiscard]] bool is_windowed(std::int64_t layer) const {
    return attention.window > 0 &&
           (attention.full_every == 0 || (layer + 1) % attention.full_every != 0);
  }
  [[nodiscard]] std::int64_t windowed_layers() const {
    if (attention.window == 0) {
      return 0;
    }
    return attention.full_every == 0 ? layers : layers - layers / attention.full_every;
  }
};

// Reads a `kind: model` map; mistakes go to `diagnostics`.
[[nodiscard]] ModelSpec read_model(const YamlNode& node, Diagnostics& diagnostics);

} // namespace spillway
