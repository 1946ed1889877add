#include "workloads/layer_parts.hpp"

namespace spillway {

TensorIndex add_norm(LayerBuilder& layer, const Shape& s, const std::string& name, TensorIndex in,
                     std::int64_t width, std::vector<std::string> policy_names) {
  const TensorIndex out =
      layer.tensor(name, std::move(policy_names), s.per_token("width", width), s.type);
  const double bytes = s.bytes(width);
  if (width == s.model.hidden) {
    layer.normed(in);
  }
  layer.parameters(WeightGroup::shared, s.model.norm_parameters(width));
  layer.elementwise({name,
                     {in},
                     {out},
                     s.framework.norm_forward.value * bytes,
                     s.framework.norm_backward.value * bytes,
                     {in}});
  return out;
}

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

} // namespace spillway
