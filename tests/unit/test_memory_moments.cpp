// What is held, and by whom, at chosen moments of a step.
//
// One GPU, three layers of 1024 tokens: hidden 512, width 2048, 8 heads of 64 with 2 for
// keys and values, 1000 words; weights in bf16, gradients in fp32.
#include "tests/support/step.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;
using namespace spillway::testing;

namespace {

const std::string text = R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 3, hidden: 512, vocabulary: 1000,
        attention: {heads: 8, kv_heads: 2, head_dim: 64}, dense_ffn: {width: 2048}}
hardware: gb200-nvl72
gpus: 1
batch: {micro: 1, sequence: 1024}
precision: {weights: bf16, gradients: fp32, master: none, moment1: bf16, moment2: bf16}
runtime: {framework: maxtext}
policies:
  remat: {preset: full}
  none: {preset: none}
  offload: {preset: full, tensors: {query_proj: offload}}
)";

constexpr std::int32_t layers = 3; // 0 is the embedding, 4 the head
constexpr std::int32_t head = layers + 1;
constexpr std::int64_t tokens = 1024;
constexpr std::int64_t stream = tokens * 512 * 2;
constexpr std::int64_t up = tokens * 2048 * 2;
constexpr std::int64_t query = tokens * 8 * 64 * 2;
constexpr std::int64_t logits = tokens * 1000 * 2;
// Query and output projections 512 x 512, key and value 512 x 128, three of 512 x 2048,
// two norms.
constexpr std::int64_t layer_matrices =
    std::int64_t{2} * 512 * 512 + std::int64_t{2} * 512 * 128 + std::int64_t{3} * 512 * 2048;
constexpr std::int64_t layer_parameters = layer_matrices + std::int64_t{2} * 512;
constexpr std::int64_t table_parameters = std::int64_t{1000} * 512; // embedding, and head

// Bytes of an owner just after `task` has started.
std::int64_t held(const Simulation& run, HbmOwner owner, TaskId task) {
  const TaskGraph& graph = run.lowered.graph;
  const auto mine = [&](const MemoryChange& change) {
    return change.pool == run.lowered.hbm_pool[0] && change.owner == static_cast<OwnerId>(owner);
  };
  const SimTime now = run.timeline.tasks[task].start;
  std::int64_t bytes = 0;
  for (const MemoryChange& change : graph.initial) {
    bytes += mine(change) ? change.bytes : 0;
  }
  for (TaskId other = 0; other < graph.task_count(); ++other) {
    for (const MemoryChange& change : graph.allocations_of(other)) {
      bytes += mine(change) && run.timeline.tasks[other].start <= now ? change.bytes : 0;
    }
    for (const MemoryChange& change : graph.frees_of(other)) {
      bytes -= mine(change) && run.timeline.tasks[other].end <= now ? change.bytes : 0;
    }
  }
  return bytes;
}

struct Across {
  std::vector<std::int64_t> gradients, logits; // when backward of layers 3, 2, 1 begins
};

Across across_the_loop(const std::string& policy, const std::vector<std::string>& assignments) {
  const Simulation simulation = run(scenario_from(text, assignments), policy);
  const StepView view(simulation);
  Across found;
  for (std::int32_t layer = layers; layer >= 1; --layer) {
    const TaskId first = view.first_backward(layer);
    found.gradients.push_back(held(simulation, HbmOwner::gradients, first));
    found.logits.push_back(held(simulation, HbmOwner::logits_and_loss, first));
  }
  return found;
}

std::vector<std::int64_t> always(std::int64_t bytes) {
  return {bytes, bytes, bytes};
}

const std::string fill_nothing = "runtime.framework={extends: maxtext, kernels: {"
                                 "unchecked_stream: 0, unchecked_norm: 0, unchecked_activation: 0, "
                                 "unchecked_weights: 0}}";

bool has_task(const Simulation& run, const std::string& label) {
  return std::any_of(run.lowered.tasks.begin(), run.lowered.tasks.end(),
                     [&](const TaskInfo& info) { return run.lowered.labels[info.label] == label; });
}

} // namespace

// ---- the head's gradient ----

