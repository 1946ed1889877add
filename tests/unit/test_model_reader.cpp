#include "tests/support/reports.hpp"
#include "workloads/model_spec.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace spillway;

namespace {

const std::string dense_text = "kind: model\n"
                               "name: small\n"
                               "source: a test\n"
                               "hidden: 64\n"
                               "layers: 4\n"
                               "vocabulary: 100\n"
                               "attention: {type: grouped_query, heads: 8, kv_heads: 2, "
                               "head_dim: 16}\n"
                               "dense_ffn: {width: 128}\n";

const std::string moe_text = "kind: model\n"
                             "name: small\n"
                             "source: a test\n"
                             "hidden: 64\n"
                             "layers: 4\n"
                             "vocabulary: 100\n"
                             "attention: {type: latent, heads: 8, query_rank: 32, kv_rank: 16, "
                             "nope_dim: 12, rope_dim: 4, value_dim: 10}\n"
                             "dense_ffn: {width: 128, layers: 1}\n"
                             "experts: {count: 16, per_token: 4, shared: 2, width: 24}\n";

ModelSpec read(const std::string& text) {
  Diagnostics diagnostics;
  ModelSpec model = read_model(parse_yaml(text, "t.yaml"), diagnostics);
  CHECK(report_text(diagnostics) == "");
  return model;
}

std::string reports(const std::string& text) {
  Diagnostics diagnostics;
  static_cast<void>(read_model(parse_yaml(text, "t.yaml"), diagnostics));
  return report_text(diagnostics);
}

} // namespace

TEST_CASE("A dense model is read with every layer dense and its name as title") {
  const ModelSpec model = read(dense_text);
  CHECK(model.name == "small");
  CHECK(model.title == "small");
  CHECK(model.source == "a test");
  CHECK(model.hidden == 64);
  CHECK(model.layers == 4);
  CHECK(model.vocabulary == 100);
  CHECK(model.attention.kind == AttentionKind::grouped_query);
  CHECK(model.attention.heads == 8);
  CHECK(model.attention.kv_heads == 2);
  CHECK(model.attention.qk_dim() == 16);
  CHECK(model.attention.v_dim() == 16);
  CHECK_FALSE(model.attention.qk_norm);
  CHECK(model.dense.width == 128);
  CHECK(model.dense_layers == 4);
  CHECK(model.moe_layers() == 0);
  CHECK(model.experts == 0);
}

TEST_CASE("A model with latent attention and experts is read completely") {
  const ModelSpec model = read(moe_text);
  CHECK(model.attention.kind == AttentionKind::latent);
  CHECK(model.attention.kv_heads == 8); // every head has its own key and value
  CHECK(model.attention.query_rank == 32);
  CHECK(model.attention.kv_rank == 16);
  CHECK(model.attention.qk_dim() == 12 + 4);
  CHECK(model.attention.v_dim() == 10);
  CHECK(model.dense_layers == 1);
  CHECK(model.moe_layers() == 3);
  CHECK(model.experts == 16);
  CHECK(model.experts_per_token == 4);
  CHECK(model.shared_experts == 2);
  CHECK(model.expert.width == 24);
}

TEST_CASE("Norms of query and key and a title are optional") {
  const ModelSpec model =
      read(replaced(replaced(dense_text, "head_dim: 16", "head_dim: 16, qk_norm: true"),
                    "name: small\n", "name: small\ntitle: Small one\n"));
  CHECK(model.attention.qk_norm);
  CHECK(model.title == "Small one");
}

TEST_CASE("A missing key of a model is reported with the map it belongs to") {
  CHECK(reports(replaced(dense_text, "hidden: 64\n", "")) ==
        "0:0: missing key 'hidden' in 'model'");
  CHECK(reports(replaced(dense_text, "source: a test\n", "")) ==
        "0:0: missing key 'source' in 'model'");
  CHECK(reports(replaced(dense_text, ", head_dim: 16", "")) ==
        "7:12: missing key 'head_dim' in 'attention'");
  CHECK(reports(replaced(moe_text, "rope_dim: 4, ", "")) ==
        "7:12: missing key 'rope_dim' in 'attention'");
  CHECK(reports(replaced(moe_text, "count: 16, per_token: 4, ", "count: 16, ")) ==
        "9:10: missing key 'per_token' in 'experts'");
  CHECK(reports(replaced(moe_text, "width: 128, layers: 1", "width: 128")) ==
        "8:12: missing key 'layers' in 'dense_ffn'");
  CHECK(reports("kind: model\nname: a\nsource: b\nhidden: 1\nlayers: 1\nvocabulary: 1\n"
                "dense_ffn: {width: 1}\n") == "0:0: missing key 'attention' in 'model'");
}

