// The order and the cost of backward in a compiled loop, and whose gradients are whose.
#include "sim/lower/program.hpp"

#include "tests/support/program_text.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/traces.hpp"
#include "workloads/layer_builder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;

namespace {

// "name" of a step, "name*" where it is run again.
std::vector<std::string> names(const std::vector<ProgramStep>& steps) {
  std::vector<std::string> all;
  for (const ProgramStep& step : steps) {
    all.push_back(step.name + (step.phase == Phase::recompute ? "*" : ""));
  }
  return all;
}

struct Made {
  LayerKind kind;
  Plan plan;
  std::vector<Work> works;
  LayerProgram program;

  [[nodiscard]] const Work& work(const std::string& step) const {
    const std::vector<std::string> all = names(program.backward);
    const auto found = std::find(all.begin(), all.end(), step);
    REQUIRE(found != all.end());
    return works[program.backward[static_cast<std::size_t>(found - all.begin())].work];
  }
};

Made make(LayerKind kind, const PolicySpec& policy, const FrameworkSpec& framework) {
  Made made;
  made.kind = std::move(kind);
  StepTrace trace;
  trace.kinds = {made.kind};
  made.plan = decide(policy, trace, framework);
  made.program = make_program(made.kind, made.plan.kinds[0], HbmOwner::saved_activations, framework,
                              made.works);
  return made;
}

using Fates = std::map<std::string, Fate, std::less<>>;

PolicySpec policy_of(const Fates& fates, Preset preset = Preset::full) {
  PolicySpec policy;
  policy.preset = preset;
  policy.tensors = fates;
  return policy;
}

// The dense layer of a model: 3 sequences of 32 tokens, width 128.
constexpr std::int64_t tokens = 96;
constexpr std::int64_t up_bytes = tokens * 128 * 2;

LayerKind layer_of(const ModelSpec& model, const std::string& name, const FrameworkSpec& framework,
                   ParallelPlan parallel = {}) {
  BatchSpec batch;
  batch.micro = 3;
  batch.sequence = 32;
  return named(build_trace(model, parallel, batch, framework, DataType::bf16).kinds, name);
}

Made dense(const Fates& fates, const std::string& framework = "maxtext") {
  const FrameworkSpec spec = catalog_framework(framework);
  return make(layer_of(small_dense(), "dense", spec), policy_of(fates), spec);
}

// 0: run again, 1: gradients of values, 2: gradients of weights.
int rank_of(const ProgramStep& step) {
  const bool weight = step.name.ends_with(" weight");
  return step.phase == Phase::recompute ? 0 : weight ? 2 : 1;
}

// x -> up -> a -> act -> b -> down -> out, as in test_program.cpp.
LayerKind three_ops() {
  LayerBuilder layer("small", true);
  const auto axes = [](std::int64_t width) {
    return std::vector<Axis>{{"rows", 2}, {"width", width}};
  };
  const TensorIndex in = layer.tensor("x", {"x"}, axes(4), DataType::bf16);
  const TensorIndex up = layer.tensor("a", {"a"}, axes(8), DataType::bf16);
  const TensorIndex act = layer.tensor("b", {"b"}, axes(8), DataType::bf16);
  const TensorIndex out = layer.tensor("out", {}, axes(4), DataType::bf16);
  layer.product({"up", in, up, 2, 8, 4}, DataType::bf16);
  layer.elementwise({"act", {up}, {act}, 64.0, 96.0, {up}});
  layer.product({"down", act, out, 2, 4, 8}, DataType::bf16);
  return std::move(layer).finish(in, out);
}

FrameworkSpec compiled() {
  FrameworkSpec framework;
  framework.compiled_order = true;
  return framework;
}

} // namespace

