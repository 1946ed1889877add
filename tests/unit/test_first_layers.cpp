// Policies that say something else for the first layers: what is read, what is decided.
#include "policies/plan.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/traces.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace spillway;

namespace {

// One dense layer and seven MoE layers.
ModelSpec eight_layers() {
  ModelSpec model = small_moe();
  model.layers = 8;
  return model;
}

StepTrace trace_of(const ModelSpec& model = eight_layers()) {
  return build(model, {4, 1, 4}, {2, 1, 64, 1});
}

PolicySpec policy_of(const std::string& text, const StepTrace& trace) {
  Diagnostics diagnostics;
  PolicySpec policy = read_policy("p", parse_yaml(text, "policy.yaml"), trace,
                                  catalog_framework("maxtext"), diagnostics);
  diagnostics.throw_if_any();
  return policy;
}

std::string reports(const std::string& first) {
  Diagnostics diagnostics;
  static_cast<void>(read_policy("p", parse_yaml("preset: full\nfirst: " + first + "\n", "p.yaml"),
                                trace_of(), catalog_framework("maxtext"), diagnostics));
  return report_text(diagnostics);
}

std::int64_t layers_of(const std::string& layers) {
  return policy_of("{preset: full, first: {layers: " + layers + "}}", trace_of()).first->layers;
}

Plan plan_of(const std::string& text, const ModelSpec& model = eight_layers(),
             const std::string& framework = "maxtext") {
  const StepTrace trace = trace_of(model);
  return decide(policy_of(text, trace), trace, catalog_framework(framework));
}

// "dense 1: q; moe 2: q; moe 5:": a block each, its layers, and a letter for each
// tensor of `names` that is offloaded there.
std::string offloads_of(const Plan& plan, const StepTrace& trace) {
  std::string text;
  for (const LayerBlock& block : plan.blocks) {
    const KindPlan& own = plan.kinds[block.kind_of(0)];
    const LayerKind& kind = trace.kinds[own.kind];
    if (!kind.checkpointed) {
      continue;
    }
    text += (text.empty() ? "" : "; ") + kind.name + " " + std::to_string(block.layers) + ":";
    for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
      text += own.tensors[t].offloaded() ? " " + kind.tensors[t].name : "";
    }
  }
  return text;
}

std::string offloads_of(const std::string& policy) {
  return offloads_of(plan_of(policy), trace_of());
}

} // namespace

TEST_CASE("The number of first layers is read, or computed from a percentage") {
  CHECK(layers_of("0") == 0);
  CHECK(layers_of("8") == 8);
  CHECK(layers_of("0 %") == 0);
  CHECK(layers_of("50 %") == 4);
  CHECK(layers_of("\"50%\"") == 4);
  CHECK(layers_of("31 %") == 2);   // 2.48
  CHECK(layers_of("31.3 %") == 3); // 2.504
  CHECK(layers_of("100 %") == 8);
}

TEST_CASE("Fates of the first layers are read like a policy's own") {
  const PolicySpec policy =
      policy_of("{preset: custom, first: {layers: 2, tensors: {query_proj: offload}, "
                "dense: {tensors: {mlpwi_0: keep}}, moe: {tensors: {moe_mlpwi_0: offload}}}}",
                trace_of());
  REQUIRE(policy.first);
  CHECK(policy.tensors.empty());
  CHECK(policy.first->tensors.at("query_proj") == Fate::offload);
  CHECK(policy.first->by_kind.at("dense").at("mlpwi_0") == Fate::keep);
  CHECK(policy.first->by_kind.at("moe").at("moe_mlpwi_0") == Fate::offload);
}