// The gradients of the loop are fp32 and there from its start; of the two that are not in
// the loop the head's is used at once. Late: the logits' gradient stays, 2 bytes each.
// Early: the embedding's table is there already, in bf16.
TEST_CASE("What is held across the backward loop for a late and an early head gradient") {
  for (const char* policy : {"remat", "none", "offload"}) {
    CAPTURE(policy);
    const std::int64_t loop = 4 * layers * layer_parameters;
    const Across late = across_the_loop(policy, {"runtime.head_gradient=late"});
    CHECK(late.logits == always(logits));
    CHECK(late.gradients == always(loop));
    const Across early = across_the_loop(policy, {"runtime.head_gradient=early"});
    CHECK(early.logits == always(0));
    CHECK(early.gradients == always(loop + 2 * table_parameters));
  }
}

TEST_CASE("An automatic head gradient follows experts, offload and rotation") {
  const auto same = [](const std::string& policy, const std::string& as,
                       const std::vector<std::string>& more = {}) {
    std::vector<std::string> explicitly = more;
    explicitly.push_back("runtime.head_gradient=" + as);
    const Across found = across_the_loop(policy, more);
    const Across expected = across_the_loop(policy, explicitly);
    return found.logits == expected.logits && found.gradients == expected.gradients;
  };
  CHECK(same("remat", "late"));
  CHECK(same("offload", "early"));
  CHECK(same("offload", "late", {"runtime.pipelined_host_offloading=false"}));
  CHECK(same("remat", "late", {"runtime.pipelined_host_offloading=false"}));
  // 4 experts of width 64, 2 of them a token; everything is the other way round.
  const std::vector<std::string> experts{"model.experts={count: 4, per_token: 2, width: 64}",
                                         "model.dense_ffn.layers=1"};
  CHECK(same("remat", "early", experts));
  CHECK(same("offload", "late", experts));
  CHECK(same("offload", "early",
             {experts[0], experts[1], "runtime.pipelined_host_offloading=false"}));
}

TEST_CASE("A loss in chunks holds no logits across the loop") {
  const Across found = across_the_loop("remat", {"runtime.loss_chunks=4"});
  CHECK(found.logits == always(0));
  CHECK(found.gradients == always(4 * layers * layer_parameters + 2 * table_parameters));
}

TEST_CASE("Without checkpoint an automatic head gradient holds nothing across the loop") {
  const Across found = across_the_loop("none", {});
  CHECK(found.logits == always(0));
  CHECK(found.gradients == always(4 * layers * layer_parameters));
}

TEST_CASE("Every micro-batch holds its own buffers across its backward loop, and no forward does") {
  const auto run_as = [](const std::string& head_gradient) {
    return run(
        scenario_from(text, {"batch.accumulation=3", "runtime.head_gradient=" + head_gradient}),
        "remat");
  };
  const Simulation late = run_as("late");
  const Simulation early = run_as("early");
  std::size_t forwards = 0;
  std::size_t backwards = 0;
  for (TaskId task = 0; task < late.lowered.tasks.size(); ++task) {
    const TaskInfo& info = late.lowered.tasks[task];
    if (info.kind != TaskKind::kernel || info.layer < 1 || info.layer > layers) {
      continue;
    }
    const bool backward = info.phase == Phase::backward || info.phase == Phase::recompute;
    const std::string& label = late.lowered.labels[info.label];
    if (label == "zero gradients") {
      continue;
    }
    CAPTURE(label);
    CHECK(held(late, HbmOwner::logits_and_loss, task) == (backward ? logits : 0));
    CHECK(held(early, HbmOwner::logits_and_loss, task) == 0);
    CHECK(held(early, HbmOwner::gradients, task) - held(late, HbmOwner::gradients, task) ==
          (backward ? 2 * table_parameters : 0));
    ++(backward ? backwards : forwards);
  }
  CHECK(forwards > 0);
  CHECK(backwards > forwards);
}

