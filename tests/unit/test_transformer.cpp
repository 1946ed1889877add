#include "tests/support/traces.hpp"
#include "workloads/model_counts.hpp"
#include "workloads/transformer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace spillway;

namespace {

struct Case {
  std::string label;
  ModelSpec model;
  ParallelPlan plan;
  BatchSpec batch;
  StepTrace trace;
};

// All models of the catalogue and the two above, each in several splits and batches.
std::vector<Case> all_cases() {
  std::vector<ModelSpec> models{small_dense(), small_moe()};
  for (const std::string& name : Catalog({"."}).names(CatalogKind::model)) {
    models.push_back(catalog_model(name));
  }
  std::vector<Case> cases;
  for (const ModelSpec& model : models) {
    for (const std::string framework : {"maxtext", "pytorch"}) {
      for (const std::int64_t expert : {1, 4, 8}) {
        if (model.experts == 0 && expert > 1) {
          continue;
        }
        const ParallelPlan plan{8 * expert, 8, expert};
        const BatchSpec batch{2, expert == 4 ? 3 : 1, 1024, expert == 8 ? 4 : 1};
        cases.push_back({model.name + ", " + framework + ", expert " + std::to_string(expert),
                         model, plan, batch, build(model, plan, batch, framework)});
      }
    }
  }
  return cases;
}

bool contains(const std::vector<TensorIndex>& list, TensorIndex tensor) {
  return std::find(list.begin(), list.end(), tensor) != list.end();
}

std::vector<const BackwardOp*> backward_of(const LayerKind& kind, OpIndex op) {
  std::vector<const BackwardOp*> found;
  for (const BackwardOp& backward : kind.backward) {
    if (backward.forward == op) {
      found.push_back(&backward);
    }
  }
  return found;
}

void check_forward(const LayerKind& kind) {
  std::vector<bool> written(kind.tensors.size(), false);
  written[kind.input] = true;
  for (OpIndex op = 0; op < kind.ops.size(); ++op) {
    CAPTURE(kind.ops[op].name);
    for (const TensorIndex tensor : kind.ops[op].reads) {
      CAPTURE(kind.tensors[tensor].name);
      CHECK(written[tensor]);
    }
    for (const TensorIndex tensor : kind.ops[op].writes) {
      CAPTURE(kind.tensors[tensor].name);
      CHECK_FALSE(written[tensor]);
      CHECK(kind.tensors[tensor].producer == op);
      written[tensor] = true;
    }
  }
  CHECK(written[kind.output]);
  CHECK(std::count(written.begin(), written.end(), false) == 0);
}

// Backward goes through the operations from the last to the first; it reads values and
// gradients of its own operation only, and gradients only after they were written.
void check_backward(const LayerKind& kind) {
  std::vector<bool> gradient(kind.tensors.size(), false);
  gradient[kind.output] = true; // comes from the next layer
  OpIndex last = static_cast<OpIndex>(kind.ops.size()) - 1;
  for (const BackwardOp& backward : kind.backward) {
    CAPTURE(backward.name);
    REQUIRE(backward.forward < kind.ops.size());
    CHECK(backward.forward <= last);
    last = backward.forward;
    const Op& op = kind.ops[backward.forward];
    for (const TensorIndex tensor : backward.needs) {
      CHECK((contains(op.reads, tensor) || contains(op.writes, tensor)));
    }
    for (const TensorIndex tensor : backward.gradients_read) {
      CAPTURE(kind.tensors[tensor].name);
      CHECK(contains(op.writes, tensor));
      CHECK(gradient[tensor]);
    }
    for (const TensorIndex tensor : backward.gradients_written) {
      CHECK(contains(op.reads, tensor));
      gradient[tensor] = true;
    }
  }
  for (OpIndex op = 0; op < kind.ops.size(); ++op) {
    CAPTURE(kind.ops[op].name);
    CHECK_FALSE(backward_of(kind, op).empty());
  }
  CHECK(gradient[kind.input] == (kind.name != "embedding")); // tokens have no gradient
}

void check_weights(const LayerKind& kind) {
  for (OpIndex index = 0; index < kind.ops.size(); ++index) {
    const Op& op = kind.ops[index];
    CAPTURE(op.name);
    const std::vector<const BackwardOp*> backward = backward_of(kind, index);
    if (op.weights == WeightGroup::none) {
      CHECK(op.work.kind != WorkKind::matmul);
      for (const BackwardOp* b : backward) {
        CHECK(b->weights == WeightGroup::none);
        CHECK(b->weight_gradient == WeightGroup::none);
      }
      continue;
    }
    if (kind.name == "embedding") { // a look-up: its gradient is added to the rows of the table
      REQUIRE(backward.size() == 1);
      CHECK(backward[0]->weight_gradient == op.weights);
      CHECK(backward[0]->weights == WeightGroup::none);
      CHECK(op.work.flops().value() == 0);
      continue;
    }
    REQUIRE(backward.size() >= 2);
    if (backward.size() > 2) { // of a bias: a sum over the rows
      REQUIRE(backward.size() == 3);
      CHECK(backward[1]->work.bytes == kind.tensors[op.writes[0]].bytes);
      CHECK(backward[1]->gradients_read == op.writes);
    }
    const BackwardOp& to_input = *backward[0];
    const BackwardOp& to_weight = *backward.back();
    CHECK(op.work.flops().value() > 0);
    CHECK(to_input.work.stage == Stage::dgrad);
    CHECK(to_input.work.flops() == op.work.flops());
    CHECK(to_input.weights == op.weights);
    CHECK(to_input.weight_gradient == WeightGroup::none);
    CHECK(to_input.needs.empty());
    CHECK(to_input.gradients_written == op.reads);
    CHECK(to_weight.work.stage == Stage::wgrad);
    CHECK(to_weight.work.flops() == op.work.flops());
    CHECK(to_weight.weights == WeightGroup::none);
    CHECK(to_weight.weight_gradient == op.weights);
    CHECK(to_weight.needs == op.reads);
    CHECK(to_weight.gradients_written.empty());
  }
}

double flops_of(const LayerKind& kind) {
  double flops = 0;
  for (const Op& op : kind.ops) {
    flops += op.work.flops().value();
  }
  for (const BackwardOp& op : kind.backward) {
    flops += op.work.flops().value();
  }
  return flops;
}

} // namespace

