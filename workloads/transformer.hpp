// Builds the StepTrace of a decoder-only transformer.
//
// Tensor names and the place where they are tagged follow MaxText (decoder and
// attention layers at e591f30cb): query and key after rotary embedding, gate and
// up before the activation function, the product of the two unnamed. FLOPs
// follow the formulas of its maxtext_utils.py.
#pragma once

#include "workloads/framework.hpp"
#include "workloads/model_spec.hpp"
#include "workloads/trace.hpp"

namespace spillway {

struct BatchSpec {
  std::int64_t micro = 1; // sequences per GPU and micro-step
  std::int64_t accumulation = 1;
  std::int64_t sequence = 0; // tokens
  // Parts in which logits and loss are computed, each with its gradient, so that
  // only one part's logits are alive (a fused or chunked loss kernel).
  std::int64_t loss_chunks = 1;
  // Routed rows of the simulated rank over the mean of its expert-parallel group.
  double routing_imbalance = 1;
};

// Precondition: plan.gpus == plan.fsdp * plan.expert, plan.expert divides the
// number of experts (1 for dense models), and the imbalance is in 1 .. plan.expert.
[[nodiscard]] StepTrace build_trace(const ModelSpec& model, const ParallelPlan& plan,
                                    const BatchSpec& batch, const FrameworkSpec& framework,
                                    DataType compute);

} // namespace spillway