TEST_CASE("A compiled backward re-runs everything first and makes weight gradients last") {
  CHECK(names(make(three_ops(), policy_of({}), compiled()).program.backward) ==
        std::vector<std::string>{"up*", "act*", "d down input", "d act", "d up input",
                                 "d down weight", "d up weight"});
  CHECK(names(make(three_ops(), policy_of({{"b", Fate::keep}}), compiled()).program.backward) ==
        std::vector<std::string>{"up*", "d down input", "d act", "d up input", "d down weight",
                                 "d up weight"});
  CHECK(names(make(three_ops(), policy_of({}, Preset::none), compiled()).program.backward) ==
        std::vector<std::string>{"d down input", "d act", "d up input", "d down weight",
                                 "d up weight"});
}

// a and b (32 bytes each) are there from the start to their last readers: a to d act, b to
// the weight gradient of down. The gradients of out, b and a wait for the weight gradients.
TEST_CASE("What a compiled backward holds until its last weight gradient") {
  const Made made = make(three_ops(), policy_of({}), compiled());
  const std::vector<ProgramStep>& steps = made.program.backward;
  REQUIRE(steps.size() == 7);
  CHECK(memory(steps[0]) == "+32 recompute_workspace");
  CHECK(memory(steps[1]) == "+32 recompute_workspace");
  CHECK(memory(steps[2]) == "+32 workspace");                                       // gradient of b
  CHECK(memory(steps[3]) == "+32 workspace -32 recompute_workspace -32 workspace"); // of a
  CHECK(memory(steps[4]) == "+16 workspace");                                       // of x
  CHECK(memory(steps[5]) == "-32 recompute_workspace -16 workspace"); // b, gradient of out
  CHECK(memory(steps[6]) == "-16 saved_activations -32 workspace");   // x, gradient of a
}

TEST_CASE("Every policy of a compiled layer has its steps in three groups") {
  for (const Fates& fates :
       {Fates{}, Fates{{"query_proj", Fate::offload}}, Fates{{"context", Fate::keep}},
        Fates{{"mlpwi_0", Fate::keep}, {"query_proj", Fate::offload}}}) {
    const Made made = dense(fates);
    std::vector<ProgramStep> steps = made.program.backward;
    // The activation product is cheap and comes where it is needed.
    std::erase_if(steps, [](const ProgramStep& step) { return step.name == "mlp activation"; });
    CHECK(steps.size() + 1 == made.program.backward.size());
    CHECK(std::is_sorted(steps.begin(), steps.end(),
                         [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); }));
    // Seven products of a layer have a weight gradient each.
    CHECK(std::count_if(steps.begin(), steps.end(),
                        [](const ProgramStep& step) { return rank_of(step) == 2; }) == 7);
  }
}

// With gate and up re-run, the product is rebuilt for the weight gradient of the down
// projection; with both at hand, the kernel of its own backward writes it in passing.
TEST_CASE("The activation product is rebuilt where it is read, or in passing") {
  const auto next_after_product = [](const Fates& fates) {
    const Made made = dense(fates);
    const std::vector<ProgramStep>& steps = made.program.backward;
    const auto product = std::find_if(steps.begin(), steps.end(), [](const ProgramStep& step) {
      return step.name == "mlp activation";
    });
    REQUIRE(product != steps.end());
    return std::pair(std::next(product)->name, made.works[product->work].kind);
  };
  CHECK(next_after_product({}) == std::pair(std::string("d mlp down weight"), WorkKind::memory));
  CHECK(next_after_product({{"mlpwi_0", Fate::keep}}) ==
        std::pair(std::string("d mlp down weight"), WorkKind::memory));
  CHECK(next_after_product({{"mlpwi_0", Fate::keep}, {"mlpwi_1", Fate::offload}}) ==
        std::pair(std::string("d mlp activation"), WorkKind::none));
}

// Before the kernel that rebuilds it, the weight gradient reads the product.
TEST_CASE("An eager framework re-runs the activation product in full") {
  const Made made = dense({{"mlpwi_0", Fate::keep}, {"mlpwi_1", Fate::keep}}, "pytorch");
  const Work& product = made.work("mlp activation*");
  CHECK(product.kind == WorkKind::memory);
  CHECK(product.bytes.count() == 3 * up_bytes);
}