TEST_CASE("Every tensor is written once, before it is read, or is the layer's input") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.label);
    for (const LayerKind& kind : c.trace.kinds) {
      CAPTURE(kind.name);
      check_forward(kind);
    }
  }
}

TEST_CASE("Backward reverses the operations and reads only what they and it have written") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.label);
    for (const LayerKind& kind : c.trace.kinds) {
      CAPTURE(kind.name);
      check_backward(kind);
    }
  }
}

TEST_CASE("Every product with weights has two backward products of the same FLOPs") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.label);
    for (const LayerKind& kind : c.trace.kinds) {
      CAPTURE(kind.name);
      check_weights(kind);
    }
  }
}

// Model FLOPs count backward as twice forward everywhere. The trace does the same for
// products with weights, all of which have both gradients, the head included; the
// embedding has no FLOPs in either count. Attention's backward rebuilds the scores: five
// products for two, 2.5 times forward. So the trace has half a forward attention more
// than the model, a sixth of the model's attention FLOPs.
TEST_CASE("FLOPs of the trace are the model's plus the scores rebuilt in attention's backward") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.label);
    double traced = 0;
    for (const LayerBlock& block : c.trace.blocks) {
      for (std::int64_t layer = 0; layer < block.layers; ++layer) {
        traced += flops_of(c.trace.kinds[block.kind_of(layer)]);
      }
    }
    traced *= static_cast<double>(c.trace.micro_batches);
    const double rebuilt = flops_per_token(c.model, c.batch.sequence).attention.value() / 6 *
                           static_cast<double>(c.batch.micro * c.batch.sequence) *
                           static_cast<double>(c.batch.accumulation);
    CHECK(rebuilt > 1e-4 * traced); // else the comparison would not see it
    CHECK(traced == doctest::Approx(c.trace.model_flops.value() + rebuilt).epsilon(1e-12));
  }
}

TEST_CASE("Model FLOPs of a step are those per token times its tokens") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.label);
    const std::int64_t tokens = c.batch.micro * c.batch.sequence;
    CHECK(c.trace.tokens == tokens);
    CHECK(c.trace.micro_batches == c.batch.accumulation);
    CHECK(c.trace.model_flops.value() ==
          doctest::Approx(flops_per_token(c.model, c.batch.sequence).total().value() *
                          static_cast<double>(tokens * c.batch.accumulation))
              .epsilon(1e-12));
  }
}

