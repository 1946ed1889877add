#include "workloads/model_spec.hpp"

#include <array>

namespace spillway {
namespace {

constexpr IntegerRange size_range{1, 1'000'000'000};

void read_grouped_query(MapReader& in, AttentionSpec& spec) {
  static const std::array<std::string, 3> biases{"none", "qkv", "all"};
  spec.kv_heads = in.integer("kv_heads", {1, in.has("heads") ? spec.heads : size_range.max});
  spec.head_dim = in.integer("head_dim", size_range);
  spec.qk_norm = in.boolean_or("qk_norm", false);
  const std::size_t bias = in.choice_or("bias", biases, 0);
  spec.qkv_bias = bias > 0;
  spec.out_bias = bias > 1;
  spec.sinks = in.boolean_or("sinks", false);
  if (in.has("heads") && spec.heads % spec.kv_heads != 0) {
    in.error("kv_heads", "'kv_heads' must divide 'heads'");
  }
}

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
    read_grouped_query(in, spec);
  }
  if (const YamlNode* window = in.child("window")) {
    MapReader map(*window, "window", diagnostics);
    spec.window = map.integer("tokens", size_range);
    spec.full_every = map.integer_or("full_every", {2, 10'000}, 0);
    map.finish();
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
  model.expert.width = in.integer("width", size_range);
  model.expert.bias = in.boolean_or("bias", false);
  static const std::array<std::string, 3> biases{"none", "trained", "untrained"};
  const std::size_t bias = in.choice_or("router_bias", biases, model.expert.bias ? 1 : 0);
  model.router_bias = bias > 0;
  model.router_bias_trained = bias == 1;
  in.finish();
}

void read_dense_ffn(const YamlNode& node, ModelSpec& model, Diagnostics& diagnostics) {
  MapReader in(node, "dense_ffn", diagnostics);
  model.dense.width = in.integer("width", size_range);
  model.dense.gated = in.boolean_or("gated", true);
  model.dense.bias = in.boolean_or("bias", false);
  if (model.experts > 0) {
    model.dense_layers = in.integer("layers", {1, model.layers > 1 ? model.layers : 10'000});
  } else if (in.has("layers")) {
    in.error("layers",
             "'layers' of 'dense_ffn' needs 'experts': without them every layer is dense");
    static_cast<void>(in.child("layers"));
  }
  in.finish();
}

void read_positions(const YamlNode& node, ModelSpec& model, Diagnostics& diagnostics) {
  static const std::array<std::string, 3> kinds{"rotary", "learned", "alibi"};
  MapReader in(node, "positions", diagnostics);
  model.position_kind = static_cast<PositionKind>(in.choice("type", kinds));
  if (model.position_kind == PositionKind::learned) {
    model.positions = in.integer("count", size_range);
  }
  in.finish();
  if (model.position_kind != PositionKind::rotary &&
      model.attention.kind == AttentionKind::latent) {
    in.error("type", "latent attention is rotary: a part of query and key is nothing else");
  }
}

PublishedCount read_count(MapReader& in) {
  constexpr RealRange range{1.0, 1e18};
  PublishedCount count;
  count.value = in.number("value", range);
  count.half_digit = in.number_or("rounded_to", range, 0) / 2;
  count.source = in.text("source");
  return count;
}

void read_published(const YamlNode& node, ModelSpec& model, Diagnostics& diagnostics) {
  MapReader in(node, "published", diagnostics);
  const auto read = [&](const char* key, std::optional<PublishedCount>& count) {
    if (const YamlNode* child = in.child(key)) {
      MapReader map(*child, key, diagnostics);
      count = read_count(map);
      map.finish();
    }
  };
  read("parameters", model.published_parameters);
  read("active_parameters", model.published_active_parameters);
  if (const YamlNode* child = in.child("flops_per_token")) {
    MapReader map(*child, "flops_per_token", diagnostics);
    PublishedFlops flops{read_count(map), map.integer("sequence", size_range), {}};
    flops.convention.counts_router = map.boolean_or("counts_router", true);
    flops.convention.full_attention = map.boolean_or("full_attention", false);
    model.published_flops = flops;
    map.finish();
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
  model.tied_embeddings = in.boolean_or("tied_embeddings", false);
  model.norm_bias = in.boolean_or("norm_bias", false);
  model.post_norms = in.boolean_or("post_norms", false);
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
  if (const YamlNode* positions = in.child("positions")) {
    read_positions(*positions, model, diagnostics);
  }
  if (const YamlNode* published = in.child("published")) {
    read_published(*published, model, diagnostics);
  }
  in.finish();
  return model;
}

} // namespace spillway
