// One layer's forward or backward as a list of steps, with the memory that each
// step takes and gives back. All layers of a kind share a program, so liveness is
// worked out once.
//
// Liveness: a tensor lives from the step that writes it to the last step that
// reads it; a saved one is handed over from forward to backward. In backward the
// operations to re-run are placed just before the first step that needs them, or, in a
// compiled loop, at its top, save cheap ones. Where kept tensors are parts of stacks of
// all layers they stay until their layer is done, and library calls read copies.
#pragma once

#include "policies/plan.hpp"
#include "sim/lower/lowered.hpp"

#include <array>
#include <vector>

namespace spillway {

struct OwnerBytes {
  HbmOwner owner = HbmOwner::workspace;
  std::int64_t bytes = 0;
};

struct ProgramStep {
  std::string name;
  Phase phase = Phase::forward;
  bool is_collective = false;
  bool is_attention_backward = false;
  std::uint32_t work = 0;           // index into Lowered::works
  std::vector<OwnerBytes> allocate; // at start
  std::vector<OwnerBytes> release;  // at end
  // Earlier steps of this program on the other lane (kernel or collective) whose
  // results this step reads.
  std::vector<std::uint32_t> waits;
  std::array<bool, weight_group_count> first_use{}; // of gathered weights
  std::array<bool, weight_group_count> last_use{};
  // Bytes of the matrices that this step is the first, or the last, to use.
  std::array<std::int64_t, weight_group_count> first_use_bytes{};
  std::array<std::int64_t, weight_group_count> last_use_bytes{};
  std::array<bool, weight_group_count> first_gradient{}; // of the weights
  std::array<bool, weight_group_count> last_gradient{};
  std::array<std::int64_t, weight_group_count> gradient_bytes{}; // of what this step writes
  std::vector<TensorIndex> stores;  // forward: offloaded tensors complete after this step
  std::vector<TensorIndex> reloads; // backward: offloaded tensors first read by this step
};

struct OffloadedTensor {
  TensorIndex tensor = 0;
  std::int64_t bytes = 0;
  std::uint32_t last_forward_reader = 0; // step of the forward program
  std::uint32_t last_backward_reader = 0;
  bool done_before_attention = false; // that step comes before attention's backward
  bool is_input = false;              // the layer input: produced by the previous layer
  std::string name;                   // as the policy calls it
};

struct LayerProgram {
  std::vector<ProgramStep> forward;
  std::vector<ProgramStep> backward;
  std::vector<OffloadedTensor> offloaded;
  HbmOwner input_owner = HbmOwner::workspace; // who holds the layer input
  std::int64_t kept_bytes = 0;                // that a layer keeps for backward
  // Of the matrices of a group that backward uses.
  [[nodiscard]] std::int64_t matrix_bytes(std::size_t group) const;
  [[nodiscard]] bool uses_weights(bool backward_pass, std::size_t group) const;
};

// One operation of a layer's backward.
struct BackwardItem {
  bool rerun = false;       // of a forward operation
  bool free = false;        // re-run in passing, by its own backward: takes no time
  bool after_rerun = false; // a gradient whose operands had to be re-run
  std::uint32_t index = 0;  // into LayerKind::ops or ::backward
};

// In the order in which they are issued: each comes after what must be re-run for it.
// `compiled`: FrameworkSpec::compiled_order.
[[nodiscard]] std::vector<BackwardItem> backward_order(const LayerKind& kind, const KindPlan& plan,
                                                       bool compiled);

// The program of one kind of layer under its plan. `output_owner` is who holds
// the layer's output (the next layer's input). Appends to `works`.
[[nodiscard]] LayerProgram make_program(const LayerKind& kind, const KindPlan& plan,
                                        HbmOwner output_owner, const FrameworkSpec& framework,
                                        std::vector<Work>& works);

// Who holds the layer input of this kind.
[[nodiscard]] HbmOwner input_owner(const LayerKind& kind, const KindPlan& plan);

} // namespace spillway
