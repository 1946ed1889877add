#include "sim/lower/scenario.hpp"

#include "sim/lower/runtime_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace spillway {
namespace {

void check_experts(MapReader& in, const Scenario& scenario) {
  const ModelSpec& model = scenario.model;
  const std::int64_t parts = scenario.parallel.expert;
  if (model.experts == 0 && parts > 1) {
    in.error("parallel",
             fmt::format("model '{}' has no experts to split over expert {}", model.name, parts),
             "remove 'expert'");
  } else if (model.experts > 0 && model.experts % parts != 0) {
    in.error("parallel",
             fmt::format("{} experts cannot be divided over expert {}", model.experts, parts),
             "expert must divide the number of experts");
  } else if (!routes_evenly(model, scenario.parallel, scenario.batch)) {
    in.error("batch",
             fmt::format("{} routed rows cannot be divided evenly over {} experts of a GPU",
                         scenario.batch.micro * scenario.batch.sequence * model.experts_per_token,
                         model.experts / parts),
             "balanced routing needs micro x sequence x experts per token divisible by them");
  }
}

// The busiest rank gets at least the mean, and at most all rows of its group.
void check_routing(const YamlNode& routing, const Scenario& scenario, Diagnostics& diagnostics) {
  const std::int64_t ranks = scenario.parallel.expert;
  const double imbalance = scenario.batch.routing_imbalance;
  if (scenario.model.experts == 0) {
    diagnostics.add(routing.place,
                    fmt::format("model '{}' has no experts to route rows to", scenario.model.name),
                    "remove 'routing'");
  } else if (imbalance > static_cast<double>(ranks)) {
    MapReader(routing, "routing", diagnostics)
        .error("imbalance",
               fmt::format("a GPU cannot get {:g} times the mean of {} expert-parallel GPU{}",
                           imbalance, ranks, ranks == 1 ? "" : "s"),
               ranks == 1 ? "with expert 1 the only imbalance is 1"
                          : fmt::format("imbalance must be between 1 and expert, {}", ranks));
  }
}

std::vector<Assumption> read_assumed(MapReader& in, const YamlNode& tree,
                                     Diagnostics& diagnostics) {
  std::vector<Assumption> assumed;
  const YamlNode* list = in.child("assumed");
  if (list == nullptr) {
    return assumed;
  }
  if (!list->is_sequence()) {
    in.error("assumed", "'assumed' must be a list of {what, why}");
    return assumed;
  }
  for (const YamlNode& item : list->items) {
    MapReader map(item, "assumed", diagnostics);
    Assumption assumption{map.text("what"), {}, map.text("why")};
    map.finish();
    // The assumed value is the scenario's own: shown, never written twice.
    const YamlNode* node = &tree;
    std::size_t begin = 0;
    while (node != nullptr && begin <= assumption.what.size()) {
      const std::size_t end = std::min(assumption.what.find('.', begin), assumption.what.size());
      node = node->find(std::string_view(assumption.what).substr(begin, end - begin));
      begin = end + 1;
    }
    if (node != nullptr && node->is_scalar()) {
      assumption.value = node->text;
    }
    assumed.push_back(std::move(assumption));
  }
  return assumed;
}

void read_published(MapReader& in, Scenario& scenario, Diagnostics& diagnostics) {
  const YamlNode* node = in.child("published");
  if (node == nullptr || node->kind == YamlNode::Kind::null) {
    return; // a null drops what `extends` brought
  }
  if (!node->is_map()) {
    in.error("published", "'published' must be a map of policies to {field: value, source}");
    return;
  }
  for (const YamlEntry& entry : node->entries) {
    MapReader map(entry.value, entry.key, diagnostics);
    const std::string source = map.text("source");
    const std::string over = map.has("speedup") ? map.text("over") : std::string();
    for (const YamlEntry& value : entry.value.entries) {
      if (value.key != "source" && value.key != "over") {
        scenario.published[entry.key].push_back(
            {value.key, over, map.number(value.key, {0.0, 1e30}), source, value.key_place});
      }
    }
    map.finish();
  }
}

// Products of sizes must stay well inside 64 bits, and a step within what can be
// simulated: computed in floating point, before anything is built.
void check_size(MapReader& in, const Scenario& scenario) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const ModelSpec& m = scenario.model;
  const AttentionSpec& a = m.attention;
  const double experts_per_token = std::max(1.0, real(m.experts_per_token));
  const double heads_width = real(a.heads) * (real(a.qk_dim()) + real(a.v_dim()));
  const double widest =
      std::max({real(m.vocabulary), real(m.dense.width),
                real(m.expert.width) * std::max(experts_per_token, real(m.shared_experts)),
                real(m.hidden) * experts_per_token, real(m.experts), heads_width,
                real(a.heads) * real(a.nope_dim + a.value_dim)});
  const double inner = std::max({real(m.hidden), real(a.query_rank), real(a.kv_rank)});
  if (widest * inner * real(m.layers) * std::max(1.0, real(m.experts)) > 1e17) {
    in.error("model", "this model is too large to simulate",
             "layers x experts x widest x narrowest side of its matrices must stay below 1e17");
  }
  const double tokens = real(scenario.batch.micro) * real(scenario.batch.sequence) *
                        real(scenario.batch.accumulation);
  if (m.position_kind == PositionKind::learned && scenario.batch.sequence > m.positions) {
    in.error("batch",
             fmt::format("a sequence of {} tokens, and the model has positions for {}",
                         scenario.batch.sequence, m.positions),
             "a longer table is model.positions.count");
  }
  const double received = experts_per_token * scenario.batch.routing_imbalance *
                          std::max(real(m.hidden), real(m.expert.width));
  if (tokens * std::max(widest, received) > 1e16) {
    in.error("batch", "this batch is too large to simulate",
             "micro x accumulation x sequence x the widest activation must stay below 1e16");
  }
}

} // namespace

