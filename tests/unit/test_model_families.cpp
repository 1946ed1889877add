// What tells one family of models from another, in the trace of a layer.
#include "tests/support/traces.hpp"
#include "workloads/model_counts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;

// Five windowed layers, then a full one; seven layers end with a windowed one.
TEST_CASE("Windowed and full layers take turns in one loop") {
  ModelSpec model = small_dense();
  model.layers = model.dense_layers = 7;
  model.attention.window = 16;
  model.attention.full_every = 6;
  const StepTrace trace = build(model, {1, 1, 1}, {1, 1, 64, 1});
  REQUIRE(trace.blocks.size() == 3);
  const LayerBlock& loop = trace.blocks[1];
  CHECK(loop.layers == 7);
  std::string turns;
  for (std::int64_t layer = 0; layer < loop.layers; ++layer) {
    const LayerKind& kind = trace.kinds[loop.kind_of(layer)];
    CHECK(kind.name == "dense");
    const Work& work = named(kind.ops, "attention").work;
    CHECK(work.window == (kind.windowed ? 16 : 0));
    turns += kind.windowed ? 'w' : 'f';
  }
  CHECK(turns == "wwwwwfw");
  // 8 heads of 16 + 16: of 64 tokens 16 64 - 16 16 / 2 = 896 pairs, where all are 2048.
  const auto flops = [&](std::int64_t layer) {
    return named(trace.kinds[loop.kind_of(layer)].ops, "attention").work.flops().value();
  };
  CHECK(flops(0) == 2 * 896 * 8 * 32);
  CHECK(flops(5) == 2 * 2048 * 8 * 32);
}

TEST_CASE("A window as long as the sequence, or longer, hides nothing") {
  ModelSpec model = small_dense();
  for (const std::int64_t window : {64, 100}) {
    model.attention.window = window;
    CHECK(flops_per_token(model, 64).total() == flops_per_token(small_dense(), 64).total());
    const StepTrace trace = build(model, {1, 1, 1}, {1, 1, 64, 1});
    CHECK(named(trace.kinds, "dense").windowed);
    CHECK(named(named(trace.kinds, "dense").ops, "attention").work.flops().value() ==
          2 * 2048 * 8 * 32);
  }
}

TEST_CASE("A plain feed-forward block has one matrix and one pass over HBM less") {
  ModelSpec model = small_dense();
  model.dense.gated = false;
  const LayerKind gated = named(build(small_dense(), {1, 1, 1}, {1, 1, 64, 1}).kinds, "dense");
  const LayerKind plain = named(build(model, {1, 1, 1}, {1, 1, 64, 1}).kinds, "dense");
  CHECK(gated.parameters[0] - plain.parameters[0] == 64 * 128);
  const auto up = static_cast<std::int64_t>(64 * 128 * 2); // bytes
  const auto passes = [&](const LayerKind& kind) {
    return named(kind.ops, "mlp activation").work.bytes.count() / up;
  };
  CHECK(passes(gated) == 3); // two read, one written
  CHECK(passes(plain) == 2);
  CHECK(named(gated.backward, "d mlp activation").work.bytes.count() == 6 * up);
  CHECK(named(plain.backward, "d mlp activation").work.bytes.count() == 4 * up);
  CHECK(named(plain.tensors, "mlp up").policy_names == std::vector<std::string>{"mlpwi"});
}

// 64 tokens: gate, up and product are 128 wide, the stream 64; 2 bytes each.
TEST_CASE("What a layer without checkpoint copies is gate, up and product, and norm inputs") {
  const auto bytes_of_layer = [](const ModelSpec& model) {
    const LayerKind kind = named(build(model, {1, 1, 1}, {1, 1, 64, 1}).kinds, "dense");
    return std::pair(kind.inner_bytes.count() / (64 * 128 * 2),
                     kind.normed_bytes.count() / (64 * 64 * 2));
  };
  ModelSpec model = small_dense();
  CHECK(bytes_of_layer(model) == std::pair<std::int64_t, std::int64_t>{3, 2});
  model.dense.gated = false;
  model.post_norms = true;
  CHECK(bytes_of_layer(model) == std::pair<std::int64_t, std::int64_t>{2, 4});
}

TEST_CASE("A bias of the router that is not trained has no gradient") {
  const auto has_gradient = [](bool trained) {
    ModelSpec model = small_moe();
    model.router_bias = true;
    model.router_bias_trained = trained;
    const LayerKind kind = named(build(model, {1, 1, 1}, {1, 1, 64, 1}).kinds, "moe");
    return std::any_of(kind.backward.begin(), kind.backward.end(),
                       [](const BackwardOp& op) { return op.name == "d router bias"; });
  };
  CHECK(has_gradient(true));
  CHECK_FALSE(has_gradient(false));
}

TEST_CASE("Only rotary models rotate query and key, and learned positions are a table") {
  ModelSpec model = small_dense();
  const auto rotates = [](const StepTrace& trace) {
    const std::vector<Op>& ops = named(trace.kinds, "dense").ops;
    return std::any_of(ops.begin(), ops.end(),
                       [](const Op& op) { return op.name == "query_proj rotary"; });
  };
  CHECK(rotates(build(model, {1, 1, 1}, {1, 1, 64, 1})));
  model.position_kind = PositionKind::learned;
  model.positions = 64;
  const StepTrace trace = build(model, {1, 1, 1}, {1, 1, 64, 1});
  CHECK_FALSE(rotates(trace));
  CHECK(named(trace.kinds, "embedding").parameters[0] == (100 + 64) * 64);
}

// The head multiplies with the table, which is held and counted once.
TEST_CASE("Tied embeddings are held once and gathered twice") {
  ModelSpec model = small_dense();
  model.tied_embeddings = true;
  const StepTrace tied = build(model, {4, 4, 1}, {1, 1, 64, 1});
  const StepTrace untied = build(small_dense(), {4, 4, 1}, {1, 1, 64, 1});
  CHECK(untied.sharded_parameters[0] - tied.sharded_parameters[0] == 100 * 64 / 4);
  CHECK(named(tied.kinds, "head").parameters == named(untied.kinds, "head").parameters);
  CHECK(named(tied.kinds, "head").tied_parameters == 100 * 64);
}
