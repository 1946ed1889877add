// Programs of hand-made layers: which steps, in which order, and who holds what.
//
// The layer: x [2, 4] -> up -> a [2, 8] -> act -> b [2, 8] -> down -> out [2, 4],
// in bf16: x and out have 16 bytes, a and b 32. Backward of the products needs
// their inputs x and b, backward of act needs a.
#include "sim/lower/program.hpp"

#include "tests/support/program_text.hpp"
#include "workloads/layer_builder.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace spillway;

namespace {

constexpr TensorIndex x = 0;
constexpr TensorIndex a = 1;

LayerKind small_layer() {
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

// The program of the small layer with fates for some tensors.
struct Made {
  LayerKind kind = small_layer();
  std::vector<Work> works;
  LayerProgram program;
};

Made make(const std::map<std::string, Fate, std::less<>>& fates, double saved_write = 0,
          Preset preset = Preset::full) {
  Made made;
  StepTrace trace;
  trace.kinds = {made.kind};
  PolicySpec policy;
  policy.preset = preset;
  policy.tensors = fates;
  FrameworkSpec framework;
  framework.saved_write.value = saved_write;
  const Plan plan = decide(policy, trace, framework);
  made.program =
      make_program(made.kind, plan.kinds[0], HbmOwner::saved_activations, framework, made.works);
  return made;
}

// Names of the steps; "*" marks what is run again.
std::string names(const std::vector<ProgramStep>& steps) {
  std::string text;
  for (const ProgramStep& step : steps) {
    text += (text.empty() ? "" : ", ") + step.name + (step.phase == Phase::recompute ? "*" : "");
  }
  return text;
}

std::string marks(const std::vector<ProgramStep>& steps,
                  const std::array<bool, weight_group_count> ProgramStep::*flag) {
  std::string text;
  for (const ProgramStep& step : steps) {
    text += (step.*flag)[0] ? step.name + " " : "";
  }
  return text;
}

// Bytes that a whole layer, forward and backward, takes minus what it gives back.
std::int64_t net(const LayerProgram& program, HbmOwner owner) {
  std::int64_t bytes = 0;
  for (const std::vector<ProgramStep>* steps : {&program.forward, &program.backward}) {
    for (const ProgramStep& step : *steps) {
      for (const OwnerBytes& entry : step.allocate) {
        bytes += entry.owner == owner ? entry.bytes : 0;
      }
      for (const OwnerBytes& entry : step.release) {
        bytes -= entry.owner == owner ? entry.bytes : 0;
      }
    }
  }
  return bytes;
}

} // namespace

TEST_CASE("A recomputed layer keeps its input and works in passing") {
  const Made made = make({});
  const std::vector<ProgramStep>& forward = made.program.forward;
  REQUIRE(names(forward) == "up, act, down");
  CHECK(memory(forward[0]) == "+32 workspace");
  CHECK(memory(forward[1]) == "+32 workspace -32 workspace"); // b comes, a goes
  CHECK(memory(forward[2]) == "+16 saved_activations -32 workspace");
  CHECK(made.program.input_owner == HbmOwner::saved_activations);
  CHECK(made.program.offloaded.empty());
}

// Re-run just before the first step that needs it: the weight gradient of down
// needs b, which needs a, which needs x. Down itself is not run again.
TEST_CASE("Backward re-runs what it needs just before it needs it") {
  const Made made = make({});
  const std::vector<ProgramStep>& steps = made.program.backward;
  REQUIRE(names(steps) == "d down input, up*, act*, d down weight, d act, d up input, d up weight");
  CHECK(memory(steps[0]) == "+32 workspace");           // gradient of b
  CHECK(memory(steps[1]) == "+32 recompute_workspace"); // a
  CHECK(memory(steps[2]) == "+32 recompute_workspace"); // b
  // b has been read, and the gradient of out by both products.
  CHECK(memory(steps[3]) == "-32 recompute_workspace -16 workspace");
  // The gradient of a comes; a and the gradient of b go.
  CHECK(memory(steps[4]) == "+32 workspace -32 recompute_workspace -32 workspace");
  CHECK(memory(steps[5]) == "+16 workspace"); // gradient of x, the previous layer frees it
  CHECK(memory(steps[6]) == "-16 saved_activations -32 workspace");
}

TEST_CASE("Weights are used and their gradients made between first and last marks") {
  const Made made = make({});
  CHECK(marks(made.program.forward, &ProgramStep::first_use) == "up ");
  CHECK(marks(made.program.forward, &ProgramStep::last_use) == "down ");
  CHECK(marks(made.program.backward, &ProgramStep::first_use) == "d down input ");
  CHECK(marks(made.program.backward, &ProgramStep::last_use) == "d up input ");
  CHECK(marks(made.program.backward, &ProgramStep::first_gradient) == "d down weight ");
  CHECK(marks(made.program.backward, &ProgramStep::last_gradient) == "d up weight ");
  CHECK(made.program.uses_weights(false, 0));
  CHECK(made.program.uses_weights(true, 0));
  CHECK_FALSE(made.program.uses_weights(false, 1)); // no experts
}

TEST_CASE("An offloaded tensor is staged from its producer to its last reader") {
  const Made made = make({{"a", Fate::offload}});
  const std::vector<ProgramStep>& forward = made.program.forward;
  CHECK(memory(forward[0]) == "+32 offload_staging");
  CHECK(memory(forward[1]) == "+32 workspace"); // the store gives a back, not the step
  CHECK(forward[0].stores == std::vector<TensorIndex>{a});
  CHECK(forward[1].stores.empty());
  REQUIRE(made.program.offloaded.size() == 1);
  const OffloadedTensor& offloaded = made.program.offloaded[0];
  CHECK(offloaded.name == "a");
  CHECK(offloaded.bytes == 32);
  CHECK(offloaded.tensor == a);
  CHECK_FALSE(offloaded.is_input);
  CHECK(offloaded.last_forward_reader == 1); // act

  const std::vector<ProgramStep>& backward = made.program.backward;
  REQUIRE(names(backward) == "d down input, act*, d down weight, d act, d up input, d up weight");
  CHECK(backward[1].reloads == std::vector<TensorIndex>{a});
  CHECK(backward[3].reloads.empty()); // only the first reader waits
  CHECK(memory(backward[3]) == "+32 workspace -32 offload_staging -32 workspace");
}

TEST_CASE("An offloaded layer input has no producer in its own layer") {
  const Made made = make({{"x", Fate::offload}});
  CHECK(made.program.input_owner == HbmOwner::offload_staging);
  REQUIRE(made.program.offloaded.size() == 1);
  CHECK(made.program.offloaded[0].is_input);
  CHECK(made.program.offloaded[0].last_forward_reader == 0);
  for (const ProgramStep& step : made.program.forward) {
    CHECK(step.stores.empty());
  }
  // The first step of backward that reads it: `up`, run again.
  CHECK(made.program.backward[1].reloads == std::vector<TensorIndex>{x});
}

// A kept tensor is copied into the stack of all layers: read and written once.
TEST_CASE("Kept tensors are saved by a kernel where the framework copies them") {
  const Made made = make({{"b", Fate::keep}}, 2.0);
  REQUIRE(names(made.program.forward) == "save x, up, act, save b, down");
  const std::vector<ProgramStep>& forward = made.program.forward;
  CHECK(made.works[forward[0].work].bytes.count() == 32);
  CHECK(made.works[forward[3].work].bytes.count() == 64);
  CHECK(memory(forward[2]) == "+32 saved_activations -32 workspace");
  // b is there; a still has to be run again.
  CHECK(names(made.program.backward) ==
        "d down input, d down weight, up*, d act, d up input, d up weight");
}

TEST_CASE("With everything kept nothing runs again") {
  const Made made = make({}, 0, Preset::none);
  CHECK(names(made.program.backward) ==
        "d down input, d down weight, d act, d up input, d up weight");
  CHECK(net(made.program, HbmOwner::recompute_workspace) == 0);
}

// Out was made (as the next layer's input, which that layer frees) and so was the
// gradient of x; x and the gradient of out were given.
TEST_CASE("A layer frees what it was given and leaves what its neighbours free") {
  for (const Fate fate : {Fate::keep, Fate::recompute, Fate::offload}) {
    CAPTURE(fate_name(fate));
    const Made made = make({{"a", fate}, {"b", fate}});
    CHECK(net(made.program, HbmOwner::saved_activations) == 16 - 16);
    CHECK(net(made.program, HbmOwner::workspace) == 16 - 16);
    CHECK(net(made.program, HbmOwner::recompute_workspace) == 0);
    // The store gives a staged tensor back after forward; it is taken again by its
    // reload, so the program alone is balanced.
    CHECK(net(made.program, HbmOwner::offload_staging) == 0);
  }
}

// x -> dispatch (exchange) -> y -> act -> z: the kernel waits for the exchange,
// and in backward the exchange for the kernel.
TEST_CASE("Steps wait for the other lane where they read what it wrote") {
  LayerBuilder layer("exchange", true);
  const std::vector<Axis> axes{{"rows", 2}, {"width", 4}};
  const TensorIndex in = layer.tensor("x", {"x"}, axes, DataType::bf16);
  const TensorIndex y = layer.tensor("y", {}, axes, DataType::bf16, TensorRole::dispatch);
  const TensorIndex z = layer.tensor("z", {}, axes, DataType::bf16);
  layer.exchange("dispatch", in, y, {2, 1});
  layer.elementwise({"act", {y}, {z}, 32.0, 48.0, {y}});
  const LayerKind kind = std::move(layer).finish(in, z);
  StepTrace trace;
  trace.kinds = {kind};
  const FrameworkSpec framework;
  const Plan plan = decide(PolicySpec{}, trace, framework);
  std::vector<Work> works;
  const LayerProgram program =
      make_program(kind, plan.kinds[0], HbmOwner::workspace, framework, works);
  REQUIRE(names(program.forward) == "dispatch, act");
  CHECK(program.forward[0].is_collective);
  CHECK(program.forward[0].waits.empty());
  CHECK(program.forward[1].waits == std::vector<std::uint32_t>{0});
  CHECK(memory(program.forward[0]) == "+16 dispatch_buffers");
  REQUIRE(names(program.backward) == "dispatch*, d act, d dispatch");
  CHECK(program.backward[1].waits == std::vector<std::uint32_t>{0});
  CHECK(program.backward[2].waits == std::vector<std::uint32_t>{1});
}
