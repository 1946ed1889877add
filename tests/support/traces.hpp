// Models and frameworks of the committed catalogue, two small models, and look-ups by
// name in the traces built from them. Tests run in the root of the repository.
#pragma once

#include "sim/lower/catalog.hpp"
#include "workloads/transformer.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace spillway {

[[nodiscard]] inline ModelSpec catalog_model(const std::string& name) {
  const Catalog catalog({"."});
  Diagnostics diagnostics;
  ModelSpec model = read_model(
      catalog.load_file(CatalogKind::model, catalog.find(CatalogKind::model, name)), diagnostics);
  diagnostics.throw_if_any();
  return model;
}

[[nodiscard]] inline FrameworkSpec catalog_framework(const std::string& name) {
  const Catalog catalog({"."});
  Diagnostics diagnostics;
  FrameworkSpec framework = read_framework(
      catalog.load_file(CatalogKind::framework, catalog.find(CatalogKind::framework, name)),
      diagnostics);
  diagnostics.throw_if_any();
  return framework;
}

[[nodiscard]] inline StepTrace build(const ModelSpec& model, ParallelPlan plan,
                                     const BatchSpec& batch,
                                     const std::string& framework = "maxtext") {
  return build_trace(model, plan, batch, catalog_framework(framework), DataType::bf16);
}

// Grouped-query attention without norms, two layers of 64 x 128.
[[nodiscard]] inline ModelSpec small_dense() {
  ModelSpec model;
  model.name = "small dense";
  model.hidden = 64;
  model.layers = 2;
  model.vocabulary = 100;
  model.attention.heads = 8;
  model.attention.kv_heads = 2;
  model.attention.head_dim = 16;
  model.dense_layers = 2;
  model.dense.width = 128;
  return model;
}

// Latent attention, one dense and two MoE layers, shared experts.
[[nodiscard]] inline ModelSpec small_moe() {
  ModelSpec model = small_dense();
  model.name = "small moe";
  model.layers = 3;
  AttentionSpec& a = model.attention;
  a.kind = AttentionKind::latent;
  a.kv_heads = a.heads;
  a.head_dim = 0;
  a.query_rank = 32;
  a.kv_rank = 24;
  a.nope_dim = 12;
  a.rope_dim = 4;
  a.value_dim = 10;
  model.dense_layers = 1;
  model.experts = 16;
  model.experts_per_token = 4;
  model.shared_experts = 2;
  model.expert.width = 40;
  return model;
}

// The item of `items` called `name`; its absence is the test's mistake.
template <class Items>
[[nodiscard]] std::size_t index_of(const Items& items, const std::string& name) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
  if (found == items.end()) {
    throw std::logic_error("nothing is called '" + name + "'");
  }
  return static_cast<std::size_t>(found - items.begin());
}
template <class Items>
[[nodiscard]] const auto& named(const Items& items, const std::string& name) {
  return items[index_of(items, name)];
}

} // namespace spillway
