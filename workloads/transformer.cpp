#include "workloads/transformer.hpp"

#include "workloads/layer_parts.hpp"
#include "workloads/model_counts.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace spillway {
namespace {

LayerKind decoder_layer(const Shape& s, bool moe, bool windowed) {
  LayerBuilder layer(moe ? "moe" : "dense", true);
  layer.windowed(windowed);
  const TensorIndex input = layer.tensor("decoder_layer_input", {"decoder_layer_input"},
                                         s.per_token("hidden", s.model.hidden), s.type);
  const TensorIndex middle = add_attention(layer, s, input, windowed);
  const TensorIndex output =
      moe ? add_moe_block(layer, s, middle) : add_dense_block(layer, s, middle);
  return std::move(layer).finish(input, output);
}

LayerKind embedding_layer(const Shape& s) {
  LayerBuilder layer("embedding", false);
  const std::int64_t e = s.model.hidden;
  const TensorIndex ids =
      layer.tensor("tokens", {}, {{"batch", s.batch}, {"sequence", s.sequence}}, DataType::fp32);
  layer.set_bytes(ids, layer.bytes_of(ids), Bytes{});
  const TensorIndex out = layer.tensor("embedded", {}, s.per_token("hidden", e), s.type);
  layer.parameters(WeightGroup::shared, (s.model.vocabulary + s.model.positions) * e);
  const double bytes = s.framework.embedding.value * s.bytes(e);
  const OpIndex gather =
      layer.op({"embedding", memory_work(bytes), {ids}, {out}, WeightGroup::shared});
  layer.backward({"d embedding",
                  memory_work(bytes),
                  gather,
                  {ids},
                  {out},
                  {},
                  WeightGroup::none,
                  WeightGroup::shared});
  LayerKind kind = std::move(layer).finish(ids, out);
  kind.casts_weights = false;
  return kind;
}

// Final norm, output projection, softmax cross-entropy.
LayerKind head_layer(const Shape& s, std::int64_t chunks) {
  LayerBuilder layer("head", false);
  const ModelSpec& m = s.model;
  const FrameworkSpec& f = s.framework;
  const double logit_count = static_cast<double>(s.tokens) * static_cast<double>(m.vocabulary);
  const TensorIndex input =
      layer.tensor("final stream", {}, s.per_token("hidden", m.hidden), s.type);
  const TensorIndex normed = add_norm(layer, s, "final norm", input, m.hidden);
  const TensorIndex logits = layer.tensor("logits", {}, s.per_token("vocabulary", m.vocabulary),
                                          s.type, TensorRole::logits);
  const double alive = logit_count / static_cast<double>(chunks);
  layer.set_bytes(logits, memory_work(f.logit_bytes.value * alive).bytes,
                  memory_work(f.logit_gradient_bytes.value * alive).bytes);
  layer.tied(m.tied_embeddings ? m.vocabulary * m.hidden : 0);
  layer.product({"head", normed, logits, s.tokens, m.vocabulary, m.hidden}, s.type);
  const TensorIndex loss = layer.tensor("loss", {}, {{"batch", s.batch}}, DataType::fp32);
  layer.set_bytes(loss, Bytes{}, Bytes{}); // one number: nothing to account for
  const OpIndex op = layer.op({"loss",
                               memory_work(f.loss_forward.value * logit_count),
                               {logits},
                               {loss},
                               WeightGroup::none});
  layer.backward({"d loss",
                  memory_work(f.loss_backward.value * logit_count),
                  op,
                  {logits},
                  {},
                  {logits},
                  WeightGroup::none,
                  WeightGroup::none});
  return std::move(layer).finish(input, loss);
}

// The kinds that take turns in the layers [begin, end).
std::vector<LayerKind> decoder_kinds(const Shape& s, bool moe, std::int64_t begin,
                                     std::int64_t end) {
  const std::int64_t turns =
      s.model.attention.window > 0 ? std::max<std::int64_t>(1, s.model.attention.full_every) : 1;
  std::vector<LayerKind> kinds;
  for (std::int64_t layer = begin; layer < std::min(end, begin + turns); ++layer) {
    kinds.push_back(decoder_layer(s, moe, s.model.is_windowed(layer)));
  }
  return kinds;
}

// Appends blocks to a trace; kinds that are alike are described once.
class TraceBlocks {
public:
  explicit TraceBlocks(StepTrace& trace) : trace_(trace) {}

  void add(std::vector<LayerKind> kinds, std::int64_t layers) {
    if (layers == 0) {
      return;
    }
    LayerBlock block;
    block.layers = layers;
    for (LayerKind& kind : kinds) {
      block.kinds.push_back(index_of(std::move(kind)));
    }
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      hold(trace_.kinds[block.kind_of(layer)]);
    }
    trace_.blocks.push_back(std::move(block));
  }

private:
  std::uint32_t index_of(LayerKind kind) {
    const auto same =
        std::find_if(trace_.kinds.begin(), trace_.kinds.end(),
                     [&](const LayerKind& known) { return known.title() == kind.title(); });
    const auto index = static_cast<std::uint32_t>(same - trace_.kinds.begin());
    if (same == trace_.kinds.end()) {
      trace_.kinds.push_back(std::move(kind));
    }
    return index;
  }
  void hold(const LayerKind& kind) {
    for (std::size_t group = 0; group < weight_group_count; ++group) {
      const std::int64_t own = kind.parameters[group] - (group == 0 ? kind.tied_parameters : 0);
      trace_.sharded_parameters[group] +=
          static_cast<double>(own) / static_cast<double>(trace_.shard_group[group].size);
    }
  }

  StepTrace& trace_;
};

} // namespace

StepTrace build_trace(const ModelSpec& model, const ParallelPlan& plan, const BatchSpec& batch,
                      const FrameworkSpec& framework, DataType compute) {
  assert(plan.gpus == plan.fsdp * plan.expert);
  assert(model.experts == 0 ? plan.expert == 1 : model.experts % plan.expert == 0);
  assert(batch.routing_imbalance >= 1);
  assert(batch.routing_imbalance <= static_cast<double>(plan.expert));
  const Shape shape{model,          plan,
                    framework,      batch.micro,
                    batch.sequence, batch.micro * batch.sequence,
                    compute,        batch.routing_imbalance};
  StepTrace trace;
  trace.tokens = shape.tokens;
  trace.micro_batches = batch.accumulation;
  trace.model_flops = flops_per_token(model, batch.sequence).total() *
                      static_cast<double>(shape.tokens * batch.accumulation);
  // Shared weights are sharded over every rank, experts over the FSDP ranks
  // that hold the same experts.
  trace.shard_group = {RankGroup{plan.gpus, 1}, RankGroup{plan.fsdp, plan.expert}};

  TraceBlocks blocks(trace);
  blocks.add({embedding_layer(shape)}, 1);
  blocks.add(decoder_kinds(shape, false, 0, model.dense_layers), model.dense_layers);
  blocks.add(decoder_kinds(shape, true, model.dense_layers, model.layers), model.moe_layers());
  blocks.add({head_layer(shape, batch.loss_chunks)}, 1);
  return trace;
}

} // namespace spillway