// FSDP spreads shared weights over all GPUs; experts are on `expert` times fewer GPUs
// each, of which FSDP spreads them over `fsdp`. Together both cover all GPUs once.
TEST_CASE("Sharded parameters add up to the model's over all GPUs") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.label);
    CHECK((c.trace.sharded_parameters[0] + c.trace.sharded_parameters[1]) *
              static_cast<double>(c.plan.gpus) ==
          doctest::Approx(static_cast<double>(count_parameters(c.model).total)).epsilon(1e-12));
    CHECK(c.trace.shard_group[0].size == c.plan.gpus);
    CHECK(c.trace.shard_group[0].stride == 1);
    CHECK(c.trace.shard_group[1].size == c.plan.fsdp);
    CHECK(c.trace.shard_group[1].stride == c.plan.expert);
  }
}

// 2 x 4 GPUs: 3 64 40 = 7680 parameters per expert, 16 experts, 2 MoE layers.
TEST_CASE("Expert parameters are held by their expert-parallel rank and sharded over FSDP") {
  const StepTrace trace = build(small_moe(), {8, 2, 4}, {1, 1, 64, 1});
  CHECK(named(trace.kinds, "moe").parameters[1] == 7680 * 16 / 4);
  CHECK(named(trace.kinds, "dense").parameters[1] == 0);
  CHECK(trace.sharded_parameters[1] == 2 * 7680 * 16 / 4 / 2);
}

TEST_CASE("Blocks are embedding, dense layers, MoE layers and head, as many as there are") {
  const auto blocks = [](const ModelSpec& model) {
    std::string text;
    const StepTrace trace = build(model, {1, 1, 1}, {1, 1, 64, 1});
    for (const LayerBlock& block : trace.blocks) {
      text += trace.kinds[block.kinds.front()].name + " " + std::to_string(block.layers) +
              (trace.kinds[block.kinds.front()].checkpointed ? " checkpointed; " : "; ");
    }
    return text;
  };
  CHECK(blocks(small_dense()) == "embedding 1; dense 2 checkpointed; head 1; ");
  CHECK(blocks(small_moe()) == "embedding 1; dense 1 checkpointed; moe 2 checkpointed; head 1; ");
  ModelSpec all_moe = small_moe();
  all_moe.dense_layers = 0;
  CHECK(blocks(all_moe) == "embedding 1; moe 3 checkpointed; head 1; ");
}

// 2 x 64 tokens x 4 rows x 64 wide x 2 bytes = 65536 bytes.
TEST_CASE("Expert-parallel ranks exchange their routed rows twice, each way") {
  const StepTrace trace = build(small_moe(), {8, 2, 4}, {2, 1, 64, 1});
  const LayerKind& moe = named(trace.kinds, "moe");
  std::vector<std::string> exchanges;
  const auto note = [&](const std::string& name, const Work& work) {
    if (work.is_collective()) {
      exchanges.push_back(name);
      CHECK(work.kind == WorkKind::all_to_all);
      CHECK(work.bytes.count() == 65536);
      CHECK(work.group.size == 4);
      CHECK(work.group.stride == 1);
    }
  };
  for (const Op& op : moe.ops) {
    note(op.name, op.work);
  }
  for (const BackwardOp& op : moe.backward) {
    note(op.name, op.work);
  }
  CHECK(exchanges == std::vector<std::string>{"dispatch", "combine", "d combine", "d dispatch"});
}

TEST_CASE("Without expert parallelism nothing is exchanged, sorted or sent back") {
  for (const Case& c : all_cases()) {
    if (c.plan.expert > 1) {
      continue;
    }
    CAPTURE(c.label);
    for (const LayerKind& kind : c.trace.kinds) {
      for (const Op& op : kind.ops) {
        CAPTURE(op.name);
        CHECK_FALSE(op.work.is_collective());
        for (const char* name : {"dispatch", "sort by expert", "unsort", "combine"}) {
          CHECK(op.name != name);
        }
      }
    }
  }
}

