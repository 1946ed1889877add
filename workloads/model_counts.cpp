#include "workloads/model_counts.hpp"

#include <algorithm>

namespace spillway {
namespace {

struct Count {
  std::int64_t matrices = 0; // elements of what products multiply with
  std::int64_t vectors = 0;  // biases, norms inside a block, sinks
  [[nodiscard]] std::int64_t all() const { return matrices + vectors; }
};

Count latent_attention(const ModelSpec& m) {
  const AttentionSpec& a = m.attention;
  Count count;
  count.matrices = m.hidden * a.query_rank + a.query_rank * a.heads * a.qk_dim() +
                   m.hidden * (a.kv_rank + a.rope_dim) +
                   a.kv_rank * a.heads * (a.nope_dim + a.value_dim) +
                   a.heads * a.value_dim * m.hidden;
  count.vectors = m.norm_parameters(a.query_rank) + m.norm_parameters(a.kv_rank);
  return count;
}

Count grouped_query_attention(const ModelSpec& m) {
  const AttentionSpec& a = m.attention;
  const std::int64_t projected = (a.heads + 2 * a.kv_heads) * a.head_dim;
  Count count;
  count.matrices = m.hidden * projected + a.heads * a.head_dim * m.hidden;
  count.vectors = (a.qkv_bias ? projected : 0) + (a.out_bias ? m.hidden : 0) +
                  (a.qk_norm ? 2 * m.norm_parameters(a.head_dim) : 0) + (a.sinks ? a.heads : 0);
  return count;
}

Count attention_of(const ModelSpec& m) {
  return m.attention.kind == AttentionKind::latent ? latent_attention(m)
                                                   : grouped_query_attention(m);
}

Count feed_forward(const ModelSpec& m, const FeedForwardSpec& ffn, std::int64_t width) {
  const std::int64_t inner = ffn.gated ? 2 : 1; // matrices of this width
  return {(inner + 1) * m.hidden * width, ffn.bias ? inner * width + m.hidden : 0};
}

Count shared_experts(const ModelSpec& m) {
  return m.shared_experts > 0 ? feed_forward(m, m.expert, m.shared_experts * m.expert.width)
                              : Count{};
}

Count router(const ModelSpec& m) {
  return {m.hidden * m.experts, m.router_bias ? m.experts : 0};
}

} // namespace

ParameterCount count_parameters(const ModelSpec& model) {
  const std::int64_t norm = model.norm_parameters(model.hidden);
  const Count expert = feed_forward(model, model.expert, model.expert.width);
  ParameterCount count;
  count.attention = attention_of(model).all();
  count.dense_ffn = feed_forward(model, model.dense, model.dense.width).all();
  count.routed_experts = expert.all() * model.experts;
  count.shared_and_router = shared_experts(model).all() + router(model).all();
  count.norms = norm * (model.post_norms ? 4 : 2);
  count.embedding = model.vocabulary * model.hidden;
  count.positions = model.positions * model.hidden;
  count.total = model.layers * (count.attention + count.norms) +
                model.dense_layers * count.dense_ffn +
                model.moe_layers() * (count.routed_experts + count.shared_and_router) +
                count.embedding * (model.tied_embeddings ? 1 : 2) + count.positions + norm;
  count.active = count.total - count.positions - (model.tied_embeddings ? 0 : count.embedding) -
                 model.moe_layers() * expert.all() * (model.experts - model.experts_per_token);
  return count;
}

ModelFlops flops_per_token(const ModelSpec& model, std::int64_t sequence,
                           const FlopConvention& convention) {
  const AttentionSpec& a = model.attention;
  // Every weight of a product is used once per token: 2 flops forward, 6 in all.
  // Of the routed experts only `experts_per_token` work on a token.
  const std::int64_t in_moe_layer =
      feed_forward(model, model.expert, model.expert.width).matrices * model.experts_per_token +
      shared_experts(model).matrices + (convention.counts_router ? router(model).matrices : 0);
  const double weights =
      static_cast<double>(model.layers * attention_of(model).matrices) +
      static_cast<double>(model.dense_layers) *
          static_cast<double>(feed_forward(model, model.dense, model.dense.width).matrices) +
      static_cast<double>(model.moe_layers()) * static_cast<double>(in_moe_layer) +
      static_cast<double>(model.vocabulary * model.hidden);
  const auto tokens = static_cast<double>(sequence);
  const auto window = static_cast<double>(std::min(sequence, a.window));
  const auto windowed = static_cast<double>(model.windowed_layers());
  // Twice the pairs of a token.
  const double pairs = convention.full_attention
                           ? static_cast<double>(2 * model.layers) * tokens
                           : (static_cast<double>(model.layers) - windowed) * tokens +
                                 windowed * (2 * window - window * window / tokens);
  return {Flops{6.0 * weights},
          Flops{3.0 * pairs * static_cast<double>(a.heads * (a.qk_dim() + a.v_dim()))}};
}

} // namespace spillway
