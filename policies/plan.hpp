// From a policy to a decision for every tensor, and to the set of operations
// that backward has to run again.
//
// A saved tensor is one that its fate asks for *and* that backward can use. The
// re-run set is the closure of producers: everything that backward needs and is
// not saved must be produced again, which needs its producer's inputs in turn.
// What nobody needs is not re-run, collectives included.
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
  std::vector<TensorDecision> tensors; // by TensorIndex
  std::vector<OpIndex> rerun;          // ascending
  bool unchecked = false;              // preset none and nothing else: no checkpoint around it
  Bytes kept, offloaded;               // per layer and micro-batch
};

struct Plan {
  std::vector<KindPlan> kinds; // by index into StepTrace::kinds
  std::vector<std::string> warnings;
};

[[nodiscard]] Plan decide(const PolicySpec& policy, const StepTrace& trace,
                          const FrameworkSpec& framework);

} // namespace spillway