// 2 x 64 tokens, 4 rows each: 512 rows over 16 experts are 32 per expert.
TEST_CASE("Expert products have the rows of one expert in each of the local groups") {
  for (const std::int64_t expert : {1, 4}) {
    CAPTURE(expert);
    const StepTrace trace = build(small_moe(), {2 * expert, 2, expert}, {2, 1, 64, 1});
    const LayerKind& moe = named(trace.kinds, "moe");
    const Work& gate = named(moe.ops, "expert gate").work;
    CHECK(gate.groups == 16 / expert);
    CHECK(gate.m == 32 * expert);
    CHECK(gate.n == 40);
    CHECK(gate.k == 64);
    const Work& down = named(moe.ops, "expert down").work;
    CHECK(down.groups == 16 / expert);
    CHECK(down.n == 64);
    CHECK(down.k == 40);
    CHECK(shape_text(named(moe.tensors, "expert gate")) == "[512, 40]");
    CHECK(shape_text(named(moe.tensors, "query_proj")) == "[2, 64, 8, 16]");
  }
}

// [m, n] x [n, k] and [n, m] x [m, k] beside the forward [m, k] x [k, n].
TEST_CASE("Backward products have the sizes of the transposed forward") {
  const StepTrace trace = build(small_dense(), {1, 1, 1}, {2, 1, 64, 1});
  const LayerKind& dense = named(trace.kinds, "dense");
  const Work& forward = named(dense.ops, "mlp gate").work;
  const Work& to_input = named(dense.backward, "d mlp gate input").work;
  const Work& to_weight = named(dense.backward, "d mlp gate weight").work;
  const auto sizes = [](const Work& work) {
    return std::vector<std::int64_t>{work.groups, work.m, work.n, work.k};
  };
  CHECK(sizes(forward) == std::vector<std::int64_t>{1, 128, 128, 64});
  CHECK(sizes(to_input) == std::vector<std::int64_t>{1, 128, 64, 128});
  CHECK(sizes(to_weight) == std::vector<std::int64_t>{1, 128, 64, 128});
  const Work& out = named(dense.backward, "d key_proj weight").work; // forward 128 x 32 x 64
  CHECK(sizes(out) == std::vector<std::int64_t>{1, 32, 64, 128});
}

// 128 tokens x 100 words = 12800 logits in 4 parts: 3200 at 2 bytes, gradients at 4.
TEST_CASE("Only one part of the logits is alive when the loss works in parts") {
  FrameworkSpec framework = catalog_framework("maxtext");
  framework.logit_bytes.value = 2;
  framework.logit_gradient_bytes.value = 4;
  framework.loss_forward.value = 5;
  framework.loss_backward.value = 11;
  const StepTrace trace =
      build_trace(small_dense(), {1, 1, 1}, {2, 1, 64, 4}, framework, DataType::bf16);
  const Tensor& logits = named(named(trace.kinds, "head").tensors, "logits");
  CHECK(logits.role == TensorRole::logits);
  CHECK(logits.bytes.count() == 6400);
  CHECK(logits.gradient_bytes.count() == 12800);
  // The kernel's traffic is the same in parts: 5 and 11 bytes per logit.
  const LayerKind& head = named(trace.kinds, "head");
  CHECK(named(head.ops, "loss").work.bytes.count() == 64000);
  CHECK(named(head.backward, "d loss").work.bytes.count() == 140800);
}

// One fp32 number per token and head: 2 x 8 x 64 x 4 bytes.
TEST_CASE("Softmax statistics are saved with the context only where the framework does so") {
  for (const std::string framework : {"maxtext", "pytorch"}) {
    const StepTrace trace = build(small_dense(), {1, 1, 1}, {2, 1, 64, 1}, framework);
    const Tensor& statistics = named(named(trace.kinds, "dense").tensors, "softmax statistics");
    CHECK(statistics.bytes.count() == 4096);
    CHECK(statistics.gradient_bytes.count() == 0);
    CHECK(statistics.policy_names == (framework == "pytorch" ? std::vector<std::string>{"context"}
                                                             : std::vector<std::string>{}));
  }
}

