// What goes with a plan: why each tensor has its fate, what could be traded, what fits, and
// what would change the picture. Every number is of a replay, but for those said to be of
// one layer alone.
#pragma once

#include "results/planning/planner.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// The plan with one tensor's fate changed.
struct Alternative {
  Fate fate = Fate::keep;
  double slower = 0;                        // fraction of the step, negative: faster
  std::int64_t hbm_over = 0, host_over = 0; // bytes that do not fit
  [[nodiscard]] bool fits() const { return hbm_over <= 0 && host_over <= 0; }
};

struct TensorAnswer {
  std::string kind, name;
  Fate fate = Fate::recompute;
  bool pinned = false, needed = true, is_input = false;
  std::int64_t bytes = 0; // of all layers of the kind, one micro-batch
  // Of one layer, alone on the machine, seconds:
  double store = 0;                   // to the host
  double forward = 0;                 // of the layer, behind which stores hide
  double rerun = 0;                   // of the operations that saving it spares
  double rerun_flops_per_byte = 0;    // of those operations, per byte that saving it takes
  std::vector<std::string> rerun_ops; // those that are products, attention or collectives
  std::vector<Alternative> alternatives;
};

// A policy family and the largest micro-batch at which it fits; 0: none does.
struct FamilyAnswer {
  std::string policy;
  std::int64_t largest = 0;
  double tokens_per_s = 0; // of a GPU, there
};

// The fewest fates to change so that a policy of the scenario fits, the fastest such.
struct ChangeAnswer {
  std::string policy;
  std::vector<std::string> changes; // "moe.query_proj=recompute"; empty: none was found
  RunResult result;
};

// The plan, and the best named policy, when one thing is different.
struct WhatChanges {
  std::string what;
  std::string impossible;     // why it cannot be
  double plan = 0, named = 0; // tokens per second and GPU
  bool plan_fits = false, named_fits = false;
};

// Bytes that a GPU can store while forward runs, and what the plan stores.
struct FreeTransfer {
  double forward_s = 0; // of all decoder layers and one micro-batch, without copies
  double rate = 0;      // bytes per second, all GPUs of the CPU at once
  std::int64_t offloaded = 0;
  [[nodiscard]] double bytes() const { return forward_s * rate; }
};

// The plan in the first layers, and more kept or less moved in the others.
struct DepthAnswer {
  std::int64_t layers = 0; // decoder layers that have the plan's own fates
  PolicySpec policy;
  std::vector<std::string> changes; // of the other layers
  RunResult result;
};

struct PlanAnswers {
  std::vector<TensorAnswer> tensors;
  std::vector<std::size_t> pareto; // of PlanAnswer::replayed: time, HBM, host memory
  std::vector<FamilyAnswer> families;
  std::vector<ChangeAnswer> changes;
  std::vector<WhatChanges> what_changes;
  FreeTransfer free_transfer;
  std::optional<DepthAnswer> depth; // none: no depth that was tried is faster
};

// Precondition: `answer` has a best policy that the search can make.
[[nodiscard]] PlanAnswers explain_plan(const PlanQuestion& question, const PlanAnswer& answer,
                                       unsigned threads);

// The policies that no other one beats in time, HBM and host memory at once, fastest first.
[[nodiscard]] std::vector<std::size_t> pareto_set(const PlanAnswer& answer);

// "moe.query_proj=recompute": what is different in `to`.
[[nodiscard]] std::vector<std::string> fate_changes(const std::vector<GroupSpace>& groups,
                                                    const Choice& from, const Choice& to);

// A plan as a policy to paste into a scenario, one line.
[[nodiscard]] std::string policy_yaml(const PolicySpec& policy);

[[nodiscard]] std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer,
                                    const std::optional<PlanAnswers>& answers, std::size_t top);
[[nodiscard]] std::string plan_json(const PlanQuestion& question, const PlanAnswer& answer,
                                    const std::optional<PlanAnswers>& answers);

} // namespace spillway
