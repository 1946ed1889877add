#include "policies/plan.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/traces.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace spillway;

namespace {

using Names = std::vector<std::string>;

// One plan of one model: what is decided, as names.
class Decided {
public:
  Decided(const ModelSpec& model, const std::string& policy, const std::string& framework,
          std::int64_t expert = 4)
      : framework_(catalog_framework(framework)),
        trace_(build_trace(model, {expert, 1, expert}, {2, 1, 64, 1}, framework_, DataType::bf16)) {
    Diagnostics diagnostics;
    const PolicySpec spec =
        read_policy("p", parse_yaml(policy, "policy.yaml"), trace_, framework_, diagnostics);
    diagnostics.throw_if_any();
    plan_ = decide(spec, trace_, framework_);
  }

  [[nodiscard]] const LayerKind& kind(const std::string& name) const {
    return named(trace_.kinds, name);
  }
  [[nodiscard]] const KindPlan& plan(const std::string& name) const {
    return plan_.kinds[index_of(trace_.kinds, name)];
  }
  [[nodiscard]] const Names& warnings() const { return plan_.warnings; }
  [[nodiscard]] Names rerun(const std::string& kind_name) const {
    Names names;
    for (const OpIndex op : plan(kind_name).rerun) {
      names.push_back(kind(kind_name).ops[op].name);
    }
    return names;
  }
  // Operations that are not run again, in order.
  [[nodiscard]] Names spared(const std::string& kind_name) const {
    Names names;
    for (OpIndex op = 0; op < kind(kind_name).ops.size(); ++op) {
      if (!std::binary_search(plan(kind_name).rerun.begin(), plan(kind_name).rerun.end(), op)) {
        names.push_back(kind(kind_name).ops[op].name);
      }
    }
    return names;
  }
  [[nodiscard]] const TensorDecision& tensor(const std::string& kind_name,
                                             const std::string& name) const {
    return plan(kind_name).tensors[index_of(kind(kind_name).tensors, name)];
  }
  // Names of the tensors with the fate that backward can use.
  [[nodiscard]] Names saved(const std::string& kind_name, Fate fate) const {
    Names names;
    for (std::size_t t = 0; t < kind(kind_name).tensors.size(); ++t) {
      const TensorDecision& decision = plan(kind_name).tensors[t];
      if (decision.saved() && decision.fate == fate) {
        names.push_back(kind(kind_name).tensors[t].name);
      }
    }
    return names;
  }
  [[nodiscard]] std::int64_t bytes(const std::string& kind_name, const std::string& name) const {
    return named(kind(kind_name).tensors, name).bytes.count();
  }

private:
  FrameworkSpec framework_;
  StepTrace trace_;
  Plan plan_;
};

Decided dense(const std::string& policy, const std::string& framework = "maxtext") {
  return {small_dense(), policy, framework, 1};
}
Decided moe(const std::string& policy, const std::string& framework = "maxtext") {
  return {small_moe(), policy, framework};
}

Names without(Names names, const Names& gone) {
  for (const std::string& name : gone) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      throw std::logic_error("'" + name + "' is not in the list");
    }
    names.erase(found);
  }
  return names;
}

const Names full_dense{"attention norm",     "query_proj", "query_proj rotary", "key_proj",
                       "key_proj rotary",    "value_proj", "attention",         "out_proj",
                       "attention residual", "mlp norm",   "mlp gate",          "mlp up",
                       "mlp activation"};

const Names full_moe{"attention norm",
                     "query_down",
                     "mla_q",
                     "query_up",
                     "query rotary",
                     "kv_down",
                     "mla_kv",
                     "kv_up",
                     "key assembly",
                     "value slice",
                     "attention",
                     "out_proj",
                     "attention residual",
                     "mlp norm",
                     "router",
                     "top-k",
                     "permute",
                     "dispatch",
                     "shared expert gate",
                     "shared expert up",
                     "shared expert activation",
                     "sort by expert",
                     "expert gate",
                     "expert up",
                     "expert activation",
                     "expert down",
                     "unsort",
                     "combine"};

} // namespace

// Nobody needs the down projection's output: the next layer has its sum as input, and
// that sum is saved there. The attention residual feeds the second norm, so it is re-run.
TEST_CASE("Full recompute of a dense layer spares the down projection and the sum after it") {
  const Decided plan = dense("{preset: full}");
  CHECK(plan.rerun("dense") == full_dense);
  CHECK(plan.spared("dense") == Names{"mlp down", "mlp residual"});
  CHECK(plan.saved("dense", Fate::keep) == Names{"decoder_layer_input"});
  CHECK(plan.plan("dense").kept.count() == plan.bytes("dense", "decoder_layer_input"));
  CHECK(plan.plan("dense").offloaded.count() == 0);
  CHECK(plan.warnings().empty());
}

