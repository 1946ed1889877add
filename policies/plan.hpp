// From a policy to a decision for every tensor, and to the set of operations
// that backward has to run again.
//
// A saved tensor is one that its fate asks for *and* that backward can use. The
// re-run set is the closure of producers: everything that backward needs and is
// not saved must be produced again, which needs its producer's inputs in turn.
// What nobody needs is not re-run, collectives included.
//
// A policy may decide otherwise in the first layers (PolicySpec::first). The loop that
// these end in is cut there if that changes what happens in it: two loops, as a framework
// that scans layers with one policy would need them.
#pragma once

#include "policies/policy.hpp"
#include "workloads/framework.hpp"

#include <string>
#include <vector>

namespace spillway {

struct TensorDecision {
  Fate fate = Fate::recompute;
  bool needed = false; // by backward or by the recompute of another tensor
  std::string reason;

  [[nodiscard]] bool saved() const { return needed && fate != Fate::recompute; }
  [[nodiscard]] bool kept() const { return needed && fate == Fate::keep; }
  [[nodiscard]] bool offloaded() const { return needed && fate == Fate::offload; }
};

struct KindPlan {
  std::uint32_t kind = 0;              // index into StepTrace::kinds
  bool first = false;                  // of layers in which PolicySpec::first holds
  std::vector<TensorDecision> tensors; // by TensorIndex
  std::vector<OpIndex> rerun;          // ascending
  bool unchecked = false;              // preset none and nothing else: no checkpoint around it
  Bytes kept, offloaded;               // per layer and micro-batch
};

struct Plan {
  // Those of StepTrace::kinds in their order, then second plans of the same kinds, for
  // the first layers.
  std::vector<KindPlan> kinds;
  std::vector<LayerBlock> blocks; // StepTrace::blocks, cut; their kinds are indices into `kinds`
  std::int64_t first_layers = 0;  // in which PolicySpec::first holds
  std::vector<std::string> warnings;
};

// " among the first 20", " after the first 20", or nothing where all layers of that name
// have the same plan. `kind`: index into Plan::kinds.
[[nodiscard]] std::string where_text(const Plan& plan, const StepTrace& trace, std::size_t kind);

// What follows from `fates` (by TensorIndex) in layers of this kind, without reasons.
[[nodiscard]] KindPlan plan_for(const LayerKind& kind, const std::vector<Fate>& fates);

[[nodiscard]] Plan decide(const PolicySpec& policy, const StepTrace& trace,
                          const FrameworkSpec& framework);

} // namespace spillway
