// Lowers a trace and its plan to tasks on lanes.
//
// All GPUs run the same step on their own rows, so one CPU's GPUs stand for all:
// the ranks that share a CPU's memory are simulated together, each with lanes
//
//   compute     kernels; whatever is not overlapped
//   d2h, h2d    copy engines, one per direction
//   weights     all-gather of weights and reduce-scatter of gradients
//   exchange    all-to-all of routed rows
//   release     zero-time bookkeeping: gives back what a finished store held
//
// Collectives, `overlapped`: the weights of a layer are gathered while the layer
// before it runs, gradients are reduced while the next layer's backward runs,
// and an all-to-all runs beside whatever does not depend on it. `exposed`: every
// collective runs on the compute lane where it is issued.
//
// Copies, by schedule:
//   serialized  in the places of `pipelined` (or of `loop_bound` where the loop is
//               not rotated), but on the compute lane
//   loop_bound  a store ends inside the layer that produced it; a reload starts
//               at the top of the layer's backward and its consumer waits
//   pipelined   a store starts at the top of the next layer of the same loop and
//               ends before that layer produces the same tensor again, or at its
//               end; a reload starts one layer ahead, from the attention backward
//               on (from the top with many names), and ends with that layer. The
//               loop's last store and first reload are peeled: kernels on the
//               compute lane
//   streamed    a store starts when its tensor is there and ends before layer
//               i + 1 + in_flight begins; a reload starts prefetch layers ahead
#pragma once

#include "hw_models/cost.hpp"
#include "policies/plan.hpp"
#include "sim/lower/lowered.hpp"
#include "sim/lower/scenario.hpp"

namespace spillway {

// The step with the prices of the scenario's device. `cache` keeps table look-ups
// between calls with the same tables. `left_out`: less than all layers of a block, and
// of micro-batches (fold.hpp chooses).
[[nodiscard]] Lowered lower(const Scenario& scenario, const Plan& plan, RateCache& cache,
                            const LeftOut& left_out = {});

} // namespace spillway