TEST_CASE("The order of backward changes neither what runs nor how often") {
  for (const Preset preset : {Preset::full, Preset::none}) {
    FrameworkSpec framework = catalog_framework("maxtext");
    const LayerKind kind = layer_of(small_dense(), "dense", framework);
    std::vector<std::string> late =
        names(make(kind, policy_of({}, preset), framework).program.backward);
    framework.compiled_order = false;
    std::vector<std::string> early =
        names(make(kind, policy_of({}, preset), framework).program.backward);
    CHECK(late != early);
    std::sort(late.begin(), late.end());
    std::sort(early.begin(), early.end());
    CHECK(late == early);
  }
}

// maxtext: 3 passes forward; backward 6 with gate and up at hand, 7 after they were re-run.
TEST_CASE("Backward of the activation rebuilds the product when gate and up are kept") {
  for (const Fate fate : {Fate::keep, Fate::offload}) {
    const Made made = dense({{"mlpwi_0", fate}, {"mlpwi_1", fate}});
    CHECK(made.work("mlp activation*").kind == WorkKind::none);
    CHECK(made.work("d mlp activation").kind == WorkKind::memory);
    CHECK(made.work("d mlp activation").bytes.count() == 6 * up_bytes);
  }
}

TEST_CASE("The activation costs ten passes in all when gate and up run again") {
  for (const char* framework : {"maxtext", "pytorch"}) {
    CAPTURE(framework);
    for (const Fates& fates : {Fates{}, Fates{{"mlpwi_0", Fate::keep}}}) { // both, or one of them
      const Made made = dense(fates, framework);
      CHECK(made.work("mlp activation*").kind == WorkKind::memory);
      CHECK(made.work("mlp activation*").bytes.count() == 3 * up_bytes);
      CHECK(made.work("d mlp activation").bytes.count() == 7 * up_bytes);
    }
  }
}

// The experts of a MoE layer have their own gate and up; the shared expert has others.
// The gradient of the router's weights needs what the experts gave: unless that is kept
// as well, their down projection runs again and reads the product.
TEST_CASE("The fused activation of experts is free where gate, up and down are kept") {
  const FrameworkSpec framework = catalog_framework("maxtext");
  const LayerKind kind = layer_of(small_moe(), "moe", framework);
  Fates fates{{"moe_mlpwi_0", Fate::keep}, {"moe_mlpwi_1", Fate::keep}};
  const Made without_down = make(kind, policy_of(fates), framework);
  CHECK(without_down.work("expert activation*").kind == WorkKind::memory);
  CHECK(without_down.work("expert down*").kind == WorkKind::matmul);
  fates["moe_mlpwo"] = Fate::keep;
  const Made made = make(kind, policy_of(fates), framework);
  CHECK(made.work("expert activation*").kind == WorkKind::none);
  CHECK(made.work("shared expert activation*").kind == WorkKind::memory);
}

// b = act(a) is rebuilt by the backward of act; down reads it, and is run again where
// something after it is needed.
TEST_CASE("A fused activation that another re-run reads is not free") {
  const auto layer_with = [](bool needs_out) {
    LayerBuilder layer("small", true);
    const auto tensor = [&](const char* name) {
      return layer.tensor(name, {name}, {{"rows", 2}, {"width", 4}}, DataType::bf16);
    };
    const TensorIndex in = tensor("x");
    const TensorIndex a = tensor("a");
    const TensorIndex b = tensor("b");
    const TensorIndex c = tensor("c");
    const TensorIndex out = tensor("out");
    layer.product({"up", in, a, 2, 4, 4}, DataType::bf16);
    layer.elementwise({"act", {a}, {b}, 64.0, 96.0, {a}});
    layer.product({"down", b, c, 2, 4, 4}, DataType::bf16);
    layer.elementwise(
        {"scale", {c}, {out}, 64.0, 96.0, needs_out ? std::vector{c} : std::vector<TensorIndex>{}});
    LayerKind kind = std::move(layer).finish(in, out);
    kind.ops[1].fuses_into_backward = true;
    return kind;
  };
  const PolicySpec keeps_a = policy_of({{"a", Fate::keep}});
  CHECK(make(layer_with(false), keeps_a, compiled()).work("act*").kind == WorkKind::none);
  CHECK(make(layer_with(true), keeps_a, compiled()).work("act*").kind == WorkKind::memory);
}