// The head's gradient of a shared table, 1000 x 512, waits for the embedding's: in bf16
// until both are used where a step uses gradients at once, else as the one fp32 gradient
// to which the embedding's is added.
TEST_CASE("The gradient of tied embeddings is held once, from the head to the embedding") {
  const auto gradients = [](bool tied, const std::string& runtime) {
    const Simulation simulation = run(
        scenario_from(text, {fmt::format("model.tied_embeddings={}", tied), "runtime." + runtime}),
        "remat");
    const StepView view(simulation);
    std::vector<std::int64_t> bytes;
    for (const std::int32_t layer : {layers, 1}) {
      bytes.push_back(held(simulation, HbmOwner::gradients, view.first_backward(layer)));
    }
    bytes.push_back(
        held(simulation, HbmOwner::gradients, view.find("optimizer", -1, Phase::optimizer)));
    return bytes;
  };
  const std::int64_t loop = 4 * layers * layer_parameters;
  CHECK(gradients(false, "head_gradient=late") == std::vector<std::int64_t>{loop, loop, loop});
  const std::int64_t both = loop + 2 * (table_parameters + 512); // and the last norm
  CHECK(gradients(true, "head_gradient=late") == std::vector<std::int64_t>{both, both, loop});
  CHECK(gradients(true, "framework=pytorch").back() == loop + 4 * (table_parameters + 512));
  CHECK(gradients(false, "framework=pytorch").back() == loop + 4 * (2 * table_parameters + 512));
}

TEST_CASE("A late logits' gradient goes with the optimizer") {
  const Simulation simulation = run(scenario_from(text, {"runtime.head_gradient=late"}), "remat");
  const StepView view(simulation);
  const TaskId optimizer = view.find("optimizer", -1, Phase::optimizer);
  CHECK(held(simulation, HbmOwner::logits_and_loss, optimizer) == logits);
  const TaskId gap = view.find("host gap between steps", -1, Phase::other);
  CHECK(held(simulation, HbmOwner::logits_and_loss, gap) == 0);
  CHECK(held(simulation, HbmOwner::gradients, gap) == 0);
}

// ---- gradients ----

// As produced: the head's before the loop, then one more layer for each that has run.
TEST_CASE("Gradients of loop layers are there at once, or one layer after the other") {
  const Across once = across_the_loop("remat", {"runtime.head_gradient=late"});
  CHECK(once.gradients == always(4 * layers * layer_parameters));
  const Across later = across_the_loop("remat", {"runtime.framework={extends: maxtext, "
                                                 "gradients_allocated_at_once: false}",
                                                 "runtime.head_gradient=late"});
  const std::int64_t first = 4 * (table_parameters + 512); // and the last norm
  const std::int64_t each = 4 * layer_parameters;
  CHECK(later.gradients == std::vector<std::int64_t>{first, first + each, first + 2 * each});
  CHECK(later.logits == always(0)); // nothing outlives its use
  const Across eager = across_the_loop("remat", {"runtime.framework=pytorch"});
  CHECK(eager.gradients == later.gradients);
}

TEST_CASE("When the optimizer starts all gradients that are not used yet are there") {
  const auto at_optimizer = [](const std::string& framework) {
    const Simulation simulation =
        run(scenario_from(text, {"runtime.framework=" + framework}), "remat");
    const StepView view(simulation);
    return held(simulation, HbmOwner::gradients, view.find("optimizer", -1, Phase::optimizer));
  };
  CHECK(at_optimizer("maxtext") == 4 * layers * layer_parameters);
  CHECK(at_optimizer("pytorch") == 4 * (layers * layer_parameters + 2 * table_parameters + 512));
}

// ---- without checkpoint ----

// Per layer five residual streams and three ups, beside what backward reads. At the head all layers
// have it; a layer's is a part of a stack and stays until the layer is done.
TEST_CASE("Without checkpoint a compiled loop keeps more than backward reads") {
  const std::int64_t each = 5 * stream + 3 * up;
  const Simulation more = run(scenario_from(text), "none");
  const Simulation plain = run(scenario_from(text, {fill_nothing}), "none");
  const StepView a(more);
  const StepView b(plain);
  const auto saved = [](const Simulation& simulation, TaskId task) {
    return held(simulation, HbmOwner::saved_activations, task);
  };
  CHECK(saved(more, a.first_forward(head)) - saved(plain, b.first_forward(head)) == 3 * each);
  CHECK(saved(more, a.first_forward(2)) - saved(plain, b.first_forward(2)) == each);
  for (std::int32_t layer = layers; layer >= 1; --layer) {
    CAPTURE(layer);
    const std::vector<TaskId> kernels = a.kernels(layer, true);
    REQUIRE(a.label(kernels[0]) == "read residuals");
    const TaskId same = b.first_backward(layer);
    CHECK(saved(more, kernels[0]) - saved(plain, same) == layer * each);
    CHECK(saved(more, kernels.back()) - saved(plain, b.kernels(layer, true).back()) ==
          layer * each);
  }
}