TEST_CASE("What depends on a missing count of a model is not blamed beside it") {
  CHECK(reports(replaced(dense_text, "heads: 8, kv", "kv")) ==
        "7:12: missing key 'heads' in 'attention'");
  CHECK(reports(replaced(moe_text, "count: 16, ", "")) == "9:10: missing key 'count' in 'experts'");
  CHECK(reports(replaced(moe_text, "layers: 4\n", "")) == "0:0: missing key 'layers' in 'model'");
}

TEST_CASE("A value of the wrong kind is reported where it stands") {
  CHECK(reports(replaced(dense_text, "kind: model", "kind: hardware")) ==
        "1:7: unknown value 'hardware' for 'kind' | known: model");
  CHECK(reports(replaced(dense_text, "hidden: 64", "hidden: wide")) ==
        "4:9: 'hidden' must be an integer, not 'wide'");
  CHECK(reports(replaced(dense_text, "{width: 128}", "128")) ==
        "8:12: 'dense_ffn' must be a map, not '128'");
  CHECK(reports(replaced(dense_text, "layers: 4", "layers: 0")) ==
        "5:9: 'layers' must be between 1 and 10000, not 0");
}

TEST_CASE("An unknown kind of attention is reported with the nearest one") {
  CHECK(reports(replaced(dense_text, "type: grouped_query", "type: grouped_queries")) ==
        "7:19: unknown value 'grouped_queries' for 'type' | did you mean 'grouped_query'?");
  CHECK(reports(replaced(dense_text, "type: grouped_query", "type: linear")) ==
        "7:19: unknown value 'linear' for 'type' | known: grouped_query, latent");
}

TEST_CASE("Key/value heads must divide the query heads and not exceed them") {
  CHECK(reports(replaced(dense_text, "kv_heads: 2", "kv_heads: 3")) ==
        "7:54: 'kv_heads' must divide 'heads'");
  CHECK(reports(replaced(dense_text, "kv_heads: 2", "kv_heads: 16")) ==
        "7:54: 'kv_heads' must be between 1 and 8, not 16");
}

TEST_CASE("A token cannot go to more experts than there are") {
  CHECK(reports(replaced(moe_text, "per_token: 4", "per_token: 17")) ==
        "9:33: 'per_token' must be between 1 and 16, not 17");
}

TEST_CASE("There cannot be more dense layers than layers") {
  CHECK(reports(replaced(moe_text, "layers: 1}", "layers: 5}")) ==
        "8:33: 'layers' must be between 1 and 4, not 5");
}

TEST_CASE("A number of dense layers needs experts for the others") {
  CHECK(reports(replaced(dense_text, "{width: 128}", "{width: 128, layers: 2}")) ==
        "8:33: 'layers' of 'dense_ffn' needs 'experts': without them every layer is dense");
}

TEST_CASE("A model needs a feed-forward block of some kind") {
  CHECK(reports(replaced(dense_text, "dense_ffn: {width: 128}\n", "")) ==
        "0:0: a model needs 'dense_ffn', 'experts' or both");
}

