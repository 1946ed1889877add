#include "workloads/transformer.hpp"

#include "workloads/layer_builder.hpp"

#include <cassert>
#include <utility>

namespace spillway {
namespace {

// Sizes that every part of a layer needs.
struct Shape {
  const ModelSpec& model;
  const ParallelPlan& plan;
  const FrameworkSpec& framework;
  std::int64_t batch, sequence, tokens;
  DataType type;

  [[nodiscard]] std::vector<Axis> per_token(std::string name, std::int64_t size) const {
    return {{"batch", batch}, {"sequence", sequence}, {std::move(name), size}};
  }
  [[nodiscard]] std::vector<Axis> per_head(std::int64_t heads, std::int64_t size) const {
    return {{"batch", batch}, {"sequence", sequence}, {"heads", heads}, {"head_dim", size}};
  }
  [[nodiscard]] double bytes(std::int64_t per_token_elements) const {
    return static_cast<double>(tokens * per_token_elements * bytes_per_element(type));
  }
};

TensorIndex add_norm(LayerBuilder& layer, const Shape& s, const std::string& name, TensorIndex in,
                     std::vector<std::string> policy_names, std::int64_t width) {
  const TensorIndex out =
      layer.tensor(name, std::move(policy_names), s.per_token("width", width), s.type);
  const double bytes = s.bytes(width);
  layer.elementwise({name,
                     {in},
                     {out},
                     s.framework.norm_forward.value * bytes,
                     s.framework.norm_backward.value * bytes,
                     {in}});
  return out;
}

// The stream plus a block's output: [batch, sequence, hidden].
TensorIndex add_residual(LayerBuilder& layer, const Shape& s, const std::string& name,
                         std::vector<TensorIndex> terms) {
  const TensorIndex out = layer.tensor(name, {}, s.per_token("hidden", s.model.hidden), s.type);
  LayerBuilder::Elementwise sum;
  sum.name = name;
  sum.reads = std::move(terms);
  sum.writes = {out};
  sum.forward_bytes = s.framework.residual_add.value * s.bytes(s.model.hidden);
  sum.passes_gradient = true;
  layer.elementwise(sum);
  return out;
}

struct QueryKeyValue {
  TensorIndex query, key, value;
};

// One projection of grouped-query attention: product, optional per-head norm,
// optional rotary embedding. Tagged after the rotary embedding.
TensorIndex add_head_projection(LayerBuilder& layer, const Shape& s, const std::string& name,
                                TensorIndex in, std::int64_t heads, bool rotary, bool norm) {
  const AttentionSpec& a = s.model.attention;
  const std::int64_t width = heads * a.head_dim;
  const bool more = rotary || norm;
  TensorIndex current =
      layer.tensor(more ? name + " product" : name,
                   more ? std::vector<std::string>{} : std::vector<std::string>{name},
                   s.per_head(heads, a.head_dim), s.type);
  layer.product({name, in, current, s.tokens, width, s.model.hidden, 1, WeightGroup::shared},
                s.type);
  const double bytes = s.bytes(width);
  if (norm) {
    const TensorIndex normed =
        layer.tensor(name + " norm", {}, s.per_head(heads, a.head_dim), s.type);
    layer.elementwise({name + " norm",
                       {current},
                       {normed},
                       s.framework.norm_forward.value * bytes,
                       s.framework.norm_backward.value * bytes,
                       {current}});
    current = normed;
  }
  if (rotary) {
    const TensorIndex rotated = layer.tensor(name, {name}, s.per_head(heads, a.head_dim), s.type);
    layer.elementwise({name + " rotary",
                       {current},
                       {rotated},
                       s.framework.rotary.value * bytes,
                       s.framework.rotary.value * bytes,
                       {}});
    current = rotated;
  }
  return current;
}

QueryKeyValue add_grouped_query(LayerBuilder& layer, const Shape& s, TensorIndex in) {
  const AttentionSpec& a = s.model.attention;
  layer.parameters(WeightGroup::shared, s.model.hidden * (a.heads + 2 * a.kv_heads) * a.head_dim);
  return {add_head_projection(layer, s, "query_proj", in, a.heads, true, a.qk_norm),
          add_head_projection(layer, s, "key_proj", in, a.kv_heads, true, a.qk_norm),
          add_head_projection(layer, s, "value_proj", in, a.kv_heads, false, false)};
}

// Multi-head latent attention: low-rank query and key/value, expanded per head.
QueryKeyValue add_latent(LayerBuilder& layer, const Shape& s, TensorIndex in) {
  const ModelSpec& m = s.model;
  const AttentionSpec& a = m.attention;
  const std::int64_t kv_down = a.kv_rank + a.rope_dim;
  const std::int64_t kv_up = a.heads * (a.nope_dim + a.value_dim);
  layer.parameters(WeightGroup::shared, m.hidden * a.query_rank +
                                            a.query_rank * a.heads * a.qk_dim() +
                                            m.hidden * kv_down + a.kv_rank * kv_up);

  const TensorIndex query_down =
      layer.tensor("query_wa_proj", {"query_wa_proj"}, s.per_token("rank", a.query_rank), s.type);
  layer.product({"query_down", in, query_down, s.tokens, a.query_rank, m.hidden}, s.type);
  const TensorIndex query_latent = add_norm(layer, s, "mla_q", query_down, {"mla_q"}, a.query_rank);
  const TensorIndex query_up =
      layer.tensor("query_up", {}, s.per_head(a.heads, a.qk_dim()), s.type);
  layer.product({"query_up", query_latent, query_up, s.tokens, a.heads * a.qk_dim(), a.query_rank},
                s.type);
  const TensorIndex query =
      layer.tensor("query_proj", {"query_proj"}, s.per_head(a.heads, a.qk_dim()), s.type);
  const double query_bytes = s.framework.rotary.value * s.bytes(a.heads * a.qk_dim());
  layer.elementwise({"query rotary", {query_up}, {query}, query_bytes, query_bytes, {}});

  const TensorIndex latent_raw =
      layer.tensor("kv_wa_proj", {"kv_wa_proj"}, s.per_token("rank", kv_down), s.type);
  layer.product({"kv_down", in, latent_raw, s.tokens, kv_down, m.hidden}, s.type);
  const TensorIndex latent = add_norm(layer, s, "mla_kv", latent_raw, {"mla_kv"}, a.kv_rank);
  const TensorIndex expanded =
      layer.tensor("kv_up", {}, s.per_head(a.heads, a.nope_dim + a.value_dim), s.type);
  layer.product({"kv_up", latent, expanded, s.tokens, kv_up, a.kv_rank}, s.type);
  // The rotary part of the key is one head, repeated beside the expanded part.
  const TensorIndex key =
      layer.tensor("key_proj", {"key_proj"}, s.per_head(a.heads, a.qk_dim()), s.type);
  const double key_bytes = s.framework.rotary.value * s.bytes(a.heads * a.qk_dim());
  layer.elementwise({"key assembly", {expanded, latent_raw}, {key}, key_bytes, key_bytes, {}});
  const TensorIndex value =
      layer.tensor("value_proj", {"value_proj"}, s.per_head(a.heads, a.value_dim), s.type);
  const double value_bytes = s.framework.rotary.value * s.bytes(a.heads * a.value_dim);
  layer.elementwise({"value slice", {expanded}, {value}, value_bytes, value_bytes, {}});
  return {query, key, value};
}

// Attention block: norm, query/key/value, fused attention, output projection, residual.
TensorIndex add_attention(LayerBuilder& layer, const Shape& s, TensorIndex stream) {
  const ModelSpec& m = s.model;
  const AttentionSpec& a = m.attention;
  const TensorIndex normed = add_norm(layer, s, "attention norm", stream, {}, m.hidden);
  const QueryKeyValue in = a.kind == AttentionKind::latent ? add_latent(layer, s, normed)
                                                           : add_grouped_query(layer, s, normed);

  const TensorIndex context =
      layer.tensor("context", {"context"}, s.per_head(a.heads, a.v_dim()), s.type);
  const TensorIndex statistics = layer.tensor(
      "softmax statistics",
      s.framework.softmax_statistics_saved ? std::vector<std::string>{"context"}
                                           : std::vector<std::string>{},
      {{"batch", s.batch}, {"heads", a.heads}, {"sequence", s.sequence}}, DataType::fp32);
  layer.set_bytes(statistics, layer.bytes_of(statistics), Bytes{});
  Work work;
  work.kind = WorkKind::attention;
  work.type = s.type;
  work.batch = s.batch;
  work.heads = a.heads;
  work.kv_heads = a.kv_heads;
  work.seq = s.sequence;
  work.qk_dim = a.qk_dim();
  work.v_dim = a.v_dim();
  const OpIndex attention = layer.op(
      {"attention", work, {in.query, in.key, in.value}, {context, statistics}, WeightGroup::none});
  work.stage = Stage::backward;
  layer.backward({"d attention",
                  work,
                  attention,
                  {in.query, in.key, in.value, context, statistics},
                  {context},
                  {in.query, in.key, in.value},
                  WeightGroup::none,
                  WeightGroup::none});

  const std::int64_t context_width = a.heads * a.v_dim();
  layer.parameters(WeightGroup::shared, context_width * m.hidden);
  const TensorIndex out = layer.tensor("out_proj", {"out_proj", "attention_out"},
                                       s.per_token("hidden", m.hidden), s.type);
  layer.product({"out_proj", context, out, s.tokens, m.hidden, context_width}, s.type);
  return add_residual(layer, s, "attention residual", {stream, out});
}

// Names and placement of a gated feed-forward block.
struct GatedBlock {
  std::string prefix; // of operation names
  std::vector<std::string> gate, up, product, down;
  std::int64_t width = 0;
  std::int64_t rows = 0; // all groups together
  std::int64_t groups = 1;
  WeightGroup weights = WeightGroup::shared;
  TensorRole role = TensorRole::activation;
};

// down(silu(gate(in)) * up(in))
TensorIndex add_gated(LayerBuilder& layer, const Shape& s, TensorIndex in, const GatedBlock& b) {
  const std::int64_t e = s.model.hidden;
  const std::int64_t m = b.rows / b.groups;
  const auto axes = [&](std::int64_t width) {
    return std::vector<Axis>{{"rows", b.rows}, {"width", width}};
  };
  const TensorIndex gate = layer.tensor(b.prefix + "gate", b.gate, axes(b.width), s.type);
  layer.product({b.prefix + "gate", in, gate, m, b.width, e, b.groups, b.weights}, s.type);
  const TensorIndex up = layer.tensor(b.prefix + "up", b.up, axes(b.width), s.type);
  layer.product({b.prefix + "up", in, up, m, b.width, e, b.groups, b.weights}, s.type);
  const TensorIndex product = layer.tensor(b.prefix + "product", b.product, axes(b.width), s.type);
  layer.gated(up);
  const auto bytes = static_cast<double>(layer.bytes_of(up).count());
  layer.elementwise({b.prefix + "activation",
                     {gate, up},
                     {product},
                     s.framework.activation_forward.value * bytes,
                     s.framework.activation_backward.value * bytes,
                     {gate, up},
                     s.framework.activation_backward_rerun.value * bytes});
  const TensorIndex down = layer.tensor(b.prefix + "down", b.down, axes(e), s.type, b.role);
  layer.product({b.prefix + "down", product, down, m, e, b.width, b.groups, b.weights}, s.type);
  return down;
}

LayerKind dense_layer(const Shape& s) {
  LayerBuilder layer("dense", true);
  const ModelSpec& m = s.model;
  const TensorIndex input = layer.tensor("decoder_layer_input", {"decoder_layer_input"},
                                         s.per_token("hidden", m.hidden), s.type);
  const TensorIndex middle = add_attention(layer, s, input);
  const TensorIndex normed = add_norm(layer, s, "mlp norm", middle, {}, m.hidden);
  layer.parameters(WeightGroup::shared, 3 * m.hidden * m.dense_width);
  GatedBlock mlp;
  mlp.prefix = "mlp ";
  mlp.gate = {"mlpwi_0"};
  mlp.up = {"mlpwi_1"};
  mlp.product = {"mlp_product"};
  mlp.down = {"mlpwo"};
  mlp.width = m.dense_width;
  mlp.rows = s.tokens;
  const TensorIndex down = add_gated(layer, s, normed, mlp);
  const TensorIndex output = add_residual(layer, s, "mlp residual", {middle, down});
  return std::move(layer).finish(input, output);
}

// Routed experts: router, dispatch to the ranks that hold the experts, grouped
// feed-forward, return, weighted sum. Balanced routing: every expert gets the
// same number of rows, so a rank holds tokens x experts_per_token rows.
TensorIndex add_routed_experts(LayerBuilder& layer, const Shape& s, TensorIndex in,
                               TensorIndex& shared_out) {
  const ModelSpec& m = s.model;
  const std::int64_t rows = s.tokens * m.experts_per_token;
  const std::int64_t local_experts = m.experts / s.plan.expert;
  const RankGroup group{s.plan.expert, 1};
  const auto rows_tensor = [&](const std::string& name, std::vector<std::string> names = {}) {
    return layer.tensor(name, std::move(names), {{"rows", rows}, {"hidden", m.hidden}}, s.type,
                        TensorRole::dispatch);
  };
  const double row_bytes = s.bytes(m.experts_per_token * m.hidden);
  const double move = s.framework.permute.value * row_bytes;

  layer.parameters(WeightGroup::shared, m.hidden * m.experts);
  const TensorIndex logits =
      layer.tensor("router logits", {}, s.per_token("experts", m.experts), s.type);
  layer.product({"router", in, logits, s.tokens, m.experts, m.hidden}, s.type);
  const TensorIndex routing =
      layer.tensor("routing weights", {}, s.per_token("chosen", m.experts_per_token), s.type);
  const double logit_bytes = 3 * s.bytes(m.experts); // read, normalise, choose
  layer.elementwise({"top-k", {logits}, {routing}, logit_bytes, logit_bytes, {logits}});

  TensorIndex current = rows_tensor("permuted rows");
  // Its backward adds the rows' gradients to their tokens.
  layer.elementwise({"permute",
                     {in, routing},
                     {current},
                     move,
                     move + s.framework.scatter_add.value * row_bytes,
                     {}});
  if (group.size > 1) {
    const TensorIndex received = rows_tensor("dispatched rows");
    layer.exchange("dispatch", current, received, group);
    current = received;
  }
  // Independent of the exchange, so placed where it can run beside it.
  if (m.shared_experts > 0) {
    GatedBlock shared;
    shared.prefix = "shared expert ";
    shared.gate = {"mlpwi_0"};
    shared.up = {"mlpwi_1"};
    shared.product = {"mlp_product"};
    shared.down = {"mlpwo"};
    shared.width = m.shared_experts * m.expert_width;
    shared.rows = s.tokens;
    layer.parameters(WeightGroup::shared, 3 * m.hidden * shared.width);
    shared_out = add_gated(layer, s, in, shared);
  }
  if (group.size > 1) {
    const TensorIndex sorted = rows_tensor("rows by expert");
    layer.elementwise({"sort by expert", {current}, {sorted}, move, move, {}});
    current = sorted;
  }
  GatedBlock experts;
  experts.prefix = "expert ";
  experts.gate = {"moe_mlpwi_0", "mlpwi_0"};
  experts.up = {"moe_mlpwi_1"};
  experts.product = {"moe_mlp_product"};
  experts.down = {"moe_mlpwo", "mlpwo"};
  experts.width = m.expert_width;
  experts.rows = rows;
  experts.groups = local_experts;
  experts.weights = WeightGroup::expert;
  experts.role = TensorRole::dispatch;
  layer.parameters(WeightGroup::expert, 3 * m.hidden * m.expert_width * local_experts);
  current = add_gated(layer, s, current, experts);
  if (group.size > 1) {
    const TensorIndex unsorted = rows_tensor("rows by sender");
    layer.elementwise({"unsort", {current}, {unsorted}, move, move, {}});
    const TensorIndex returned = rows_tensor("returned rows");
    layer.exchange("combine", unsorted, returned, group);
    current = returned;
  }
  const TensorIndex sum = layer.tensor("expert sum", {}, s.per_token("hidden", m.hidden), s.type);
  // The gradient of the routing weights needs the rows that came back.
  layer.elementwise({"weighted sum",
                     {current, routing},
                     {sum},
                     s.framework.combine.value * (row_bytes + s.bytes(m.hidden)) +
                         s.framework.scatter_add.value * row_bytes,
                     s.framework.combine.value * (2 * row_bytes + s.bytes(m.hidden)),
                     {current, routing}});
  return sum;
}

LayerKind moe_layer(const Shape& s) {
  LayerBuilder layer("moe", true);
  const ModelSpec& m = s.model;
  const TensorIndex input = layer.tensor("decoder_layer_input", {"decoder_layer_input"},
                                         s.per_token("hidden", m.hidden), s.type);
  const TensorIndex middle = add_attention(layer, s, input);
  const TensorIndex normed = add_norm(layer, s, "mlp norm", middle, {}, m.hidden);
  TensorIndex shared = 0;
  const TensorIndex routed = add_routed_experts(layer, s, normed, shared);
  std::vector<TensorIndex> terms{middle, routed};
  if (m.shared_experts > 0) {
    terms.push_back(shared);
  }
  const TensorIndex output = add_residual(layer, s, "mlp residual", std::move(terms));
  return std::move(layer).finish(input, output);
}

LayerKind embedding_layer(const Shape& s) {
  LayerBuilder layer("embedding", false);
  const std::int64_t e = s.model.hidden;
  const TensorIndex ids =
      layer.tensor("tokens", {}, {{"batch", s.batch}, {"sequence", s.sequence}}, DataType::fp32);
  layer.set_bytes(ids, layer.bytes_of(ids), Bytes{});
  const TensorIndex out = layer.tensor("embedded", {}, s.per_token("hidden", e), s.type);
  layer.parameters(WeightGroup::shared, s.model.vocabulary * e);
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
  const TensorIndex normed = add_norm(layer, s, "final norm", input, {}, m.hidden);
  layer.parameters(WeightGroup::shared, m.vocabulary * m.hidden);
  const TensorIndex logits = layer.tensor("logits", {}, s.per_token("vocabulary", m.vocabulary),
                                          s.type, TensorRole::logits);
  const double alive = logit_count / static_cast<double>(chunks);
  layer.set_bytes(logits, memory_work(f.logit_bytes.value * alive).bytes,
                  memory_work(f.logit_gradient_bytes.value * alive).bytes);
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

} // namespace

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (const Axis& axis : tensor.axes) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(axis.size);
  }
  return text + "]";
}

