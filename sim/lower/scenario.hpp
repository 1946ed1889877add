// A scenario: which model runs on which hardware, how it is split and scheduled,
// and the policies to compare. See README, "Scenario files", for every key.
#pragma once

#include "hw_models/device.hpp"
#include "policies/policy.hpp"
#include "sim/lower/catalog.hpp"
#include "workloads/transformer.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// How copies between HBM and host memory are ordered against the layer loop.
enum class CopySchedule : std::uint8_t { serialized, loop_bound, pipelined, streamed };
[[nodiscard]] const char* schedule_name(CopySchedule schedule);

struct PrecisionSpec {
  DataType compute = DataType::bf16;
  // Bytes per parameter of each state; 0 = not held.
  std::int64_t weights = 4, gradients = 4, master = 0, moment1 = 4, moment2 = 4;
};

// When the gradient of the head's weights is computed: right after the loss, or
// after the whole backward, which keeps the logits' gradient until then. Time does
// not care. `automatic` is what was seen compilers do.
enum class HeadGradient : std::uint8_t { automatic, early, late };

struct RuntimeSpec {
  CopySchedule schedule = CopySchedule::pipelined;
  // Whether the layer loop is rotated. Serialized copies keep their places in the
  // loop, and their staging, but run on the compute lane.
  bool rotated = true;
  std::vector<std::string> notes; // what a reader of results should know
  HeadGradient head_gradient = HeadGradient::automatic;
  bool overlap_collectives = true; // false: collectives run on the compute stream
  std::int64_t async_compute_limit = 8;
  double memory_fraction = 1.0;
  std::optional<double> host_memory_limit; // bytes per GPU
  // streamed only
  std::int64_t prefetch_layers = 1;  // how many layers ahead a reload may start
  std::int64_t in_flight_layers = 1; // stores of layer i end before layer i + 1 + this begins
  bool offload_last_layer = true;
};

// Where copies stand in the layer loop; serialized ones stand where they would otherwise
// run beside kernels.
[[nodiscard]] CopySchedule copy_places(const RuntimeSpec& runtime);

// Per GPU, in bytes, on a device that may differ in its coefficients.
[[nodiscard]] double hbm_limit(const RuntimeSpec& runtime, const Device& device);
[[nodiscard]] double host_share(const Device& device); // of its CPU's memory
[[nodiscard]] double host_limit(const RuntimeSpec& runtime, const Device& device);

struct Assumption {
  std::string what, value, why;
};

struct PublishedValue {
  std::string field; // name in the field table, or "speedup"
  std::string over;  // of a speedup: the policy that it is measured against
  double value = 0;
  std::string source;
  Place place;
};

struct Scenario {
  std::string name;
  std::string title;
  ModelSpec model;
  Device device;
  FrameworkSpec framework;
  ParallelPlan parallel;
  BatchSpec batch;
  PrecisionSpec precision;
  RuntimeSpec runtime;
  StepTrace trace; // of this model, split and batch
  std::vector<PolicySpec> policies;
  std::vector<PolicySpec> presets; // none, full, and those of the framework, by name
  std::vector<Assumption> assumed;
  std::map<std::string, std::vector<PublishedValue>> published; // by policy

  // One of the scenario's, else one of the framework's. Throws InputError.
  [[nodiscard]] const PolicySpec& policy(const std::string& policy_name) const;
};

// Ranks that share a CPU's memory; a job smaller than a CPU's GPUs has the CPU to itself.
[[nodiscard]] std::int64_t ranks_per_cpu(const Scenario& scenario);

// Where every layer has a checkpoint: early or late. `offloads`: whether the policy does.
[[nodiscard]] HeadGradient resolve_head_gradient(const Scenario& scenario, bool offloads);

// Whether balanced routing can spread a micro-batch evenly over a GPU's experts.
[[nodiscard]] bool routes_evenly(const ModelSpec& model, const ParallelPlan& plan,
                                 const BatchSpec& batch);

// Loads a scenario by name or path and lays the `--set` assignments over it.
// Throws InputError with every mistake found.
[[nodiscard]] Scenario load_scenario(const Catalog& catalog, const std::string& name_or_path,
                                     const std::vector<std::string>& assignments = {});

// The resolved tree (extends followed, --set applied), before it is read.
[[nodiscard]] YamlNode load_scenario_tree(const Catalog& catalog, const std::string& name_or_path,
                                          const std::vector<std::string>& assignments);
[[nodiscard]] Scenario read_scenario(const Catalog& catalog, const YamlNode& tree,
                                     const std::string& name);

} // namespace spillway