TEST_CASE("Everything that tells one family of models from another is read") {
  const ModelSpec model =
      read(replaced(replaced(replaced(dense_text, "head_dim: 16",
                                      "head_dim: 16, bias: qkv, sinks: true, "
                                      "window: {tokens: 32, full_every: 3}"),
                             "{width: 128}", "{width: 128, gated: false, bias: true}"),
                    "vocabulary: 100\n",
                    "vocabulary: 100\ntied_embeddings: true\nnorm_bias: true\npost_norms: true\n"
                    "positions: {type: learned, count: 77}\n"));
  CHECK(model.attention.qkv_bias);
  CHECK_FALSE(model.attention.out_bias);
  CHECK(model.attention.sinks);
  CHECK(model.attention.window == 32);
  CHECK(model.windowed_layers() == 3); // the third of four sees all
  CHECK_FALSE(model.is_windowed(2));
  CHECK_FALSE(model.dense.gated);
  CHECK(model.dense.bias);
  CHECK(model.tied_embeddings);
  CHECK(model.norm_bias);
  CHECK(model.post_norms);
  CHECK(model.position_kind == PositionKind::learned);
  CHECK(model.positions == 77);
}

TEST_CASE("A router has a bias when its experts have one, unless the file says otherwise") {
  CHECK_FALSE(read(moe_text).router_bias);
  CHECK(read(replaced(moe_text, "width: 24", "width: 24, bias: true")).router_bias);
  CHECK(read(replaced(moe_text, "width: 24", "width: 24, router_bias: untrained")).router_bias);
  CHECK_FALSE(read(replaced(moe_text, "width: 24", "width: 24, router_bias: untrained"))
                  .router_bias_trained);
  CHECK(read(replaced(moe_text, "width: 24", "width: 24, bias: true")).router_bias_trained);
}

TEST_CASE("Mistakes in what tells families of models apart are reported where they stand") {
  CHECK(reports(replaced(dense_text, "head_dim: 16", "head_dim: 16, bias: some")) ==
        "7:77: unknown value 'some' for 'bias' | known: none, qkv, all");
  CHECK(reports(replaced(dense_text, "head_dim: 16", "head_dim: 16, window: {token: 8}")) ==
        "7:79: missing key 'tokens' in 'window'\n"
        "7:80: unknown key 'token' in 'window' | did you mean 'tokens'?");
  CHECK(reports(replaced(dense_text, "layers: 4\n", "layers: 4\npositions: {type: learned}\n")) ==
        "6:12: missing key 'count' in 'positions'");
  CHECK(reports(replaced(moe_text, "layers: 4\n", "layers: 4\npositions: {type: alibi}\n")) ==
        "6:19: latent attention is rotary: a part of query and key is nothing else");
  CHECK(reports(replaced(dense_text, "layers: 4\n",
                         "layers: 4\npublished: {parameters: {value: 5e9}}\n")) ==
        "6:25: missing key 'source' in 'parameters'");
}

TEST_CASE("A published count is known to half a unit of its last digit") {
  const ModelSpec model = read(replaced(
      dense_text, "layers: 4\n",
      "layers: 4\npublished: {parameters: {value: 5e9, rounded_to: 1e9, source: s}, "
      "active_parameters: {value: 7, source: t}, flops_per_token: {value: 3, sequence: 64, "
      "counts_router: false, full_attention: true, source: u}}\n"));
  REQUIRE(model.published_parameters.has_value());
  CHECK(model.published_parameters->agrees(5.5e9));
  CHECK_FALSE(model.published_parameters->agrees(5.51e9));
  REQUIRE(model.published_active_parameters.has_value());
  CHECK(model.published_active_parameters->agrees(7));
  CHECK_FALSE(model.published_active_parameters->agrees(8));
  REQUIRE(model.published_flops.has_value());
  CHECK(model.published_flops->sequence == 64);
  CHECK_FALSE(model.published_flops->convention.counts_router);
  CHECK(model.published_flops->convention.full_attention);
}

TEST_CASE("Unknown keys of a model are reported with the nearest known one") {
  CHECK(reports(replaced(dense_text, "layers: 4\n", "layers: 4\nlayer: 4\n")) ==
        "6:1: unknown key 'layer' in 'model' | did you mean 'layers'?");
  // A latent attention has no key/value heads of its own.
  CHECK(
      reports(
          replaced(moe_text, "type: latent, heads: 8", "type: latent, heads: 8, kv_heads: 8")) ==
      "7:37: unknown key 'kv_heads' in 'attention' | known: heads, kv_rank, nope_dim, query_rank, "
      "rope_dim, type, value_dim, window");
}