TEST_CASE("Wrong numbers of first layers are reported") {
  const std::string has = " | the model has 8 decoder layers";
  const std::string percent = " | write a number of layers, or for example \"50 %\"";
  CHECK(reports("{layers: -1}") == "2:17: 'layers' must be between 0 and 8, not -1" + has);
  CHECK(reports("{layers: 9}") == "2:17: 'layers' must be between 0 and 8, not 9" + has);
  CHECK(reports("{layers: 2.5}") == "2:17: 'layers' must be an integer, not '2.5'");
  CHECK(reports("{layers: half}") == "2:17: 'layers' must be an integer, not 'half'");
  CHECK(reports("{layers: [2]}") == "2:17: 'layers' must be an integer, not a list");
  CHECK(reports("{layers: 99999999999999999999}") ==
        "2:17: 'layers' does not fit in 64 bits: 99999999999999999999");
  for (const char* wrong : {"101 %", "-1 %", "half %", "50 % %", "nan %"}) {
    CHECK(reports(std::string("{layers: ") + wrong + "}") ==
          std::string("2:17: 'layers' must be between 0 % and 100 %, not '") + wrong + "'" +
              percent);
  }
  CHECK(reports("{tensors: {context: keep}}") == "2:8: missing key 'layers' in 'first'");
  CHECK(reports("3") == "2:8: 'first' must be a map, not '3'");
}

TEST_CASE("Unknown names among the first layers are reported with the nearest one") {
  CHECK(reports("{layers: 2, mo: {tensors: {context: keep}}}") ==
        "2:20: unknown key 'mo' in 'first' | did you mean 'moe'?");
  CHECK(reports("{layers: 2, tensors: {query_pro: keep}}") ==
        "2:30: unknown tensor 'query_pro' in this model | did you mean 'query_proj'?");
  CHECK(reports("{layers: 2, moe: {tensors: {moe_mlpw: keep}}}") ==
        "2:36: unknown tensor 'moe_mlpw' in 'moe' layers | did you mean 'moe_mlpwo'?");
  CHECK(reports("{layers: 2, tensors: {context: drop}}") ==
        "2:39: unknown value 'drop' for 'context' | known: keep, recompute, offload");
  CHECK(reports("{layers: 2, preset: none}") ==
        "2:20: unknown key 'preset' in 'first' | known: dense, layers, moe, tensors");
}

TEST_CASE("Fates of the first layers hold there only, and cut the loop that they end in") {
  const std::string tensors = "tensors: {query_proj: offload}}}";
  CHECK(offloads_of("{preset: full, first: {layers: 0, " + tensors) == "dense 1:; moe 7:");
  CHECK(offloads_of("{preset: full, first: {layers: 1, " + tensors) ==
        "dense 1: query_proj; moe 7:");
  CHECK(offloads_of("{preset: full, first: {layers: 3, " + tensors) ==
        "dense 1: query_proj; moe 2: query_proj; moe 5:");
  CHECK(offloads_of("{preset: full, first: {layers: 8, " + tensors) ==
        "dense 1: query_proj; moe 7: query_proj");
  // Nothing else is said for its layers, or the same: one loop as before.
  CHECK(offloads_of("{preset: full, first: {layers: 3, dense: {tensors: {context: offload}}}}") ==
        "dense 1: context; moe 7:");
  CHECK(offloads_of("{preset: full, tensors: {context: offload}, "
                    "first: {layers: 3, tensors: {context: offload}}}") ==
        "dense 1: context; moe 7: context");
  CHECK(offloads_of("{preset: full, first: {layers: 3}}") == "dense 1:; moe 7:");
}

// What is weaker outside, an expert's own name there, loses against any name of the first.
TEST_CASE("Fates of the first layers are stronger than all others there") {
  CHECK(offloads_of("{preset: full, moe: {tensors: {moe_mlpwi_0: offload}}, "
                    "first: {layers: 4, tensors: {mlpwi_0: recompute}}}") ==
        "dense 1:; moe 3:; moe 4: expert gate");
  CHECK(offloads_of("{preset: full, tensors: {context: offload}, first: {layers: 4, "
                    "tensors: {context: keep}, moe: {tensors: {context: offload}}}}") ==
        "dense 1:; moe 7: context");
}

