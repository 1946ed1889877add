#include "sim/lower/lower.hpp"

#include "sim/lower/pricing.hpp"
#include "sim/lower/rank_emitter.hpp"
#include "sim/lower/step_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace spillway {
namespace {

constexpr std::array<const char*, phase_count> phase_names{"forward", "recompute", "backward",
                                                           "optimizer", "other"};
constexpr std::array<const char*, hbm_owner_count> owner_names{
    "weights",           "gradients",       "optimizer_state",     "gathered_weights",
    "saved_activations", "workspace",       "recompute_workspace", "offload_staging",
    "dispatch_buffers",  "logits_and_loss", "framework_context"};

ResourceId add_resource(Machine& machine, std::string name, double capacity) {
  machine.resources.push_back({std::move(name), capacity});
  return static_cast<ResourceId>(machine.resources.size() - 1);
}

LaneId add_lane(Machine& machine, std::string name) {
  machine.lanes.push_back({std::move(name)});
  return static_cast<LaneId>(machine.lanes.size() - 1);
}

PoolId add_pool(Machine& machine, Pool pool) {
  machine.pools.push_back(std::move(pool));
  return static_cast<PoolId>(machine.pools.size() - 1);
}

void add_rank_pools(StepContext& context, std::uint16_t rank) {
  Machine& machine = context.out.machine;
  Pool hbm;
  hbm.name = fmt::format("HBM of gpu {}", rank);
  hbm.owners.assign(owner_names.begin(), owner_names.end());
  context.out.hbm_pool.push_back(add_pool(machine, std::move(hbm)));

  Pool host;
  host.name = fmt::format("host memory of gpu {}", rank);
  host.owners.resize(context.host_owners.size());
  for (const auto& [name, owner] : context.host_owners) {
    host.owners[owner] = name;
  }
  context.out.host_pool.push_back(add_pool(machine, std::move(host)));
}

// What a rank holds before the step: its shards, and what does not fit beside
// the framework's memory pool.
void hold_static_memory(StepContext& context, std::uint16_t rank) {
  const PrecisionSpec& p = context.scenario.precision;
  const double parameters = context.held_parameters();
  const auto hold = [&](HbmOwner owner, double bytes) {
    context.graph.hold_from_the_start(
        {context.out.hbm_pool[rank], static_cast<OwnerId>(owner), std::llround(bytes)});
  };
  hold(HbmOwner::weights, parameters * static_cast<double>(p.weights));
  hold(HbmOwner::optimizer_state,
       parameters * static_cast<double>(p.master + p.moment1 + p.moment2));
  const Device& device = context.scenario.device;
  const double outside = (1.0 - context.scenario.runtime.memory_fraction) * device.memory.value;
  hold(HbmOwner::framework_context, std::max(0.0, device.context.value - outside));
}

void add_ranks(StepContext& context) {
  const Device& device = context.scenario.device;
  Machine& machine = context.out.machine;
  const auto ranks = static_cast<std::uint16_t>(ranks_per_cpu(context.scenario));
  context.out.cpu_memory = add_resource(machine, "CPU memory", device.host_pool_rate.value);
  for (std::uint16_t rank = 0; rank < ranks; ++rank) {
    const auto name = [&](const char* what) { return fmt::format("{} of gpu {}", what, rank); };
    RankResources resources;
    resources.d2h = add_resource(machine, name("D2H link"), device.d2h_rate.value);
    resources.h2d = add_resource(machine, name("H2D link"), device.h2d_rate.value);
    if (device.duplex_rate) {
      resources.duplex = add_resource(machine, name("host link"), device.duplex_rate->value);
    }
    resources.scale_up = add_resource(machine, name("scale-up link"), device.scale_up_rate.value);
    resources.scale_out = add_resource(machine, name("NIC"), device.scale_out_rate.value);
    RankLanes lanes;
    lanes.compute = add_lane(machine, name("compute"));
    lanes.d2h = add_lane(machine, name("D2H copies"));
    // A runtime that runs one asynchronous copy at a time has one queue for both.
    lanes.h2d = context.scenario.runtime.async_compute_limit == 1
                    ? lanes.d2h
                    : add_lane(machine, name("H2D copies"));
    lanes.weights = add_lane(machine, name("weight collectives"));
    lanes.exchange = add_lane(machine, name("exchanges"));
    lanes.release = add_lane(machine, name("bookkeeping"));
    context.out.lanes.push_back(lanes);
    add_rank_pools(context, rank);
    hold_static_memory(context, rank);
    RankEmitter(context, rank, lanes, resources).emit_step();
  }
}

} // namespace

const char* phase_name(Phase phase) {
  return phase_names[static_cast<std::size_t>(phase)];
}
const char* hbm_owner_name(HbmOwner owner) {
  return owner_names[static_cast<std::size_t>(owner)];
}

std::uint32_t StepContext::label(const std::string& text) {
  const auto found = label_ids.find(text);
  if (found != label_ids.end()) {
    return found->second;
  }
  const auto id = static_cast<std::uint32_t>(out.labels.size());
  out.labels.push_back(text);
  label_ids.emplace(text, id);
  return id;
}