double hbm_limit(const RuntimeSpec& runtime, const Device& device) {
  return runtime.memory_fraction * device.memory.value;
}

double host_share(const Device& device) {
  return device.host_memory.value / static_cast<double>(device.gpus_per_cpu);
}

double host_limit(const RuntimeSpec& runtime, const Device& device) {
  const double share = host_share(device);
  return std::min(share, runtime.host_memory_limit.value_or(share));
}

bool routes_evenly(const ModelSpec& model, const ParallelPlan& plan, const BatchSpec& batch) {
  return model.experts == 0 ||
         batch.micro * batch.sequence * model.experts_per_token % (model.experts / plan.expert) ==
             0;
}

const PolicySpec& Scenario::policy(const std::string& policy_name) const {
  std::vector<std::string> names;
  for (const std::vector<PolicySpec>* known : {&policies, &presets}) {
    for (const PolicySpec& spec : *known) {
      if (spec.name == policy_name) {
        return spec;
      }
      names.push_back(spec.name);
    }
  }
  throw InputError(fmt::format("scenario '{}' has no policy '{}'", name, policy_name),
                   suggestion(policy_name, names));
}

// It has nothing of a scenario, which would be as many mistakes.
static void refuse_task_graph(const YamlNode& tree) {
  const YamlNode* const kind = tree.find("kind");
  if (kind != nullptr && kind->is_scalar() && kind->text == "task_graph") {
    throw InputError(std::vector<Diagnostic>{
        {kind->place, "a task graph is no scenario", "`spillway replay` takes task graphs"}});
  }
}

YamlNode load_scenario_tree(const Catalog& catalog, const std::string& name_or_path,
                            const std::vector<std::string>& assignments) {
  YamlNode tree =
      catalog.load_file(CatalogKind::scenario, catalog.find(CatalogKind::scenario, name_or_path));
  refuse_task_graph(tree);
  for (const std::string& assignment : assignments) {
    set_path(tree, assignment);
  }
  return tree;
}