TEST_CASE("With a checkpoint, or where autograd decides, nothing more is kept") {
  CHECK_FALSE(has_task(run(scenario_from(text), "remat"), "save residuals"));
  CHECK_FALSE(has_task(run(scenario_from(text), "offload"), "save residuals"));
  const Simulation eager = run(scenario_from(text, {"runtime.framework=pytorch"}), "none");
  CHECK_FALSE(has_task(eager, "save residuals"));
  CHECK_FALSE(has_task(eager, "read residuals"));
  const Simulation plain = run(scenario_from(text, {fill_nothing}), "none");
  const auto at_head = [](const Simulation& simulation) {
    return held(simulation, HbmOwner::saved_activations, StepView(simulation).first_forward(head));
  };
  CHECK(at_head(eager) == at_head(plain));
}

// ---- staging ----

// A rotated loop has one buffer per offloaded tensor, and the last layer's stays in it
// while the head runs; where a store ends inside its layer there is none.
TEST_CASE("The last layer's staging is held across the head by a rotated loop") {
  const auto across_head = [](const std::vector<std::string>& assignments) {
    const Simulation simulation = run(scenario_from(text, assignments), "offload");
    const StepView view(simulation);
    std::vector<std::int64_t> bytes;
    for (const bool backward : {false, true}) {
      for (const TaskId task : view.kernels(head, backward)) {
        if (view.label(task) != "zero gradients") { // already at the top of the loop
          bytes.push_back(held(simulation, HbmOwner::offload_staging, task));
        }
      }
    }
    REQUIRE(bytes.size() > 4);
    CHECK(std::count(bytes.begin(), bytes.end(), bytes.front()) ==
          static_cast<std::ptrdiff_t>(bytes.size()));
    return bytes.front();
  };
  CHECK(across_head({}) == query);
  CHECK(across_head({"runtime.command_buffers=true"}) == query); // serialized, rotated
  CHECK(across_head({"runtime.pipelined_host_offloading=false"}) == 0);
}

// ---- one layer's weights and gradients ----

// Weights in fp32 are cast for use: a matrix is there from its first user to its last. The
// down projection's is done after the gradient of its input, gate's and up's stay from
// their re-run on, and gradients go into the stack one by one.
TEST_CASE("A whole layer's casts and gradients come and go matrix by matrix") {
  const Simulation simulation = run(scenario_from(text, {"precision.weights=fp32"}), "remat");
  const StepView view(simulation);
  const auto weights = [&](const char* label, Phase phase) {
    return held(simulation, HbmOwner::gathered_weights, view.find(label, 2, phase));
  };
  constexpr std::int64_t square = std::int64_t{512} * 512 * 2;
  constexpr std::int64_t narrow = std::int64_t{512} * 128 * 2;
  constexpr std::int64_t wide = std::int64_t{512} * 2048 * 2;
  CHECK(weights("query_proj", Phase::forward) == square);
  CHECK(weights("attention", Phase::forward) == 0);
  CHECK(weights("mlp down", Phase::forward) == wide);
  // What is re-run is needed again for the gradients of the inputs.
  constexpr std::int64_t attention_block = 2 * square + 2 * narrow;
  CHECK(weights("mlp up", Phase::recompute) == attention_block + 2 * wide);
  CHECK(weights("d mlp down input", Phase::backward) == attention_block + 3 * wide);
  CHECK(weights("d mlp activation", Phase::backward) == attention_block + 2 * wide);
  CHECK(weights("d attention", Phase::backward) == square + 2 * narrow);
  CHECK(weights("d mlp down weight", Phase::backward) == 0);
  const auto gradients = [&](const char* label) {
    return held(simulation, HbmOwner::gradients, view.find(label, 2, Phase::backward)) -
           held(simulation, HbmOwner::gradients, view.first_backward(2));
  };
  CHECK(gradients("d mlp down weight") == wide);
  CHECK(gradients("d query_proj weight") == square);
  CHECK(gradients("d attention") == 0);
}

