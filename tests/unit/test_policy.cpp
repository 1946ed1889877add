#include "policies/policy.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/traces.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace spillway;

namespace {

StepTrace trace_of(const ModelSpec& model) {
  return build_trace(model, {1, 1, 1}, {1, 1, 64, 1}, catalog_framework("maxtext"), DataType::bf16);
}

std::string reports(const std::string& policy, const ModelSpec& model = small_moe()) {
  Diagnostics diagnostics;
  static_cast<void>(read_policy("p", parse_yaml(policy, "policy.yaml"), trace_of(model),
                                catalog_framework("maxtext"), diagnostics));
  return report_text(diagnostics);
}

} // namespace

TEST_CASE("A policy is read with its preset and fates") {
  Diagnostics diagnostics;
  const PolicySpec policy = read_policy(
      "mine",
      parse_yaml("{preset: custom, tensors: {query_proj: offload, mlpwi_0: keep}, "
                 "dense: {tensors: {mlpwi_0: recompute}}, moe: {tensors: {moe_mlpwi_0: keep}}}",
                 "policy.yaml"),
      trace_of(small_moe()), catalog_framework("maxtext"), diagnostics);
  CHECK(report_text(diagnostics) == "");
  CHECK(policy.name == "mine");
  CHECK(policy.preset == Preset::custom);
  CHECK(policy.tensors.size() == 2);
  CHECK(policy.tensors.at("query_proj") == Fate::offload);
  CHECK(policy.tensors.at("mlpwi_0") == Fate::keep);
  CHECK(policy.by_kind.size() == 2);
  CHECK(policy.by_kind.at("dense").at("mlpwi_0") == Fate::recompute);
  CHECK(policy.by_kind.at("moe").at("moe_mlpwi_0") == Fate::keep);
}

TEST_CASE("Fates have the names that policies use") {
  CHECK(std::string(fate_name(Fate::keep)) == "keep");
  CHECK(std::string(fate_name(Fate::recompute)) == "recompute");
  CHECK(std::string(fate_name(Fate::offload)) == "offload");
}

TEST_CASE("An unknown tensor is reported with the nearest one of the model") {
  CHECK(reports("preset: full\ntensors:\n  query_pro: keep\n") ==
        "3:3: unknown tensor 'query_pro' in this model | did you mean 'query_proj'?");
  CHECK(reports("preset: full\ntensors: {everything: keep}\n", small_dense()) ==
        "2:11: unknown tensor 'everything' in this model | known: decoder_layer_input, "
        "query_proj, key_proj, value_proj, context, out_proj, attention_out, mlpwi_0, mlpwi_1, "
        "mlp_product, mlpwo");
  // A name that other models have.
  CHECK(reports("preset: full\ntensors: {mla_q: keep, query_prj: offload}\n", small_dense()) ==
        "2:11: unknown tensor 'mla_q' in this model | known: decoder_layer_input, query_proj, "
        "key_proj, value_proj, context, out_proj, attention_out, mlpwi_0, mlpwi_1, mlp_product, "
        "mlpwo\n"
        "2:24: unknown tensor 'query_prj' in this model | did you mean 'query_proj'?");
}

TEST_CASE("A tensor that only other kinds of layer have is unknown in this one") {
  CHECK(reports("preset: full\ndense: {tensors: {moe_mlpwo: keep}}\n") ==
        "2:19: unknown tensor 'moe_mlpwo' in 'dense' layers | known: decoder_layer_input, "
        "query_wa_proj, mla_q, query_proj, kv_wa_proj, mla_kv, key_proj, value_proj, context, "
        "out_proj, attention_out, mlpwi_0, ...");
  CHECK(reports("preset: full\nmoe: {tensors: {moe_mlpw: keep}}\n") ==
        "2:17: unknown tensor 'moe_mlpw' in 'moe' layers | did you mean 'moe_mlpwo'?");
}

TEST_CASE("An unknown fate is reported with the nearest one") {
  CHECK(reports("preset: full\ntensors: {context: offlod}\n") ==
        "2:20: unknown value 'offlod' for 'context' | did you mean 'offload'?");
  CHECK(reports("preset: full\ntensors: {context: drop}\n") ==
        "2:20: unknown value 'drop' for 'context' | known: keep, recompute, offload");
  CHECK(reports("preset: full\ntensors: {context: {to: host}}\n") ==
        "2:20: 'context' must be a word, not a map | known: keep, recompute, offload");
}

TEST_CASE("The layer input cannot be recomputed, in no kind of layer") {
  const std::string text =
      "'decoder_layer_input' cannot be recomputed | a layer is recomputed from it: keep or "
      "offload it";
  CHECK(reports("preset: full\ntensors: {decoder_layer_input: recompute}\n") == "2:11: " + text);
  CHECK(reports("preset: full\nmoe: {tensors: {decoder_layer_input: recompute}}\n") ==
        "2:17: " + text);
  CHECK(reports("preset: none\ntensors: {decoder_layer_input: keep}\n") == "");
}

TEST_CASE("A custom policy must list tensors") {
  const std::string text = "1:9: policy 'p' is custom but lists no tensors | add 'tensors', or use "
                           "preset full or none";
  CHECK(reports("preset: custom\n") == text);
  CHECK(reports("preset: custom\ntensors: {}\n") == text);
  CHECK(reports("preset: custom\ndense: {tensors: {mlpwi_0: keep}}\n") == "");
}

// An empty map of one kind of layer lists nothing either.
TEST_CASE("A custom policy with empty maps lists no tensors") {
  CHECK(reports("preset: custom\nmoe: {tensors: {}}\n") ==
        "1:9: policy 'p' is custom but lists no tensors | add 'tensors', or use preset full or "
        "none");
}

TEST_CASE("A missing or unknown preset is reported") {
  CHECK(reports("tensors: {context: keep}\n") == "0:0: missing key 'preset' in 'p'");
  CHECK(reports("preset: ful\n") == "1:9: unknown value 'ful' for 'preset' | did you mean 'full'?");
  CHECK(reports("preset: minimum\n") ==
        "1:9: unknown value 'minimum' for 'preset' | did you mean 'minimal'?");
  CHECK(reports("preset: minimal\n") == "");
}

TEST_CASE("Unknown keys and wrong kinds of a policy are reported") {
  CHECK(reports("preset: full\ntensor: {context: keep}\n") ==
        "2:1: unknown key 'tensor' in 'p' | did you mean 'tensors'?");
  // A dense model has no such layers.
  CHECK(reports("preset: full\nmoe: {tensors: {mlpwi_0: keep}}\n", small_dense()) ==
        "2:1: unknown key 'moe' in 'p' | known: dense, first, preset, tensors");
  CHECK(reports("preset: full\nmoe: {context: keep}\n") ==
        "2:7: unknown key 'context' in 'moe' | known: tensors");
  CHECK(reports("preset: full\nmoe: keep\n") == "2:6: 'moe' must be a map, not 'keep'");
  CHECK(reports("preset: full\ntensors: [context]\n") ==
        "2:10: 'tensors' must be a map of tensor names to keep, recompute or offload");
  CHECK(reports("full") == "1:1: 'p' must be a map, not 'full'");
}