// 2 x 64 tokens: query 2 128 64 128, key and value 2 128 64 32 each, attention
// 2 8 64 64 (16 + 16), out 2 128 128 64, gate and up 2 128 64 128 each:
// 2097152 + 2 524288 + 2097152 + 2097152 + 2 2097152 = 11534336; attention 2097152.
TEST_CASE("The FLOPs of a re-run are those of its products and its attention") {
  const Decided plan = dense("{preset: full}");
  double flops = 0;
  for (const OpIndex op : plan.plan("dense").rerun) {
    flops += plan.kind("dense").ops[op].work.flops().value();
  }
  CHECK(flops == 11534336);
}

// The gradient of a routing weight is the product of the output gradient with the row
// that came back, so the rows are computed and exchanged again.
TEST_CASE("Full recompute of an MoE layer runs the experts and both exchanges again") {
  const Decided plan = moe("{preset: full}");
  CHECK(plan.rerun("moe") == full_moe);
  CHECK(plan.spared("moe") == Names{"shared expert down", "weighted sum", "mlp residual"});
  CHECK(plan.spared("dense") == Names{"mlp down", "mlp residual"});
}

TEST_CASE("Full recompute of an MoE layer on a lone rank runs its down projection again") {
  const Decided plan(small_moe(), "{preset: full}", "maxtext", 1);
  CHECK(plan.rerun("moe") ==
        without(full_moe, {"dispatch", "sort by expert", "unsort", "combine"}));
}

TEST_CASE("The query that is saved spares its product but not the attention") {
  const Decided plan = moe("{preset: full, tensors: {query_proj: offload}}");
  CHECK(plan.rerun("moe") == without(full_moe, {"query_up", "query rotary"}));
  CHECK(plan.tensor("moe", "query_proj").reason == "spares query_up");
  CHECK(plan.saved("moe", Fate::offload) == Names{"query_proj"});
  CHECK(plan.plan("moe").offloaded.count() == plan.bytes("moe", "query_proj"));
  CHECK(plan.warnings().empty());
}

// Backward of attention reads the statistics too; without a name nothing can save them.
TEST_CASE("A saved context does not spare the attention whose statistics have no name") {
  const Decided plan = dense("{preset: full, tensors: {context: keep}}");
  CHECK(plan.rerun("dense") == full_dense);
  CHECK(plan.tensor("dense", "context").kept());
  CHECK(plan.tensor("dense", "context").reason == "spares no product");
  CHECK(plan.warnings() ==
        Names{"'context: keep' saves little in dense layers: every product before it runs again "
              "anyway"});
}

TEST_CASE("A saved context spares the attention whose statistics are saved with it") {
  const Decided plan = dense("{preset: full, tensors: {context: keep}}", "pytorch");
  CHECK(plan.rerun("dense") == without(full_dense, {"attention"}));
  CHECK(plan.saved("dense", Fate::keep) ==
        Names{"decoder_layer_input", "context", "softmax statistics"});
  CHECK(plan.tensor("dense", "context").reason == "spares attention");
  CHECK(plan.warnings().empty());
}

TEST_CASE("A saved attention output spares the output projection alone") {
  const Decided plan = dense("{preset: full, tensors: {out_proj: keep}}");
  CHECK(plan.rerun("dense") == without(full_dense, {"out_proj"}));
  // attention_out is another name for it.
  const Decided other = dense("{preset: full, tensors: {attention_out: keep}}");
  CHECK(other.rerun("dense") == plan.rerun("dense"));
  CHECK(other.warnings().empty());
}

// Query, key, value, context and statistics at hand, nothing before them is needed but
// the normed input of the three projections' weight gradients.
TEST_CASE("Everything around the attention saved leaves only norms, sums and the MLP") {
  const Decided plan = dense("{preset: full, tensors: {query_proj: keep, key_proj: keep, "
                             "value_proj: keep, context: keep, out_proj: offload}}",
                             "pytorch");
  CHECK(plan.rerun("dense") == Names{"attention norm", "attention residual", "mlp norm", "mlp gate",
                                     "mlp up", "mlp activation"});
  CHECK(plan.warnings().empty());
}