// y = f(x), out = x + y, 16 bytes each. The gradient of out becomes that of x and is
// shared by y; f adds its part to it. No step takes or gives back anything but the
// re-run-free value x, which f's backward reads last.
TEST_CASE("A residual hands its gradient on without allocating") {
  LayerBuilder layer("residual", true);
  const std::vector<Axis> axes{{"rows", 2}, {"width", 4}};
  const TensorIndex in = layer.tensor("x", {"x"}, axes, DataType::bf16);
  const TensorIndex y = layer.tensor("y", {}, axes, DataType::bf16);
  const TensorIndex out = layer.tensor("out", {}, axes, DataType::bf16);
  layer.elementwise({"f", {in}, {y}, 32.0, 48.0, {in}});
  layer.elementwise({"add", {in, y}, {out}, 48.0, 0.0, {}, 0.0, true});
  for (const bool order : {false, true}) {
    FrameworkSpec framework;
    framework.compiled_order = order;
    LayerBuilder copy = layer;
    const Made made = make(std::move(copy).finish(in, out), policy_of({}), framework);
    const std::vector<ProgramStep>& steps = made.program.backward;
    REQUIRE(names(steps) == std::vector<std::string>{"d add", "d f"});
    CHECK(made.works[steps[0].work].kind == WorkKind::none);
    CHECK(memory(steps[0]).empty());
    CHECK(memory(steps[1]) == "-16 saved_activations");
  }
}

// Three terms, as with a shared expert: the first owns the gradient, the others share it.
TEST_CASE("Three terms of a sum share one gradient") {
  LayerBuilder layer("residual", true);
  const std::vector<Axis> axes{{"rows", 2}, {"width", 4}};
  const TensorIndex in = layer.tensor("x", {"x"}, axes, DataType::bf16);
  const TensorIndex y = layer.tensor("y", {}, axes, DataType::bf16);
  const TensorIndex z = layer.tensor("z", {}, axes, DataType::bf16);
  const TensorIndex out = layer.tensor("out", {}, axes, DataType::bf16);
  layer.elementwise({"f", {in}, {y}, 32.0, 48.0, {in}});
  layer.elementwise({"g", {in}, {z}, 32.0, 48.0, {in}});
  layer.elementwise({"add", {in, y, z}, {out}, 64.0, 0.0, {}, 0.0, true});
  const Made made = make(std::move(layer).finish(in, out), policy_of({}), compiled());
  const std::vector<ProgramStep>& steps = made.program.backward;
  REQUIRE(names(steps) == std::vector<std::string>{"d add", "d g", "d f"});
  CHECK(memory(steps[0]).empty());
  CHECK(memory(steps[1]).empty());
  CHECK(memory(steps[2]) == "-16 saved_activations");
}

// Of the stream's gradient a layer has one copy: the norms add to the one that came in.
TEST_CASE("A layer allocates no gradient of the residual stream") {
  const Made made = dense({});
  int seen = 0;
  for (const ProgramStep& step : made.program.backward) {
    const bool sum = step.name == "d mlp residual" || step.name == "d attention residual";
    if (sum || step.name == "d mlp norm" || step.name == "d attention norm") {
      CAPTURE(step.name);
      CHECK(step.allocate.empty());
      ++seen;
    }
  }
  CHECK(seen == 4);
}
