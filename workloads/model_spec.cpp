#include "workloads/model_spec.hpp"

#include <array>

namespace spillway {
namespace {

constexpr IntegerRange size_range{1, 1'000'000'000};

AttentionSpec read_attention(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 2> kinds{"grouped_query", "latent"};
  MapReader in(node, "attention", diagnostics);
  AttentionSpec spec;
  spec.kind = in.choice("type", kinds) == 1 ? AttentionKind::latent : AttentionKind::grouped_query;
  spec.heads = in.integer("heads", size_range);
  if (spec.kind == AttentionKind::latent) {
    spec.kv_heads = spec.heads;
    spec.query_rank = in.integer("query_rank", size_range);
    spec.kv_rank = in.integer("kv_rank", size_range);
    spec.nope_dim = in.integer("nope_dim", size_range);
    spec.rope_dim = in.integer("rope_dim", size_range);
    spec.value_dim = in.integer("value_dim", size_range);
  } else {
    spec.kv_heads = in.integer("kv_heads", {1, in.has("heads") ? spec.heads : size_range.max});
    spec.head_dim = in.integer("head_dim", size_range);
    spec.qk_norm = in.boolean_or("qk_norm", false);
    if (in.has("heads") && spec.heads % spec.kv_heads != 0) {
      in.error("kv_heads", "'kv_heads' must divide 'heads'");
    }
  }
  in.finish();
  return spec;
}

void read_experts(const YamlNode& node, ModelSpec& model, Diagnostics& diagnostics) {
  MapReader in(node, "experts", diagnostics);
  model.experts = in.integer("count", size_range);
  model.experts_per_token =
      in.integer("per_token", {1, in.has("count") ? model.experts : size_range.max});
  model.shared_experts = in.integer_or("shared", {0, 1024}, 0);
  model.expert_width = in.integer("width", size_range);
  in.finish();
}

void read_dense_ffn(const YamlNode& node, ModelSpec& model, Diagnostics& diagnostics) {
  MapReader in(node, "dense_ffn", diagnostics);
  model.dense_width = in.integer("width", size_range);
  if (model.experts > 0) {
    model.dense_layers = in.integer("layers", {1, model.layers > 1 ? model.layers : 10'000});
  } else if (in.has("layers")) {
    in.error("layers",
             "'layers' of 'dense_ffn' needs 'experts': without them every layer is dense");
    static_cast<void>(in.child("layers"));
  }
  in.finish();
}

} // namespace

ModelSpec read_model(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> kinds{"model"};
  MapReader in(node, "model", diagnostics);
  ModelSpec model;
  static_cast<void>(in.choice("kind", kinds));
  model.name = in.text("name");
  model.title = in.text_or("title", model.name);
  model.source = in.text("source");
  model.hidden = in.integer("hidden", size_range);
  model.layers = in.integer("layers", {1, 10'000});
  model.vocabulary = in.integer("vocabulary", size_range);
  if (const YamlNode* attention = in.required_child("attention")) {
    model.attention = read_attention(*attention, diagnostics);
  }
  if (const YamlNode* experts = in.child("experts")) {
    read_experts(*experts, model, diagnostics);
  }
  if (const YamlNode* dense = in.child("dense_ffn")) {
    read_dense_ffn(*dense, model, diagnostics);
  } else if (model.experts == 0) {
    in.error("dense_ffn", "a model needs 'dense_ffn', 'experts' or both");
  }
  if (model.experts == 0) {
    model.dense_layers = model.layers;
  }
  in.finish();
  return model;
}

ParameterCount count_parameters(const ModelSpec& model) {
  const AttentionSpec& a = model.attention;
  const std::int64_t e = model.hidden;
  ParameterCount count;
  if (a.kind == AttentionKind::latent) {
    count.attention_per_layer =
        e * a.query_rank + a.query_rank * a.heads * a.qk_dim() + e * (a.kv_rank + a.rope_dim) +
        a.kv_rank * a.heads * (a.nope_dim + a.value_dim) + a.heads * a.value_dim * e;
  } else {
    count.attention_per_layer =
        e * (a.heads + 2 * a.kv_heads) * a.head_dim + a.heads * a.head_dim * e;
  }
  count.dense_ffn_per_layer = 3 * e * model.dense_width;
  count.routed_experts_per_layer = 3 * e * model.expert_width * model.experts;
  count.shared_and_router_per_layer =
      3 * e * model.expert_width * model.shared_experts + e * model.experts;
  count.embedding = model.vocabulary * e;
  count.total =
      model.layers * count.attention_per_layer + model.dense_layers * count.dense_ffn_per_layer +
      model.moe_layers() * (count.routed_experts_per_layer + count.shared_and_router_per_layer) +
      2 * count.embedding;
  return count;
}

ModelFlops flops_per_token(const ModelSpec& model, std::int64_t sequence) {
  const ParameterCount count = count_parameters(model);
  const AttentionSpec& a = model.attention;
  // Every weight of a product is used once per token: 2 flops forward, 6 in all.
  // Of the routed experts only `experts_per_token` work on a token.
  std::int64_t routed = 0;
  if (model.experts > 0) {
    routed = count.routed_experts_per_layer / model.experts * model.experts_per_token;
  }
  const double weights = static_cast<double>(model.layers * count.attention_per_layer) +
                         static_cast<double>(model.dense_layers * count.dense_ffn_per_layer) +
                         static_cast<double>(model.moe_layers()) *
                             static_cast<double>(routed + count.shared_and_router_per_layer) +
                         static_cast<double>(count.embedding);
  const double attention = static_cast<double>(model.layers) * static_cast<double>(sequence) *
                           static_cast<double>(a.heads * (a.qk_dim() + a.v_dim()));
  return {Flops{6.0 * weights}, Flops{3.0 * attention}};
}

} // namespace spillway