std::int64_t StepContext::gathered_bytes(std::size_t layer, std::size_t group) const {
  return kind_of(layer).parameters[group] * bytes_per_element(scenario.precision.compute);
}

HeadGradient StepContext::head_gradient() const {
  bool offloads = false;
  for (const KindPlan& kind : plan.kinds) {
    if (kind.unchecked && scenario.runtime.head_gradient == HeadGradient::automatic) {
      return HeadGradient::automatic;
    }
    offloads = offloads || kind.offloaded.count() > 0;
  }
  return resolve_head_gradient(scenario, offloads);
}

std::int64_t StepContext::logit_gradient() const {
  const LayerKind& head = kind_of(layers.size() - 1);
  for (const Tensor& tensor : head.tensors) {
    if (tensor.role == TensorRole::logits) {
      return tensor.bytes.count();
    }
  }
  return 0;
}

std::int64_t StepContext::unchecked_bytes(std::size_t layer) const {
  if (!plan.kinds[layers[layer].kind].unchecked) {
    return 0;
  }
  const LayerKind& kind = kind_of(layer);
  const FrameworkSpec& f = scenario.framework;
  double bytes =
      f.unchecked_stream.value * static_cast<double>(kind.tensors[kind.input].bytes.count()) +
      f.unchecked_norm.value * static_cast<double>(kind.normed_bytes.count()) +
      f.unchecked_activation.value * static_cast<double>(kind.inner_bytes.count());
  for (std::size_t g = 0; g < weight_group_count; ++g) {
    bytes += copies_weights(layer, g)
                 ? f.unchecked_weights.value * shard_parameters(layer, g) *
                       static_cast<double>(bytes_per_element(scenario.precision.compute))
                 : 0.0;
  }
  return std::llround(bytes);
}

bool StepContext::copies_weights(std::size_t layer, std::size_t group) const {
  const bool cast = scenario.precision.weights != bytes_per_element(scenario.precision.compute) &&
                    kind_of(layer).casts_weights;
  return shard_group(group).size > 1 || cast;
}

bool StepContext::folds_by_matrix(std::size_t layer, std::size_t group) const {
  return by_matrix(group) && kind_of(layer).checkpointed;
}

bool StepContext::by_matrix(std::size_t group) const {
  return scenario.framework.gradients_allocated_at_once && shard_group(group).size == 1;
}

bool StepContext::keeps_casts(std::size_t layer) const {
  return plan.kinds[layers[layer].kind].unchecked && scenario.framework.unchecked_weights.value > 0;
}

double StepContext::held_parameters() const {
  double sum = 0;
  for (const double parameters : scenario.trace.sharded_parameters) {
    sum += parameters;
  }
  return sum;
}

double StepContext::loop_parameters() const {
  double sum = 0;
  for (const LayersOfProgram& same : layers_of) {
    for (std::size_t g = 0; kind_of(same.one).checkpointed && g < weight_group_count; ++g) {
      sum += static_cast<double>(same.count) * shard_parameters(same.one, g);
    }
  }
  return sum;
}

bool StepContext::gradient_is_there(std::size_t layer, std::size_t group) const {
  return layer == 0 && group == 0 && tied_shard() > 0;
}

double StepContext::tied_shard() const {
  return static_cast<double>(kind_of(layers.size() - 1).tied_parameters) /
         static_cast<double>(shard_group(0).size);
}

double StepContext::shard_parameters(std::size_t layer, std::size_t group) const {
  return static_cast<double>(kind_of(layer).parameters[group]) /
         static_cast<double>(shard_group(group).size);
}

std::int64_t ranks_per_cpu(const Scenario& scenario) {
  return std::min(scenario.device.gpus_per_cpu, scenario.parallel.gpus);
}

// Seen in compiled steps: dense layers late, expert layers early, and the other way
// round when the loop is rotated around offloaded tensors; without checkpoint
// neither the logits' gradient nor the embedding's table is held.
HeadGradient resolve_head_gradient(const Scenario& scenario, bool offloads) {
  if (scenario.runtime.head_gradient != HeadGradient::automatic) {
    return scenario.runtime.head_gradient;
  }
  if (scenario.batch.loss_chunks > 1) { // logits of all tokens are never there
    return HeadGradient::early;
  }
  const bool rotated = offloads && scenario.runtime.rotated;
  return (scenario.model.experts > 0) == rotated ? HeadGradient::late : HeadGradient::early;
}

Lowered lower(const Scenario& scenario, const Plan& plan, RateCache& cache,
              const LeftOut& left_out) {
  Lowered out;
  TaskGraphBuilder graph;
  const CostModel cost(scenario.device, scenario.parallel.gpus, cache);
  StepContext context{scenario, cost, out, graph, plan, {}, left_out, {}, {}, {}, {}};
  make_layers(context);
  for (const LayerProgram& program : context.programs) {
    for (const OffloadedTensor& offloaded : program.offloaded) {
      context.host_owners.emplace(offloaded.name, 0);
    }
  }
  OwnerId next = 0;
  for (auto& [name, owner] : context.host_owners) {
    owner = next++;
  }
  add_ranks(context);
  out.graph = std::move(graph).build(out.machine);
  price(scenario, cost, out);
  out.extrapolations = cost.extrapolations();
  return out;
}

} // namespace spillway