TEST_CASE("The returned rows' producer stays when the expert output is saved") {
  const Decided plan = moe("{preset: full, tensors: {moe_mlpwo: offload}}");
  CHECK(plan.rerun("moe") == without(full_moe, {"expert down"}));
  CHECK(plan.tensor("moe", "expert down").reason == "spares expert down");
}

// What backward itself reads is kept; a rotation's input for instance is not.
TEST_CASE("Without recompute nothing is re-run and only what backward reads is kept") {
  for (const std::string framework : {"maxtext", "pytorch"}) {
    const Decided plan = moe("{preset: none}", framework);
    for (const char* kind : {"embedding", "dense", "moe", "head"}) {
      CAPTURE(kind);
      CHECK(plan.rerun(kind).empty());
    }
    CHECK(plan.warnings().empty());
    CHECK(plan.saved("dense", Fate::keep) ==
          Names{"decoder_layer_input", "attention norm", "query_wa_proj", "mla_q", "query_proj",
                "kv_wa_proj", "mla_kv", "key_proj", "value_proj", "context", "softmax statistics",
                "attention residual", "mlp norm", "mlp gate", "mlp up", "mlp product"});
  }
}

TEST_CASE("Embedding and head are outside the policy: they keep what backward reads") {
  for (const char* policy : {"{preset: full}", "{preset: none}"}) {
    const Decided plan = moe(policy);
    CHECK(plan.rerun("head").empty());
    CHECK(plan.saved("head", Fate::keep) == Names{"final stream", "final norm", "logits"});
    CHECK(plan.saved("embedding", Fate::keep) == Names{"tokens"});
  }
}

TEST_CASE("Offload within preset none changes the place, not the re-run") {
  const Decided plan = moe("{preset: none, tensors: {mlpwi_1: offload}}");
  CHECK(plan.rerun("moe").empty());
  CHECK(plan.saved("moe", Fate::offload) == Names{"shared expert up"});
  CHECK(plan.saved("dense", Fate::offload) == Names{"mlp up"});
  CHECK(plan.warnings().empty());
}

TEST_CASE("Recompute within preset none re-runs what the tensor comes from") {
  const Decided plan = moe("{preset: none, tensors: {query_proj: recompute}}");
  CHECK(plan.rerun("moe") == Names{"query_up", "query rotary"});
  CHECK(plan.tensor("moe", "query_proj").reason == "re-run by query rotary");
}

TEST_CASE("Only preset none with nothing recomputed or offloaded has no checkpoint") {
  CHECK(moe("{preset: none}").plan("moe").unchecked);
  CHECK(moe("{preset: none, tensors: {query_proj: keep}}").plan("moe").unchecked);
  CHECK(!moe("{preset: none}").plan("head").unchecked); // not in a loop
  for (const char* policy : {"{preset: none, tensors: {query_proj: recompute}}",
                             "{preset: none, tensors: {query_proj: offload}}", "{preset: full}"}) {
    CHECK(!moe(policy).plan("moe").unchecked);
  }
}

TEST_CASE("A name with two meanings decides about the shared expert and the routed ones") {
  const Decided plan = moe("{preset: full, tensors: {mlpwi_0: offload}}");
  CHECK(plan.saved("dense", Fate::offload) == Names{"mlp gate"});
  CHECK(plan.saved("moe", Fate::offload) == Names{"shared expert gate", "expert gate"});
  CHECK(plan.rerun("moe") == without(full_moe, {"shared expert gate", "expert gate"}));
  CHECK(plan.plan("moe").offloaded.count() ==
        plan.bytes("moe", "shared expert gate") + plan.bytes("moe", "expert gate"));
  // The routed up projection has the more specific name only.
  CHECK(moe("{preset: full, tensors: {mlpwi_1: keep}}").saved("moe", Fate::keep) ==
        Names{"decoder_layer_input", "shared expert up"});
}

TEST_CASE("The more specific of two listed names decides, whatever their order") {
  for (const char* policy :
       {"{preset: full, tensors: {mlpwi_0: offload, moe_mlpwi_0: recompute}}",
        "{preset: full, tensors: {moe_mlpwi_0: recompute, mlpwi_0: offload}}"}) {
    const Decided plan = moe(policy);
    CHECK(plan.saved("moe", Fate::offload) == Names{"shared expert gate"});
    CHECK(plan.tensor("moe", "expert gate").fate == Fate::recompute);
    CHECK(plan.tensor("moe", "expert gate").reason == "re-run by expert gate");
  }
}

