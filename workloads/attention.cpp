#include "workloads/layer_parts.hpp"

namespace spillway {
namespace {

struct QueryKeyValue {
  TensorIndex query, key, value;
};

// One projection of grouped-query attention: product, optional per-head norm,
// optional rotary embedding. Tagged after the rotary embedding.
TensorIndex add_head_projection(LayerBuilder& layer, const Shape& s, const std::string& name,
                                TensorIndex in, std::int64_t heads, bool rotary, bool norm) {
  const AttentionSpec& a = s.model.attention;
  const std::int64_t width = heads * a.head_dim;
  const bool more = rotary || norm;
  TensorIndex current =
      layer.tensor(more ? name + " product" : name,
                   more ? std::vector<std::string>{} : std::vector<std::string>{name},
                   s.per_head(heads, a.head_dim), s.type);
  layer.product(
      {name, in, current, s.tokens, width, s.model.hidden, 1, WeightGroup::shared, a.qkv_bias},
      s.type);
  const double bytes = s.bytes(width);
  if (norm) {
    const TensorIndex normed =
        layer.tensor(name + " norm", {}, s.per_head(heads, a.head_dim), s.type);
    layer.parameters(WeightGroup::shared, s.model.norm_parameters(a.head_dim));
    layer.elementwise({name + " norm",
                       {current},
                       {normed},
                       s.framework.norm_forward.value * bytes,
                       s.framework.norm_backward.value * bytes,
                       {current}});
    current = normed;
  }
  if (rotary) {
    const TensorIndex rotated = layer.tensor(name, {name}, s.per_head(heads, a.head_dim), s.type);
    layer.elementwise({name + " rotary",
                       {current},
                       {rotated},
                       s.framework.rotary.value * bytes,
                       s.framework.rotary.value * bytes,
                       {}});
    current = rotated;
  }
  return current;
}

QueryKeyValue add_grouped_query(LayerBuilder& layer, const Shape& s, TensorIndex in) {
  const AttentionSpec& a = s.model.attention;
  const bool rotary = s.model.position_kind == PositionKind::rotary;
  return {add_head_projection(layer, s, "query_proj", in, a.heads, rotary, a.qk_norm),
          add_head_projection(layer, s, "key_proj", in, a.kv_heads, rotary, a.qk_norm),
          add_head_projection(layer, s, "value_proj", in, a.kv_heads, false, false)};
}

// Multi-head latent attention: low-rank query and key/value, expanded per head.
QueryKeyValue add_latent(LayerBuilder& layer, const Shape& s, TensorIndex in) {
  const ModelSpec& m = s.model;
  const AttentionSpec& a = m.attention;
  const std::int64_t kv_down = a.kv_rank + a.rope_dim;
  const std::int64_t kv_up = a.heads * (a.nope_dim + a.value_dim);

  const TensorIndex query_down =
      layer.tensor("query_wa_proj", {"query_wa_proj"}, s.per_token("rank", a.query_rank), s.type);
  layer.product({"query_down", in, query_down, s.tokens, a.query_rank, m.hidden}, s.type);
  const TensorIndex query_latent = add_norm(layer, s, "mla_q", query_down, a.query_rank, {"mla_q"});
  const TensorIndex query_up =
      layer.tensor("query_up", {}, s.per_head(a.heads, a.qk_dim()), s.type);
  layer.product({"query_up", query_latent, query_up, s.tokens, a.heads * a.qk_dim(), a.query_rank},
                s.type);
  const TensorIndex query =
      layer.tensor("query_proj", {"query_proj"}, s.per_head(a.heads, a.qk_dim()), s.type);
  const double query_bytes = s.framework.rotary.value * s.bytes(a.heads * a.qk_dim());
  layer.elementwise({"query rotary", {query_up}, {query}, query_bytes, query_bytes, {}});

  const TensorIndex latent_raw =
      layer.tensor("kv_wa_proj", {"kv_wa_proj"}, s.per_token("rank", kv_down), s.type);
  layer.product({"kv_down", in, latent_raw, s.tokens, kv_down, m.hidden}, s.type);
  const TensorIndex latent = add_norm(layer, s, "mla_kv", latent_raw, a.kv_rank, {"mla_kv"});
  const TensorIndex expanded =
      layer.tensor("kv_up", {}, s.per_head(a.heads, a.nope_dim + a.value_dim), s.type);
  layer.product({"kv_up", latent, expanded, s.tokens, kv_up, a.kv_rank}, s.type);
  // The rotary part of the key is one head, repeated beside the expanded part.
  const TensorIndex key =
      layer.tensor("key_proj", {"key_proj"}, s.per_head(a.heads, a.qk_dim()), s.type);
  const double key_bytes = s.framework.rotary.value * s.bytes(a.heads * a.qk_dim());
  layer.elementwise({"key assembly", {expanded, latent_raw}, {key}, key_bytes, key_bytes, {}});
  const TensorIndex value =
      layer.tensor("value_proj", {"value_proj"}, s.per_head(a.heads, a.value_dim), s.type);
  const double value_bytes = s.framework.rotary.value * s.bytes(a.heads * a.value_dim);
  layer.elementwise({"value slice", {expanded}, {value}, value_bytes, value_bytes, {}});
  return {query, key, value};
}

// The fused kernel: [batch, sequence, heads, v_dim].
TensorIndex add_kernel(LayerBuilder& layer, const Shape& s, const QueryKeyValue& in,
                       std::int64_t window) {
  const AttentionSpec& a = s.model.attention;
  const TensorIndex context =
      layer.tensor("context", {"context"}, s.per_head(a.heads, a.v_dim()), s.type);
  const TensorIndex statistics = layer.tensor(
      "softmax statistics",
      s.framework.softmax_statistics_saved ? std::vector<std::string>{"context"}
                                           : std::vector<std::string>{},
      {{"batch", s.batch}, {"heads", a.heads}, {"sequence", s.sequence}}, DataType::fp32);
  layer.set_bytes(statistics, layer.bytes_of(statistics), Bytes{});
  Work work;
  work.kind = WorkKind::attention;
  work.type = s.type;
  work.batch = s.batch;
  work.heads = a.heads;
  work.kv_heads = a.kv_heads;
  work.seq = s.sequence;
  work.window = window;
  work.qk_dim = a.qk_dim();
  work.v_dim = a.v_dim();
  const OpIndex attention = layer.op(
      {"attention", work, {in.query, in.key, in.value}, {context, statistics}, WeightGroup::none});
  work.stage = Stage::backward;
  layer.backward({"d attention",
                  work,
                  attention,
                  {in.query, in.key, in.value, context, statistics},
                  {context},
                  {in.query, in.key, in.value},
                  WeightGroup::none,
                  WeightGroup::none});

  if (a.sinks) {
    layer.parameters(WeightGroup::shared, a.heads);
  }
  return context;
}

} // namespace

TensorIndex add_attention(LayerBuilder& layer, const Shape& s, TensorIndex stream, bool windowed) {
  const ModelSpec& m = s.model;
  const AttentionSpec& a = m.attention;
  const TensorIndex normed = add_norm(layer, s, "attention norm", stream, m.hidden);
  const QueryKeyValue in = a.kind == AttentionKind::latent ? add_latent(layer, s, normed)
                                                           : add_grouped_query(layer, s, normed);
  const TensorIndex context = add_kernel(layer, s, in, windowed ? a.window : 0);
  TensorIndex out = layer.tensor("out_proj", {"out_proj", "attention_out"},
                                 s.per_token("hidden", m.hidden), s.type);
  layer.product({"out_proj", context, out, s.tokens, m.hidden, a.heads * a.v_dim(), 1,
                 WeightGroup::shared, a.out_bias},
                s.type);
  if (m.post_norms) {
    out = add_norm(layer, s, "attention post-norm", out, m.hidden);
  }
  return add_residual(layer, s, "attention residual", {stream, out});
}

} // namespace spillway