TEST_CASE("A kind of layer with two plans is described once") {
  const StepTrace trace = trace_of();
  const Plan plan = plan_of("{preset: full, first: {layers: 3, tensors: {context: offload}}}");
  REQUIRE(plan.kinds.size() == trace.kinds.size() + 1);
  CHECK(plan.kinds.back().kind == index_of(trace.kinds, "moe"));
  CHECK(plan.kinds.back().first);
  CHECK(plan.first_layers == 3);
  std::vector<std::string> where;
  for (std::size_t k = 0; k < plan.kinds.size(); ++k) {
    where.push_back(trace.kinds[plan.kinds[k].kind].name + where_text(plan, trace, k));
  }
  CHECK(where == std::vector<std::string>{"embedding", "dense", "moe after the first 3", "head",
                                          "moe among the first 3"});
}

// Rounds of two: layers 0, 2, 4, 6 see a window or do not, whatever the cut.
TEST_CASE("Kinds that take turns go on doing so after a cut inside a round") {
  ModelSpec model = small_dense();
  model.layers = model.dense_layers = 7;
  model.attention.window = 16;
  model.attention.full_every = 2;
  const StepTrace trace = build(model, {1, 1, 1}, {2, 1, 64, 1});
  PolicySpec policy;
  policy.first = {3, {{"query_proj", Fate::offload}}, {}};
  const Plan plan = decide(policy, trace, catalog_framework("maxtext"));
  std::vector<std::int64_t> layers;
  std::int64_t layer = 0;
  for (const LayerBlock& block : plan.blocks) {
    layers.push_back(block.layers);
    for (std::int64_t position = 0; position < block.layers; ++position) {
      const KindPlan& own = plan.kinds[block.kind_of(position)];
      if (trace.kinds[own.kind].checkpointed) {
        CHECK(trace.kinds[own.kind].windowed == model.is_windowed(layer));
        CHECK((own.offloaded.count() > 0) == (layer < 3));
        ++layer;
      }
    }
  }
  CHECK(layers == std::vector<std::int64_t>{1, 3, 4, 1});
}

TEST_CASE("Without checkpoint are only layers that nothing is recomputed in") {
  const Plan plan = plan_of("{preset: none, first: {layers: 3, tensors: {query_proj: recompute}}}");
  CHECK(plan.kinds[plan.blocks[2].kind_of(0)].rerun.size() == 2); // projection and rotation
  CHECK_FALSE(plan.kinds[plan.blocks[2].kind_of(0)].unchecked);
  CHECK(plan.kinds[plan.blocks[3].kind_of(0)].unchecked);
}

TEST_CASE("A framework that scans its layers is said to need two scans") {
  const std::string text = "{preset: full, first: {layers: 3, tensors: {query_proj: offload}}}";
  CHECK(plan_of(text).warnings ==
        std::vector<std::string>{
            "MaxText on JAX/XLA, layers in a scan: one scan has one policy, so that other fates in "
            "the first 3 decoder layers need two scans over moe layers"});
  CHECK(plan_of(text, eight_layers(), "pytorch").warnings.empty());
  // Dense and MoE layers have scans of their own in any case.
  for (const char* whole : {"0", "1", "8"}) {
    CHECK(plan_of(replaced(text, "layers: 3", std::string("layers: ") + whole)).warnings.empty());
  }
}

TEST_CASE("Warnings say which layers they are about where a kind has two plans") {
  const std::vector<std::string> warnings =
      plan_of("{preset: full, first: {layers: 3, tensors: {mlpwi_1: keep}}}").warnings;
  REQUIRE(warnings.size() == 2); // and the one about two scans
  CHECK(warnings[0] ==
        "'mlpwi_1: keep' does not reach 'expert up' in moe layers among the first 3, which is "
        "recomputed: its name is 'moe_mlpwi_1'");
  // All layers are the first ones: as without `first`.
  const Plan all = plan_of("{preset: full, first: {layers: 8, tensors: {mlpwi_1: offload}}}");
  CHECK(all.warnings == plan_of("{preset: full, tensors: {mlpwi_1: offload}}").warnings);
  CHECK(plan_of("{preset: full, first: {layers: 0, tensors: {mlpwi_1: offload}}}").warnings ==
        plan_of("{preset: full}").warnings);
}
