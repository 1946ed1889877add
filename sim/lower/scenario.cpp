#include "sim/lower/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace spillway {
namespace {

const std::array<std::string, 4> schedule_names{"serialized", "loop_bound", "pipelined",
                                                "streamed"};
const std::array<std::string, 3> state_names{"none", "fp32", "bf16"};
constexpr std::array<std::int64_t, 3> state_bytes{0, 4, 2};
constexpr IntegerRange count_range{1, 1'000'000};

PrecisionSpec read_precision(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> compute_names{"bf16"};
  MapReader in(node, "precision", diagnostics);
  PrecisionSpec spec;
  static_cast<void>(in.choice_or("compute", compute_names, 0));
  static_cast<void>(in.choice_or("saved", compute_names, 0));
  const auto state = [&](const char* key, std::int64_t fallback, bool may_be_none) {
    const std::span<const std::string> names = std::span(state_names).subspan(may_be_none ? 0 : 1);
    if (!in.has(key)) {
      return fallback;
    }
    return state_bytes[in.choice(key, names) + (may_be_none ? 0 : 1)];
  };
  spec.weights = state("weights", spec.weights, false);
  spec.gradients = state("gradients", spec.gradients, false);
  spec.master = state("master", spec.master, true);
  spec.moment1 = state("moment1", spec.moment1, true);
  spec.moment2 = state("moment2", spec.moment2, true);
  in.finish();
  return spec;
}

// The switches of the frameworks map to a schedule; an explicit one must agree.
CopySchedule schedule_of(MapReader& in, const std::string& framework) {
  const bool command_buffers = in.boolean_or("command_buffers", false);
  const bool rotated = in.boolean_or("pipelined_host_offloading", true);
  const bool eager = framework == "pytorch";
  if (eager && (in.has("command_buffers") || in.has("pipelined_host_offloading"))) {
    in.error(in.has("command_buffers") ? "command_buffers" : "pipelined_host_offloading",
             "XLA switches do not apply to framework 'pytorch'");
  }
  const CopySchedule derived = eager             ? CopySchedule::streamed
                               : command_buffers ? CopySchedule::serialized
                               : rotated         ? CopySchedule::pipelined
                                                 : CopySchedule::loop_bound;
  if (!in.has("schedule")) {
    return derived;
  }
  const auto schedule = static_cast<CopySchedule>(
      in.choice_or("schedule", schedule_names, static_cast<std::size_t>(derived)));
  if (command_buffers && schedule != CopySchedule::serialized) {
    in.error("schedule",
             fmt::format("'command_buffers: true' serializes copies, but 'schedule' is {}",
                         schedule_name(schedule)),
             "set command_buffers: false, or schedule: serialized");
  } else if (!rotated && schedule == CopySchedule::pipelined) {
    in.error("schedule", "schedule pipelined needs 'pipelined_host_offloading: true'",
             "or set schedule: loop_bound");
  }
  return schedule;
}

RuntimeSpec read_runtime(const YamlNode& node, std::string& framework, std::int64_t& loss_chunks,
                         Diagnostics& diagnostics) {
  static const std::array<std::string, 2> collective_names{"overlapped", "exposed"};
  static const std::array<std::string, 2> memory_names{"record", "stall"};
  MapReader in(node, "runtime", diagnostics);
  RuntimeSpec spec;
  framework = in.text_or("framework", "maxtext");
  spec.schedule = schedule_of(in, framework);
  const bool hiding = in.boolean_or("latency_hiding_scheduler", true);
  spec.overlap_collectives = in.choice_or("collectives", collective_names, hiding ? 0 : 1) == 0;
  spec.async_compute_limit = in.integer_or("async_compute_limit", {1, 1024}, 8);
  spec.memory_fraction = in.number_or("memory_fraction", {0.0, 1.0, true}, 1.0);
  if (in.has("host_memory_limit")) {
    spec.host_memory_limit = in.quantity("host_memory_limit", Dimension::bytes, {0.0, 1e18, true});
  }
  loss_chunks = in.integer_or("loss_chunks", {1, 65'536}, 1);
  spec.stall_on_memory = in.choice_or("memory", memory_names, 0) == 1;
  for (const char* key : {"prefetch_layers", "in_flight_layers", "offload_last_layer"}) {
    if (in.has(key) && spec.schedule != CopySchedule::streamed) {
      in.error(key, fmt::format("'{}' applies to schedule streamed, not {}", key,
                                schedule_name(spec.schedule)));
    }
  }
  spec.prefetch_layers = in.integer_or("prefetch_layers", {1, 1000}, 1);
  spec.in_flight_layers = in.integer_or("in_flight_layers", {1, 1000}, 1);
  spec.offload_last_layer = in.boolean_or("offload_last_layer", true);
  in.finish();
  return spec;
}

ParallelPlan read_parallel(MapReader& scenario, Diagnostics& diagnostics) {
  ParallelPlan plan;
  plan.gpus = scenario.integer("gpus", count_range);
  const YamlNode* node = scenario.child("parallel");
  if (node == nullptr) {
    plan.fsdp = plan.gpus;
    return plan;
  }
  MapReader in(*node, "parallel", diagnostics);
  plan.expert = in.integer_or("expert", count_range, 1);
  plan.fsdp =
      in.integer_or("fsdp", count_range, std::max<std::int64_t>(1, plan.gpus / plan.expert));
  in.finish();
  if (plan.fsdp * plan.expert != plan.gpus) {
    scenario.error("gpus",
                   fmt::format("{} GPUs cannot be split into fsdp {} x expert {}", plan.gpus,
                               plan.fsdp, plan.expert),
                   fmt::format("gpus must equal the product, {}", plan.fsdp * plan.expert));
  }
  return plan;
}

BatchSpec read_batch(const YamlNode& node, Diagnostics& diagnostics) {
  MapReader in(node, "batch", diagnostics);
  BatchSpec batch;
  batch.micro = in.integer("micro", {1, 65'536});
  batch.accumulation = in.integer_or("accumulation", {1, 4096}, 1);
  batch.sequence = in.integer("sequence", {1, 16'777'216});
  in.finish();
  return batch;
}

void check_experts(MapReader& in, const Scenario& scenario) {
  const std::int64_t parts = scenario.parallel.expert;
  if (scenario.model.experts == 0 && parts > 1) {
    in.error("parallel",
             fmt::format("model '{}' has no experts to split over expert {}", scenario.model.name,
                         parts),
             "remove 'expert'");
  } else if (scenario.model.experts > 0 && scenario.model.experts % parts != 0) {
    in.error(
        "parallel",
        fmt::format("{} experts cannot be divided over expert {}", scenario.model.experts, parts),
        "expert must divide the number of experts");
  } else if (scenario.model.experts > 0 && scenario.batch.micro * scenario.batch.sequence *
                                                   scenario.model.experts_per_token %
                                                   (scenario.model.experts / parts) !=
                                               0) {
    in.error("batch",
             fmt::format("{} routed rows cannot be divided evenly over {} experts of a GPU",
                         scenario.batch.micro * scenario.batch.sequence *
                             scenario.model.experts_per_token,
                         scenario.model.experts / parts),
             "balanced routing needs micro x sequence x experts per token divisible by them");
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
    for (const YamlEntry& value : entry.value.entries) {
      if (value.key != "source") {
        scenario.published[entry.key].push_back(
            {value.key, map.number(value.key, {0.0, 1e30}), source, value.key_place});
      }
    }
    map.finish();
  }
}

// Sizes whose product must stay well inside 64 bits: bytes of one tensor and
// the whole step's tokens.
void check_size(MapReader& in, const Scenario& scenario) {
  const double tokens = static_cast<double>(scenario.batch.micro) *
                        static_cast<double>(scenario.batch.sequence) *
                        static_cast<double>(scenario.batch.accumulation);
  const ModelSpec& m = scenario.model;
  const double widest = static_cast<double>(std::max(
      {m.vocabulary, m.dense_width, m.expert_width * std::max<std::int64_t>(1, m.experts_per_token),
       m.hidden * std::max<std::int64_t>(1, m.experts_per_token),
       m.attention.heads * (m.attention.qk_dim() + m.attention.v_dim())}));
  if (tokens * widest > 1e16) {
    in.error("batch", "this batch is too large to simulate",
             "micro x accumulation x sequence x the widest activation must stay below 1e16");
  }
}

} // namespace

const char* schedule_name(CopySchedule schedule) {
  return schedule_names[static_cast<std::size_t>(schedule)].c_str();
}

double Scenario::host_limit() const {
  const double share = device.host_memory.value / static_cast<double>(device.gpus_per_cpu);
  return runtime.host_memory_limit ? std::min(*runtime.host_memory_limit, share) : share;
}

const PolicySpec& Scenario::policy(const std::string& policy_name) const {
  std::vector<std::string> names;
  for (const PolicySpec& spec : policies) {
    if (spec.name == policy_name) {
      return spec;
    }
    names.push_back(spec.name);
  }
  throw InputError(fmt::format("scenario '{}' has no policy '{}'", name, policy_name),
                   suggestion(policy_name, names));
}

YamlNode load_scenario_tree(const Catalog& catalog, const std::string& name_or_path,
                            const std::vector<std::string>& assignments) {
  YamlNode tree =
      catalog.load_file(CatalogKind::scenario, catalog.find(CatalogKind::scenario, name_or_path));
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
  if (const YamlNode* precision = in.child("precision")) {
    scenario.precision = read_precision(*precision, diagnostics);
  }
  std::string framework = "maxtext";
  Place framework_place;
  if (const YamlNode* runtime = in.child("runtime")) {
    scenario.runtime = read_runtime(*runtime, framework, scenario.batch.loss_chunks, diagnostics);
    const YamlNode* named = runtime->find("framework");
    framework_place = named != nullptr ? named->place : Place{};
  }
  scenario.framework = read_framework(
      catalog.load_file(CatalogKind::framework,
                        catalog.find(CatalogKind::framework, framework, framework_place)),
      diagnostics);
  scenario.assumed = read_assumed(in, tree, diagnostics);
  read_published(in, scenario, diagnostics);
  const YamlNode* policies = in.required_child("policies");
  in.finish();
  check_experts(in, scenario);
  check_size(in, scenario);
  diagnostics.throw_if_any(); // below, sizes are used

  scenario.trace = build_trace(scenario.model, scenario.parallel, scenario.batch,
                               scenario.framework, scenario.precision.compute);
  if (!policies->is_map() || policies->entries.empty()) {
    in.error("policies", "'policies' must be a map with at least one policy");
  }
  for (const YamlEntry& entry : policies->entries) {
    scenario.policies.push_back(read_policy(entry.key, entry.value, scenario.trace, diagnostics));
  }
  for (const auto& [policy, values] : scenario.published) {
    if (policies->find(policy) == nullptr) {
      diagnostics.add(values.empty() ? in.place_of("published") : values.front().place,
                      fmt::format("'published' names the unknown policy '{}'", policy));
    }
  }
  diagnostics.throw_if_any();
  return scenario;
}

Scenario load_scenario(const Catalog& catalog, const std::string& name_or_path,
                       const std::vector<std::string>& assignments) {
  const YamlNode tree = load_scenario_tree(catalog, name_or_path, assignments);
  return read_scenario(catalog, tree, std::filesystem::path(name_or_path).stem().string());
}

} // namespace spillway
