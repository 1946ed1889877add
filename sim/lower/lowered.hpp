// The task graph of one training step, and what its tasks, pools and resources
// mean. The engine sees numbers; the meaning stays here.
#pragma once

#include "sim/base/work.hpp"
#include "sim/engine/engine.hpp"

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace spillway {

enum class TaskKind : std::uint8_t {
  kernel,
  store,  // device to host
  reload, // host to device
  collective,
  gap,        // host work between steps
  bookkeeping // zero time: releases memory
};

// Which part of the step a task belongs to.
enum class Phase : std::uint8_t { forward, recompute, backward, optimizer, other };
inline constexpr std::size_t phase_count = 5;
[[nodiscard]] const char* phase_name(Phase phase);

struct TaskInfo {
  TaskKind kind = TaskKind::kernel;
  Phase phase = Phase::other;
  std::uint16_t rank = 0;
  std::int32_t layer = -1;       // index into Lowered::layers; -1 = none
  std::int32_t micro_batch = -1; // of those that the graph holds; -1 = none
  std::uint32_t label = 0;       // index into Lowered::labels
};

// Owners of HBM, in the order of Pool::owners.
enum class HbmOwner : std::uint8_t {
  weights,
  gradients,
  optimizer_state,
  gathered_weights,
  saved_activations,
  workspace,
  recompute_workspace,
  offload_staging,
  dispatch_buffers,
  logits_and_loss,
  framework_context,
};
inline constexpr std::size_t hbm_owner_count = 11;
[[nodiscard]] const char* hbm_owner_name(HbmOwner owner);

struct RankLanes {
  LaneId compute = 0, d2h = 0, h2d = 0;
  LaneId weights = 0;  // all-gather of weights, reduce-scatter of gradients
  LaneId exchange = 0; // all-to-all of routed rows
  LaneId release = 0;
};

struct RankResources {
  ResourceId d2h = no_id, h2d = no_id, duplex = no_id, scale_up = no_id, scale_out = no_id;
};

// Where a task's time comes from. The shape of the graph does not depend on any
// coefficient; prices do, and price() fills them in.
enum class PriceOf : std::uint8_t {
  constant, // known when the graph was made
  work,     // Lowered::works: a kernel, or a collective as a flow
  store,    // copy to the host
  reload,   // copy from the host
  peeled_store,
  peeled_reload, // the same, done by a kernel
};

struct TaskPrice {
  PriceOf of = PriceOf::constant;
  std::uint32_t work = 0;
};

// The route of a collective on a rank; its weights depend on efficiencies.
struct CollectiveRoute {
  RouteId route = 0;
  std::uint32_t work = 0;
  std::uint16_t rank = 0;
};

// Iterations of the step's loops that a graph leaves out (engine/loop.hpp).
struct LeftOut {
  std::int64_t micro_batches = 0;
  std::vector<std::int64_t> layers; // by Plan::blocks; empty = none
};

// A layer of the graph. Of a block that leaves layers out it stands for the layer that
// many further on as well: forward after what was skipped, backward before it.
struct LoweredLayer {
  std::int32_t index = 0; // over all layers of the model
  std::int32_t left_out = 0;
};

// What the iterations of Lowered::loops[i] are.
struct LoopOf {
  bool micro_batches = false; // else the layers of a block, in one direction
  bool backward = false;
  std::int32_t micro_batch = 0;
  std::uint32_t block = 0;                      // index into Plan::blocks
  std::int32_t first_layer = 0, last_layer = 0; // indices into Lowered::layers
  bool operator==(const LoopOf&) const = default;
};

struct Lowered {
  std::vector<Work> works;
  std::vector<TaskPrice> prices; // by task
  std::vector<CollectiveRoute> collective_routes;
  std::vector<RankResources> resources; // by simulated rank
  Machine machine;
  TaskGraph graph;
  std::vector<TaskInfo> tasks;
  std::vector<std::string> labels;
  std::vector<LoweredLayer> layers;
  std::vector<std::string> layer_names; // by index over all: "layer 12 (moe)", "head"
  std::vector<Loop> loops;              // with iterations left out
  std::vector<LoopOf> loops_of;         // by loop
  std::vector<RankLanes> lanes;         // by simulated rank
  std::vector<PoolId> hbm_pool;         // by simulated rank
  std::vector<PoolId> host_pool;        // by simulated rank
  ResourceId cpu_memory = no_id;        // the pool that the ranks share
  std::set<std::string> extrapolations;

  // "d attention in layer 12 (moe)"; of a task that ran several times, the first time.
  [[nodiscard]] std::string describe(TaskId task, const Timeline& timeline) const;
};

} // namespace spillway