// Query 8 x 16, key 2 x 16 wide, 128 tokens of 2 bytes: 32768 and 8192 bytes per pass;
// norms pass twice forward and nine times backward, the rotation three times each way here.
TEST_CASE("Norms of query and key are kernels of their own, before the rotation") {
  ModelSpec model = small_dense();
  model.attention.qk_norm = true;
  FrameworkSpec framework = catalog_framework("maxtext");
  framework.norm_forward.value = 2;
  framework.norm_backward.value = 9;
  framework.rotary.value = 3;
  const StepTrace trace = build_trace(model, {1, 1, 1}, {2, 1, 64, 1}, framework, DataType::bf16);
  const LayerKind& dense = named(trace.kinds, "dense");
  CHECK(index_of(dense.ops, "query_proj norm") == index_of(dense.ops, "query_proj rotary") - 1);
  CHECK(named(dense.ops, "query_proj norm").work.bytes.count() == 2 * 32768);
  CHECK(named(dense.backward, "d query_proj norm").work.bytes.count() == 9 * 32768);
  CHECK(named(dense.ops, "key_proj norm").work.bytes.count() == 2 * 8192);
  CHECK(named(dense.ops, "key_proj rotary").work.bytes.count() == 3 * 8192);
  CHECK(named(dense.backward, "d key_proj rotary").work.bytes.count() == 3 * 8192);
  CHECK(named(dense.tensors, "query_proj").policy_names == std::vector<std::string>{"query_proj"});
  for (const char* unnamed : {"query_proj product", "query_proj norm", "key_proj norm"}) {
    CHECK(named(dense.tensors, unnamed).policy_names.empty());
  }
  std::set<std::string> names;
  for (const Op& op : dense.ops) {
    CHECK_MESSAGE(names.insert(op.name).second, op.name);
  }
  CHECK(names.count("value_proj norm") == 0);
}

// A micro-batch of 128 tokens has gate and up of 128 x 128 x 2 = 32768 bytes.
TEST_CASE("The activation's backward rebuilds the product, and costs more after a re-run") {
  FrameworkSpec framework = catalog_framework("maxtext");
  framework.activation_forward.value = 3;
  framework.activation_backward.value = 6;
  framework.activation_backward_rerun.value = 7;
  const StepTrace trace =
      build_trace(small_dense(), {1, 1, 1}, {2, 1, 64, 1}, framework, DataType::bf16);
  const LayerKind& dense = named(trace.kinds, "dense");
  CHECK(named(dense.ops, "mlp activation").work.bytes.count() == 3 * 32768);
  CHECK(named(dense.backward, "d mlp activation").work.bytes.count() == 6 * 32768);
  CHECK(named(dense.backward, "d mlp activation").work_after_rerun.bytes.count() == 7 * 32768);
  for (const BackwardOp& backward : dense.backward) {
    CAPTURE(backward.name);
    const Op& op = dense.ops[backward.forward];
    CHECK(op.fuses_into_backward == (op.name == "mlp activation"));
    CHECK((backward.work.bytes == backward.work_after_rerun.bytes) == !op.fuses_into_backward);
    CHECK(backward.work.kind == backward.work_after_rerun.kind);
    // A sum hands its gradient on; everything else computes.
    CHECK(backward.passes_gradient == (op.name.find("residual") != std::string::npos));
    CHECK(backward.passes_gradient == (backward.work.kind == WorkKind::none));
  }
}

// Rows of 2 bytes an element for each of 96 tokens and its experts: the forward scatters the
// results, the backward of the gather scatters the gradients of the rows.
TEST_CASE("Where rows are added in place, forward and backward both pay for it") {
  const auto bytes = [](double scatter_add, bool backward) {
    FrameworkSpec framework = catalog_framework("jax-scan");
    framework.scatter_add.value = scatter_add;
    BatchSpec batch;
    batch.micro = 3;
    batch.sequence = 32;
    const LayerKind kind =
        named(build_trace(small_moe(), {}, batch, framework, DataType::bf16).kinds, "moe");
    std::int64_t sum = 0;
    for (const Op& op : kind.ops) {
      sum += backward ? 0 : op.work.bytes.count();
    }
    for (const BackwardOp& op : kind.backward) {
      sum += backward ? op.work.bytes.count() : 0;
    }
    return sum;
  };
  const std::int64_t rows = 96 * small_moe().experts_per_token * small_moe().hidden * 2;
  CHECK(bytes(10, false) - bytes(0, false) == 10 * rows);
  CHECK(bytes(10, true) - bytes(0, true) == 10 * rows);
}