TEST_CASE("Fates of one kind of layer override those for every kind") {
  const Decided plan = moe("{preset: full, tensors: {query_proj: offload, mlpwi_1: keep}, "
                           "dense: {tensors: {query_proj: recompute, mlpwi_0: keep}}, "
                           "moe: {tensors: {mlpwi_1: offload}}}");
  CHECK(plan.saved("dense", Fate::keep) == Names{"decoder_layer_input", "mlp gate", "mlp up"});
  CHECK(plan.saved("dense", Fate::offload).empty());
  CHECK(plan.saved("moe", Fate::keep) == Names{"decoder_layer_input"});
  CHECK(plan.saved("moe", Fate::offload) == Names{"query_proj", "shared expert up"});
}

TEST_CASE("The layer input can be offloaded and says why it is needed") {
  const Decided plan = dense("{preset: full, tensors: {decoder_layer_input: offload}}");
  CHECK(plan.rerun("dense") == full_dense);
  CHECK(plan.tensor("dense", "decoder_layer_input").offloaded());
  CHECK(plan.tensor("dense", "decoder_layer_input").reason == "the layer is recomputed from it");
  CHECK(plan.plan("dense").kept.count() == 0);
  CHECK(plan.warnings().empty());
}

TEST_CASE("Saving what backward never reads has no effect and says so") {
  const Decided plan = moe("{preset: full, tensors: {mlpwo: offload}}");
  CHECK(plan.warnings() ==
        Names{"'mlpwo: offload' has no effect on 'mlp down' in dense layers: backward does not "
              "need it",
              "'mlpwo: offload' has no effect on 'shared expert down' in moe layers: backward does "
              "not need it"});
  CHECK_FALSE(plan.tensor("dense", "mlp down").saved());
  CHECK(plan.tensor("dense", "mlp down").reason == "backward does not need it");
  CHECK(plan.plan("dense").offloaded.count() == 0);
  CHECK(plan.saved("moe", Fate::offload) == Names{"expert down"});
  // Asking for what happens anyway is no reason to warn.
  CHECK(dense("{preset: full, tensors: {mlpwo: recompute}}").warnings().empty());
}

// The norm's own gradient reads its input, so the product before it runs again anyway.
TEST_CASE("Saving what spares no product saves little and says so") {
  const Decided plan = moe("{preset: full, tensors: {mla_q: keep}}");
  CHECK(plan.rerun("moe") == without(full_moe, {"mla_q"}));
  CHECK(plan.warnings() ==
        Names{"'mla_q: keep' saves little in dense layers: every product before it runs again "
              "anyway",
              "'mla_q: keep' saves little in moe layers: every product before it runs again "
              "anyway"});
}

TEST_CASE("A tensor without a name in the framework can be chosen, with a warning") {
  const Decided plan = moe("{preset: full, tensors: {moe_mlp_product: offload}, "
                           "dense: {tensors: {mlp_product: offload}}}");
  CHECK(plan.saved("moe", Fate::offload) == Names{"expert product"});
  const std::string title = catalog_framework("maxtext").title;
  CHECK(plan.warnings() ==
        Names{"'mlp_product: offload' saves little in dense layers: every product before it runs "
              "again anyway",
              "'moe_mlp_product: offload' saves little in moe layers: every product before it runs "
              "again anyway",
              title + " has no name for 'mlp_product': its policies cannot choose it",
              title + " has no name for 'moe_mlp_product': its policies cannot choose it"});
  // A framework without a list of names can choose any tensor.
  CHECK(moe("{preset: none, tensors: {moe_mlp_product: offload}}", "pytorch").warnings().empty());
}

// The gate of the routed experts carries two names; the one that the policy lists is the
// one that its author can find again.
TEST_CASE("A warning calls a tensor by the name that the policy lists") {
  StepTrace trace;
  LayerKind kind;
  kind.name = "moe";
  kind.checkpointed = true;
  kind.tensors.resize(2);
  kind.tensors[0].name = "in";
  kind.tensors[1].name = "out";
  kind.tensors[1].policy_names = {"specific", "general"};
  kind.ops.resize(1);
  kind.ops[0].name = "op";
  kind.ops[0].reads = {0};
  kind.ops[0].writes = {1};
  kind.output = 1;
  trace.kinds.push_back(kind);
  PolicySpec policy;
  policy.tensors = {{"general", Fate::keep}};
  CHECK(decide(policy, trace, {}).warnings ==
        Names{"'general: keep' has no effect on 'out' in moe layers: backward does not need it"});
}
