#include "policies/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace spillway {
namespace {

struct Closure {
  std::vector<bool> needed; // by tensor
  std::vector<OpIndex> rerun;
};

// `boundary`: tensors whose value is at hand without running anything.
Closure close_over(const LayerKind& kind, const std::vector<bool>& boundary) {
  Closure closure;
  closure.needed.assign(kind.tensors.size(), false);
  std::vector<bool> rerun(kind.ops.size(), false);
  std::vector<TensorIndex> open;
  const auto need = [&](TensorIndex tensor) {
    if (!closure.needed[tensor]) {
      closure.needed[tensor] = true;
      open.push_back(tensor);
    }
  };
  for (const BackwardOp& backward : kind.backward) {
    for (const TensorIndex tensor : backward.needs) {
      need(tensor);
    }
  }
  while (!open.empty()) {
    const TensorIndex tensor = open.back();
    open.pop_back();
    if (boundary[tensor]) {
      continue;
    }
    const OpIndex producer = kind.tensors[tensor].producer;
    if (!rerun[producer]) {
      rerun[producer] = true;
      for (const TensorIndex read : kind.ops[producer].reads) {
        need(read);
      }
    }
  }
  for (OpIndex op = 0; op < kind.ops.size(); ++op) {
    if (rerun[op]) {
      closure.rerun.push_back(op);
    }
  }
  return closure;
}

// The name that decides about a tensor, if the policy lists one of its names.
std::optional<std::pair<std::string, Fate>> listed_fate(
    const std::map<std::string, Fate, std::less<>>& fates, const Tensor& tensor) {
  for (const std::string& name : tensor.policy_names) {
    const auto found = fates.find(name);
    if (found != fates.end()) {
      return *found;
    }
  }
  return std::nullopt;
}

std::vector<Fate> fates_of(const PolicySpec& policy, const LayerKind& kind,
                           std::vector<std::string>& listed) {
  std::vector<Fate> fates;
  listed.assign(kind.tensors.size(), {});
  std::vector<bool> residual(kind.tensors.size(), false); // what backward itself reads
  for (const BackwardOp& backward : kind.backward) {
    for (const TensorIndex t : backward.needs) {
      residual[t] = true;
    }
  }
  const auto own = policy.by_kind.find(kind.name);
  for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
    const Tensor& tensor = kind.tensors[t];
    const bool keep = t == kind.input || (policy.preset == Preset::none && residual[t]);
    Fate fate = keep ? Fate::keep : Fate::recompute;
    if (const auto preset = listed_fate(policy.preset_tensors, tensor)) {
      fate = preset->second;
    }
    if (const auto common = listed_fate(policy.tensors, tensor)) {
      fate = common->second;
      listed[t] = common->first;
    }
    if (own != policy.by_kind.end()) {
      if (const auto special = listed_fate(own->second, tensor)) {
        fate = special->second;
        listed[t] = special->first;
      }
    }
    fates.push_back(fate);
  }
  return fates;
}

std::vector<bool> boundary_of(const LayerKind& kind, const std::vector<Fate>& fates) {
  std::vector<bool> boundary(fates.size());
  for (TensorIndex t = 0; t < fates.size(); ++t) {
    boundary[t] = fates[t] != Fate::recompute || t == kind.input;
  }
  return boundary;
}

// A kernel that costs real time: a product, attention or a collective.
bool is_heavy(const Op& op) {
  return op.work.kind != WorkKind::none && op.work.kind != WorkKind::memory;
}

// The heavy operations that saving `tensor` spares.
std::vector<std::string> spared_by(const LayerKind& kind, const Closure& closure,
                                   std::vector<bool> boundary, TensorIndex tensor) {
  boundary[tensor] = false;
  std::vector<std::string> names;
  for (const OpIndex op : close_over(kind, boundary).rerun) {
    if (is_heavy(kind.ops[op]) &&
        !std::binary_search(closure.rerun.begin(), closure.rerun.end(), op)) {
      names.push_back(kind.ops[op].name);
    }
  }
  return names;
}