// Elsewhere a layer's casts are made at its top and dropped together.
TEST_CASE("An eager framework's casts come and go with their layer") {
  const Simulation simulation =
      run(scenario_from(text, {"precision.weights=fp32", "runtime.framework=pytorch"}), "remat");
  const StepView view(simulation);
  for (const char* label : {"query_proj", "attention", "mlp down"}) {
    CHECK(held(simulation, HbmOwner::gathered_weights, view.find(label, 2, Phase::forward)) ==
          2 * layer_parameters);
  }
}

// Without checkpoint the copies that forward kept are all taken out of their stacks when
// the layer begins, and go one by one.
TEST_CASE("A layer without checkpoint takes out all of its weights at its top") {
  const Simulation simulation = run(scenario_from(text, {"precision.weights=fp32"}), "none");
  const StepView view(simulation);
  CHECK(held(simulation, HbmOwner::gathered_weights,
             view.find("d mlp down input", 2, Phase::backward)) == 2 * layer_matrices);
  CHECK(held(simulation, HbmOwner::gathered_weights,
             view.find("d mlp activation", 2, Phase::backward)) ==
        2 * layer_matrices - std::int64_t{512} * 2048 * 2);
  // They are not cast again, unlike those of a checkpointed layer.
  const auto casts = [&](const char* policy) {
    const Simulation other = run(scenario_from(text, {"precision.weights=fp32"}), policy);
    return std::count_if(other.lowered.tasks.begin(), other.lowered.tasks.end(),
                         [&](const TaskInfo& info) {
                           return info.phase == Phase::backward &&
                                  other.lowered.labels[info.label] == "cast weights";
                         });
  };
  CHECK(casts("none") == 0);
  CHECK(casts("remat") == layers);
}

// Where nothing is cast, nothing is kept of it.
TEST_CASE("Weights in the compute precision leave no copies behind") {
  const auto saved = [](const std::string& weights) {
    const Simulation simulation =
        run(scenario_from(text, {"precision.weights=" + weights}), "none");
    return held(simulation, HbmOwner::saved_activations, StepView(simulation).first_forward(head));
  };
  CHECK(saved("fp32") - saved("bf16") == layers * 2 * layer_parameters);
}

// A kept tensor is a part of a stack and stays until its layer is done. Attention and
// products read a copy of it, from the top of the layer to the last of them; kernels that
// the compiler writes read it in place.
TEST_CASE("Library calls read copies of kept tensors, which stay in their stacks") {
  const auto at = [](const std::string& tensor, HbmOwner owner, const char* label) {
    const std::string policy = "policies.kept={preset: full, tensors: {" + tensor + ": keep}}";
    const Simulation kept = run(scenario_from(text, {policy}), "kept");
    const Simulation plain = run(scenario_from(text), "remat");
    const auto bytes = [&](const Simulation& simulation) {
      return held(simulation, owner, StepView(simulation).find(label, 2, Phase::backward));
    };
    return bytes(kept) - bytes(plain);
  };
  CHECK(at("query_proj", HbmOwner::workspace, "d mlp activation") == query);
  CHECK(at("query_proj", HbmOwner::workspace, "d attention") == query);
  CHECK(at("query_proj", HbmOwner::workspace, "d query_proj weight") == 0);
  CHECK(at("mlpwi_0", HbmOwner::workspace, "d mlp activation") == 0);
  // Layers 1 and 2 are still there, the first one to the end of its backward.
  CHECK(at("query_proj", HbmOwner::saved_activations, "d attention") == 2 * query);
  CHECK(at("query_proj", HbmOwner::saved_activations, "d query_proj weight") == 2 * query);
}
