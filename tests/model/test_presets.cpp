// The framework's presets against what its source lists for each of them.
#include "policies/plan.hpp"
#include "tests/support/traces.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;

namespace {

const FrameworkSpec& maxtext() {
  static const FrameworkSpec framework = catalog_framework("maxtext");
  return framework;
}

struct Decided {
  StepTrace trace;
  Plan plan;
};

Decided decided(const ModelSpec& model, const PolicySpec& policy) {
  Decided d;
  d.trace = build_trace(model, model.experts > 0 ? ParallelPlan{4, 1, 4} : ParallelPlan{1, 1, 1},
                        {2, 1, 64, 1}, maxtext(), DataType::bf16);
  d.plan = decide(policy, d.trace, maxtext());
  return d;
}

// "query_proj, expert gate": what a kind of layer saves beside its input, and where.
std::string saved(const Decided& d, const std::string& kind, Fate fate) {
  const std::size_t k = index_of(d.trace.kinds, kind);
  std::vector<std::string> names;
  for (TensorIndex t = 0; t < d.trace.kinds[k].tensors.size(); ++t) {
    const TensorDecision& decision = d.plan.kinds[k].tensors[t];
    if (t != d.trace.kinds[k].input && decision.saved() && decision.fate == fate) {
      names.push_back(d.trace.kinds[k].tensors[t].name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

} // namespace

// Of the listed names those that backward needs: a dense layer's down product is not.
// In a layer of experts gate and down carry the plain names too, up does not; the shared
// expert has plain names only.
TEST_CASE("Presets save what they list, in dense layers and in layers of experts") {
  const std::string qkv = "query_proj, key_proj, value_proj";
  const std::string dense = ", out_proj, mlp gate, mlp up";
  const std::string moe =
      ", out_proj, shared expert gate, shared expert up, expert gate, expert down";
  const std::map<std::string, std::pair<std::string, std::string>> expected{
      {"minimal", {qkv + dense, qkv + moe}},
      {"minimal_with_quantization", {qkv + dense, qkv + moe}},
      {"minimal_with_context", {qkv + ", context" + dense, qkv + ", context" + moe}},
      {"minimal_flash", {qkv + ", context" + dense, qkv + ", context" + moe}},
      {"minimal_with_context_and_quantization",
       {qkv + ", context" + dense, qkv + ", context" + moe}},
      {"save_dot_with_context_except_mlp",
       {qkv + ", context, out_proj", qkv + ", context, out_proj"}},
      {"save_dot_except_mlpwi", {qkv + ", out_proj", qkv + ", out_proj, expert down"}},
      {"save_dot_except_mlp", {qkv + ", out_proj", qkv + ", out_proj"}},
      {"save_qkv_proj", {qkv, qkv}},
      {"save_out_proj", {"out_proj", "out_proj"}},
      {"qkv_proj_offloaded", {qkv, qkv}},
      {"minimal_offloaded", {qkv + dense, qkv + moe}}};
  CHECK(maxtext().presets.size() == expected.size());
  for (const PresetSpec& preset : maxtext().presets) {
    CAPTURE(preset.name);
    const bool offloads = !preset.offload.empty();
    const Decided d = decided(small_moe(), preset_policy(preset));
    const Fate fate = offloads ? Fate::offload : Fate::keep;
    CHECK(saved(d, "dense", fate) == expected.at(preset.name).first);
    CHECK(saved(d, "moe", fate) == expected.at(preset.name).second);
    CHECK(saved(d, "moe", offloads ? Fate::keep : Fate::offload) == "");
  }
}

TEST_CASE("A preset says what it leaves to be recomputed though one may think otherwise") {
  const auto warnings = [](const ModelSpec& model, const std::string& name) {
    return decided(model, preset_policy(named(maxtext().presets, name))).plan.warnings;
  };
  CHECK(warnings(small_moe(), "minimal") ==
        std::vector<std::string>{
            "'mlpwi_1: keep' does not reach 'expert up' in moe layers, which is recomputed: its "
            "name is 'moe_mlpwi_1'",
            "preset minimal recomputes context, query_wa_proj, kv_wa_proj: list what is to be "
            "saved of them under 'tensors'"});
  CHECK(warnings(small_dense(), "minimal") ==
        std::vector<std::string>{"preset minimal recomputes context: list what is to be saved of "
                                 "them under 'tensors'"});
  CHECK(warnings(small_dense(), "save_out_proj").empty());
  for (const char* name : {"save_qkv_proj", "qkv_proj_offloaded"}) { // not all of a latent one's
    CHECK(warnings(small_moe(), name) ==
          std::vector<std::string>{fmt::format("preset {} recomputes query_wa_proj, kv_wa_proj: "
                                               "list what is to be saved of them under 'tensors'",
                                               name)});
    CHECK(warnings(small_dense(), name).empty());
  }
}

// 'moe_mlpwi_1' says what 'mlpwi_1' does not; what a policy lists is stronger than a preset.
TEST_CASE("What a policy lists is stronger than its preset") {
  Diagnostics diagnostics;
  const Decided probe = decided(small_moe(), PolicySpec{});
  const PolicySpec policy = read_policy(
      "mine",
      parse_yaml("{preset: minimal_offloaded, tensors: {moe_mlpwi_1: keep, key_proj: recompute}}",
                 "policy.yaml"),
      probe.trace, maxtext(), diagnostics);
  diagnostics.throw_if_any();
  const Decided d = decided(small_moe(), policy);
  CHECK(saved(d, "moe", Fate::keep) == "expert up");
  CHECK(saved(d, "moe", Fate::offload) ==
        "query_proj, value_proj, out_proj, shared expert gate, shared expert up, expert gate, "
        "expert down");
}