KindPlan decide_kind(const PolicySpec& policy, const LayerKind& kind,
                     std::vector<std::string>& warnings) {
  std::vector<std::string> listed; // the name by which the policy decided, if any
  const std::vector<Fate> fates = fates_of(policy, kind, listed);
  const std::vector<bool> boundary = boundary_of(kind, fates);
  const Closure closure = close_over(kind, boundary);

  KindPlan plan;
  plan.rerun = closure.rerun;
  plan.unchecked = kind.checkpointed && policy.preset == Preset::none;
  for (TensorIndex t = 0; t < fates.size(); ++t) {
    const Tensor& tensor = kind.tensors[t];
    TensorDecision decision{fates[t], closure.needed[t], {}};
    plan.unchecked = plan.unchecked && (listed[t].empty() || decision.fate == Fate::keep);
    if (!decision.needed) {
      decision.reason = "backward does not need it";
      if (!listed[t].empty() && decision.fate != Fate::recompute) {
        warnings.push_back(fmt::format("'{}: {}' has no effect on '{}' in {} layers: {}", listed[t],
                                       fate_name(decision.fate), tensor.name, kind.name,
                                       decision.reason));
      }
    } else if (decision.fate == Fate::recompute) {
      decision.reason = fmt::format("re-run by {}", kind.ops[tensor.producer].name);
    } else if (t == kind.input) {
      decision.reason = "the layer is recomputed from it";
    } else {
      const std::vector<std::string> spared = spared_by(kind, closure, boundary, t);
      decision.reason =
          spared.empty() ? "spares no product" : fmt::format("spares {}", fmt::join(spared, ", "));
      if (!listed[t].empty() && spared.empty() && policy.preset != Preset::none) {
        warnings.push_back(fmt::format(
            "'{}: {}' saves little in {} layers: every product before it runs again anyway",
            listed[t], fate_name(decision.fate), kind.name));
      }
    }
    plan.kept += decision.kept() ? tensor.bytes : Bytes{};
    plan.offloaded += decision.offloaded() ? tensor.bytes : Bytes{};
    plan.tensors.push_back(std::move(decision));
  }
  return plan;
}

void warn_of_foreign_names(const PolicySpec& policy, const FrameworkSpec& framework,
                           std::vector<std::string>& warnings) {
  if (framework.policy_names.empty()) {
    return;
  }
  std::set<std::string> listed;
  for (const auto& [name, fate] : policy.tensors) {
    listed.insert(name);
  }
  for (const auto& [kind, fates] : policy.by_kind) {
    for (const auto& [name, fate] : fates) {
      listed.insert(name);
    }
  }
  for (const std::string& name : listed) {
    if (std::find(framework.policy_names.begin(), framework.policy_names.end(), name) ==
        framework.policy_names.end()) {
      warnings.push_back(fmt::format("{} has no name for '{}': its policies cannot choose it",
                                     framework.title, name));
    }
  }
}

// A layer of experts names its products moe_NAME; some of them carry NAME as well.
constexpr const char* expert_prefix = "moe_";

// "mlpwi_1" is listed, and the experts' own is called "moe_mlpwi_1" and nothing else.
void warn_of_missed_experts(const PolicySpec& policy, const LayerKind& kind, const KindPlan& plan,
                            std::vector<std::string>& warnings) {
  std::map<std::string, Fate, std::less<>> listed = policy.tensors;
  listed.insert(policy.preset_tensors.begin(), policy.preset_tensors.end());
  for (const auto& [name, fate] : listed) {
    for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
      const std::vector<std::string>& names = kind.tensors[t].policy_names;
      if (fate != Fate::recompute && plan.tensors[t].needed && !plan.tensors[t].saved() &&
          names == std::vector<std::string>{expert_prefix + name}) {
        warnings.push_back(fmt::format(
            "'{}: {}' does not reach '{}' in {} layers, which is recomputed: its name is '{}'",
            name, fate_name(fate), kind.tensors[t].name, kind.name, names.front()));
      }
    }
  }
}

bool recomputes(const LayerKind& kind, const KindPlan& plan, const std::string& name) {
  for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
    const std::vector<std::string>& names = kind.tensors[t].policy_names;
    if (!names.empty() && names.front() == name && plan.tensors[t].needed &&
        !plan.tensors[t].saved()) {
      return true;
    }
  }
  return false;
}

void warn_of_preset(const PolicySpec& policy, const StepTrace& trace, const Plan& plan,
                    std::vector<std::string>& warnings) {
  std::vector<std::string> recomputed;
  for (const std::string& name : policy.preset_leaves) {
    bool found = false;
    for (std::size_t k = 0; k < trace.kinds.size(); ++k) {
      found = found || recomputes(trace.kinds[k], plan.kinds[k], name);
    }
    if (found) {
      recomputed.push_back(name);
    }
  }
  if (!recomputed.empty()) {
    warnings.push_back(fmt::format("preset {} recomputes {}: list what is to be saved of them "
                                   "under 'tensors'",
                                   policy.framework_preset, fmt::join(recomputed, ", ")));
  }
}

} // namespace

Plan decide(const PolicySpec& policy, const StepTrace& trace, const FrameworkSpec& framework) {
  Plan plan;
  PolicySpec keep_all;
  keep_all.preset = Preset::none;
  std::set<std::string> named; // windowed layers are told the same as others of their name
  for (const LayerKind& kind : trace.kinds) {
    std::vector<std::string> warnings;
    plan.kinds.push_back(decide_kind(kind.checkpointed ? policy : keep_all, kind, warnings));
    if (kind.checkpointed) {
      warn_of_missed_experts(policy, kind, plan.kinds.back(), warnings);
    }
    if (named.insert(kind.name).second) {
      plan.warnings.insert(plan.warnings.end(), warnings.begin(), warnings.end());
    }
  }
  warn_of_preset(policy, trace, plan, plan.warnings);
  warn_of_foreign_names(policy, framework, plan.warnings);
  return plan;
}

} // namespace spillway