StepTrace build_trace(const ModelSpec& model, const ParallelPlan& plan, const BatchSpec& batch,
                      const FrameworkSpec& framework, DataType compute) {
  assert(plan.gpus == plan.fsdp * plan.expert);
  assert(model.experts == 0 ? plan.expert == 1 : model.experts % plan.expert == 0);
  const Shape shape{
      model, plan, framework, batch.micro, batch.sequence, batch.micro * batch.sequence, compute};
  StepTrace trace;
  trace.tokens = shape.tokens;
  trace.micro_batches = batch.accumulation;
  trace.model_flops = flops_per_token(model, batch.sequence).total() *
                      static_cast<double>(shape.tokens * batch.accumulation);
  // Shared weights are sharded over every rank, experts over the FSDP ranks
  // that hold the same experts.
  trace.shard_group = {RankGroup{plan.gpus, 1}, RankGroup{plan.fsdp, plan.expert}};

  const auto add = [&](LayerKind kind, std::int64_t layers) {
    if (layers > 0) {
      for (std::size_t group = 0; group < weight_group_count; ++group) {
        trace.sharded_parameters[group] += static_cast<double>(kind.parameters[group] * layers) /
                                           static_cast<double>(trace.shard_group[group].size);
      }
      trace.blocks.push_back({static_cast<std::uint32_t>(trace.kinds.size()), layers});
      trace.kinds.push_back(std::move(kind));
    }
  };
  add(embedding_layer(shape), 1);
  if (model.dense_layers > 0) {
    add(dense_layer(shape), model.dense_layers);
  }
  if (model.moe_layers() > 0) {
    add(moe_layer(shape), model.moe_layers());
  }
  add(head_layer(shape, batch.loss_chunks), 1);
  return trace;
}

} // namespace spillway