Scenario read_scenario(const Catalog& catalog, const YamlNode& tree, const std::string& name) {
  static const std::array<std::string, 1> kinds{"scenario"};
  Diagnostics diagnostics;
  MapReader in(tree, "scenario", diagnostics);
  Scenario scenario;
  scenario.name = name;
  static_cast<void>(in.choice("kind", kinds));
  scenario.title = in.text_or("title", name);

  if (const YamlNode* model = in.required_child("model")) {
    scenario.model = read_model(catalog.load(CatalogKind::model, *model), diagnostics);
  }
  if (const YamlNode* hardware = in.required_child("hardware")) {
    scenario.device = read_device(catalog.load(CatalogKind::hardware, *hardware),
                                  catalog.table_folder(), diagnostics);
  }
  scenario.parallel = read_parallel(in, diagnostics);
  if (const YamlNode* batch = in.required_child("batch")) {
    scenario.batch = read_batch(*batch, diagnostics);
  }
  const YamlNode* routing = in.child("routing");
  if (routing != nullptr && routing->kind == YamlNode::Kind::null) {
    routing = nullptr; // drops what `extends` brought
  }
  if (routing != nullptr) {
    scenario.batch.routing_imbalance = read_routing_imbalance(*routing, diagnostics);
  }
  if (const YamlNode* precision = in.child("precision")) {
    scenario.precision = read_precision(*precision, diagnostics);
  }
  const YamlNode* runtime = in.child("runtime");
  const YamlNode* framework = runtime == nullptr ? nullptr : runtime->find("framework");
  YamlNode default_framework;
  default_framework.kind = YamlNode::Kind::scalar;
  default_framework.text = "maxtext";
  scenario.framework = read_framework(
      catalog.load(CatalogKind::framework, framework == nullptr ? default_framework : *framework),
      diagnostics);
  if (runtime != nullptr) {
    scenario.runtime = read_runtime(*runtime, scenario.framework, scenario.batch, diagnostics);
  }
  scenario.assumed = read_assumed(in, tree, diagnostics);
  read_published(in, scenario, diagnostics);
  const YamlNode* policies = in.required_child("policies");
  in.finish();
  diagnostics.throw_if_any(); // checks across keys need each to be right
  check_size(in, scenario);
  diagnostics.throw_if_any(); // sizes whose products fit
  check_experts(in, scenario);
  if (routing != nullptr) {
    check_routing(*routing, scenario, diagnostics);
  }
  diagnostics.throw_if_any();

  scenario.trace = build_trace(scenario.model, scenario.parallel, scenario.batch,
                               scenario.framework, scenario.precision.compute);
  if (!policies->is_map() || policies->entries.empty()) {
    in.error("policies", "'policies' must be a map with at least one policy");
  }
  for (const YamlEntry& entry : policies->entries) {
    scenario.policies.push_back(
        read_policy(entry.key, entry.value, scenario.trace, scenario.framework, diagnostics));
  }
  scenario.presets = preset_policies(scenario.framework);
  if (const YamlNode* published = tree.find("published")) {
    for (const YamlEntry& entry : published->entries) {
      if (policies->find(entry.key) == nullptr) {
        diagnostics.add(entry.key_place,
                        fmt::format("'published' names the unknown policy '{}'", entry.key));
      }
    }
  }
  diagnostics.throw_if_any();
  return scenario;
}

Scenario load_scenario(const Catalog& catalog, const std::string& name_or_path,
                       const std::vector<std::string>& assignments) {
  const YamlNode tree = load_scenario_tree(catalog, name_or_path, assignments);
  const std::filesystem::path path(name_or_path);
  const bool is_file = path.extension() == ".yaml"; // a name may have dots of its own
  return read_scenario(catalog, tree, (is_file ? path.stem() : path.filename()).string());
}

} // namespace spillway
