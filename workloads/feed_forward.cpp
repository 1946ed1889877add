#include "workloads/layer_parts.hpp"

#include <cmath>

namespace spillway {
namespace {

// Names and placement of a feed-forward block.
struct Block {
  std::string prefix; // of operation names
  std::vector<std::string> gate, up, plain_up, product, down;
  FeedForwardSpec form;
  std::int64_t rows = 0; // all groups together
  std::int64_t groups = 1;
  WeightGroup weights = WeightGroup::shared;
  TensorRole role = TensorRole::activation;
};

// down(activation(gate(in)) * up(in)), or down(activation(up(in))).
TensorIndex add_block(LayerBuilder& layer, const Shape& s, TensorIndex in, const Block& b) {
  const FrameworkSpec& f = s.framework;
  const std::int64_t e = s.model.hidden;
  const std::int64_t m = b.rows / b.groups;
  const auto axes = [&](std::int64_t width) {
    return std::vector<Axis>{{"rows", b.rows}, {"width", width}};
  };
  std::vector<TensorIndex> inner;
  const auto add_inner = [&](const char* name, const std::vector<std::string>& policy_names) {
    inner.push_back(layer.tensor(b.prefix + name, policy_names, axes(b.form.width), s.type));
    layer.product(
        {b.prefix + name, in, inner.back(), m, b.form.width, e, b.groups, b.weights, b.form.bias},
        s.type);
  };
  if (b.form.gated) {
    add_inner("gate", b.gate);
  }
  add_inner("up", b.form.gated ? b.up : b.plain_up);
  const TensorIndex product =
      layer.tensor(b.prefix + "product", b.product, axes(b.form.width), s.type);
  for (const TensorIndex tensor : inner) {
    layer.inner(tensor);
  }
  layer.inner(product);
  const auto bytes = static_cast<double>(layer.bytes_of(inner.back()).count());
  // A plain activation reads one tensor less, and its backward writes one less as well.
  const double fewer = b.form.gated ? 0 : 1;
  layer.elementwise({b.prefix + "activation",
                     inner,
                     {product},
                     (f.activation_forward.value - fewer) * bytes,
                     (f.activation_backward.value - 2 * fewer) * bytes,
                     inner,
                     (f.activation_backward_rerun.value - 2 * fewer) * bytes});
  const TensorIndex down = layer.tensor(b.prefix + "down", b.down, axes(e), s.type, b.role);
  layer.product(
      {b.prefix + "down", product, down, m, e, b.form.width, b.groups, b.weights, b.form.bias},
      s.type);
  return down;
}

// The block that dense layers and shared experts have; `width` over all shared ones.
Block block_on_tokens(const Shape& s, std::string prefix, const FeedForwardSpec& form) {
  Block block;
  block.prefix = std::move(prefix);
  block.gate = {"mlpwi_0"};
  block.up = {"mlpwi_1"};
  block.plain_up = {"mlpwi"};
  block.product = {"mlp_product"};
  block.down = {"mlpwo"};
  block.form = form;
  block.rows = s.tokens;
  return block;
}

// The logits of all experts, and the weights of those that are chosen.
TensorIndex add_router(LayerBuilder& layer, const Shape& s, TensorIndex in) {
  const ModelSpec& m = s.model;
  if (m.router_bias && !m.router_bias_trained) {
    layer.parameters(WeightGroup::shared, m.experts);
  }
  const TensorIndex logits =
      layer.tensor("router logits", {}, s.per_token("experts", m.experts), s.type);
  layer.product({"router", in, logits, s.tokens, m.experts, m.hidden, 1, WeightGroup::shared,
                 m.router_bias_trained},
                s.type);
  const TensorIndex routing =
      layer.tensor("routing weights", {}, s.per_token("chosen", m.experts_per_token), s.type);
  const double logit_bytes = 3 * s.bytes(m.experts); // read, normalise, choose
  layer.elementwise({"top-k", {logits}, {routing}, logit_bytes, logit_bytes, {logits}});
  return routing;
}

Block block_of_experts(const Shape& s, std::int64_t rows) {
  Block experts;
  experts.prefix = "expert ";
  experts.gate = {"moe_mlpwi_0", "mlpwi_0"};
  experts.up = {"moe_mlpwi_1"};
  experts.product = {"moe_mlp_product"};
  experts.down = {"moe_mlpwo", "mlpwo"};
  experts.form = s.model.expert;
  experts.rows = rows;
  experts.groups = s.model.experts / s.plan.expert;
  experts.weights = WeightGroup::expert;
  experts.role = TensorRole::dispatch;
  return experts;
}

// Of the simulated rank, after the exchange; the mean of all ranks is what one sends. Each of
// its experts gets the same number, the mean times the imbalance, to the nearest whole row.
std::int64_t received_rows(const Shape& s) {
  const std::int64_t mean = s.tokens * s.model.experts_per_token;
  const std::int64_t groups = s.model.experts / s.plan.expert;
  const double per_expert = static_cast<double>(mean) / static_cast<double>(groups);
  return mean + groups * std::llround((s.imbalance - 1) * per_expert);
}

// Routed experts: router, dispatch to the ranks that hold the experts, grouped
// feed-forward, return, weighted sum. A rank sends tokens x experts_per_token rows and
// works on as many, or on more where it is the busiest of its group.
TensorIndex add_routed_experts(LayerBuilder& layer, const Shape& s, TensorIndex in,
                               TensorIndex& shared_out) {
  const ModelSpec& m = s.model;
  const std::int64_t own_rows = s.tokens * m.experts_per_token;
  const std::int64_t rows = received_rows(s);
  const RankGroup group{s.plan.expert, 1};
  const auto rows_tensor = [&](const std::string& name, std::int64_t count) {
    return layer.tensor(name, {}, {{"rows", count}, {"hidden", m.hidden}}, s.type,
                        TensorRole::dispatch);
  };
  const auto bytes_of_rows = [&](std::int64_t count) {
    return static_cast<double>(count * m.hidden * bytes_per_element(s.type));
  };
  const double own_bytes = bytes_of_rows(own_rows);
  const double own_move = s.framework.permute.value * own_bytes;
  const double move = s.framework.permute.value * bytes_of_rows(rows);

  const TensorIndex routing = add_router(layer, s, in);
  TensorIndex current = rows_tensor("permuted rows", own_rows);
  // Its backward adds the rows' gradients to their tokens.
  layer.elementwise({"permute",
                     {in, routing},
                     {current},
                     own_move,
                     own_move + s.framework.scatter_add.value * own_bytes,
                     {}});
  if (group.size > 1) {
    const TensorIndex received = rows_tensor("dispatched rows", rows);
    layer.exchange("dispatch", current, received, group);
    current = received;
  }
  // Independent of the exchange, so placed where it can run beside it.
  if (m.shared_experts > 0) {
    FeedForwardSpec shared = m.expert;
    shared.width *= m.shared_experts;
    shared_out = add_block(layer, s, in, block_on_tokens(s, "shared expert ", shared));
  }
  if (group.size > 1) {
    const TensorIndex sorted = rows_tensor("rows by expert", rows);
    layer.elementwise({"sort by expert", {current}, {sorted}, move, move, {}});
    current = sorted;
  }
  current = add_block(layer, s, current, block_of_experts(s, rows));
  if (group.size > 1) {
    const TensorIndex unsorted = rows_tensor("rows by sender", rows);
    layer.elementwise({"unsort", {current}, {unsorted}, move, move, {}});
    const TensorIndex returned = rows_tensor("returned rows", own_rows);
    layer.exchange("combine", unsorted, returned, group);
    current = returned;
  }
  const TensorIndex sum = layer.tensor("expert sum", {}, s.per_token("hidden", m.hidden), s.type);
  // The gradient of the routing weights needs the rows that came back.
  layer.elementwise({"weighted sum",
                     {current, routing},
                     {sum},
                     s.framework.combine.value * (own_bytes + s.bytes(m.hidden)) +
                         s.framework.scatter_add.value * own_bytes,
                     s.framework.combine.value * (2 * own_bytes + s.bytes(m.hidden)),
                     {current, routing}});
  return sum;
}

} // namespace

TensorIndex add_dense_block(LayerBuilder& layer, const Shape& s, TensorIndex stream) {
  const ModelSpec& m = s.model;
  const TensorIndex normed = add_norm(layer, s, "mlp norm", stream, m.hidden);
  TensorIndex out = add_block(layer, s, normed, block_on_tokens(s, "mlp ", m.dense));
  if (m.post_norms) {
    out = add_norm(layer, s, "mlp post-norm", out, m.hidden);
  }
  return add_residual(layer, s, "mlp residual", {stream, out});
}

TensorIndex add_moe_block(LayerBuilder& layer, const Shape& s, TensorIndex stream) {
  const ModelSpec& m = s.model;
  const TensorIndex normed = add_norm(layer, s, "mlp norm", stream, m.hidden);
  TensorIndex shared = 0;
  TensorIndex routed = add_routed_experts(layer, s, normed, shared);
  if (m.post_norms) {
    routed = add_norm(layer, s, "mlp post-norm", routed, m.hidden);
  }
  std::vector<TensorIndex> terms{stream, routed};
  if (m.shared_experts > 0) {
    terms.push_back(shared);
  }
  return add_residual(layer, s, "mlp residual", std::move(terms));
}

} // namespace spillway
