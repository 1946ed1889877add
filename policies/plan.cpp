#include "policies/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
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
std::optional<std::pair<std::string, Fate>> listed_fate(const Fates& fates, const Tensor& tensor) {
  for (const std::string& name : tensor.policy_names) {
    const auto found = fates.find(name);
    if (found != fates.end()) {
      return *found;
    }
  }
  return std::nullopt;
}

// What a policy lists for a kind of layer, weakest first.
std::vector<const Fates*> lists_for(const PolicySpec& policy, const LayerKind& kind, bool first) {
  std::vector<const Fates*> lists;
  const auto add = [&](const Fates& common, const FatesByKind& by_kind) {
    lists.push_back(&common);
    const auto own = by_kind.find(kind.name);
    if (own != by_kind.end()) {
      lists.push_back(&own->second);
    }
  };
  add(policy.tensors, policy.by_kind);
  if (first) {
    add(policy.first->tensors, policy.first->by_kind);
  }
  return lists;
}

std::vector<Fate> fates_of(const PolicySpec& policy, const LayerKind& kind, bool first,
                           std::vector<std::string>& listed) {
  std::vector<Fate> fates;
  listed.assign(kind.tensors.size(), {});
  std::vector<bool> residual(kind.tensors.size(), false); // what backward itself reads
  for (const BackwardOp& backward : kind.backward) {
    for (const TensorIndex t : backward.needs) {
      residual[t] = true;
    }
  }
  const std::vector<const Fates*> lists = lists_for(policy, kind, first);
  for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
    const Tensor& tensor = kind.tensors[t];
    const bool keep = t == kind.input || (policy.preset == Preset::none && residual[t]);
    Fate fate = keep ? Fate::keep : Fate::recompute;
    if (const auto preset = listed_fate(policy.preset_tensors, tensor)) {
      fate = preset->second;
    }
    for (const Fates* list : lists) {
      if (const auto found = listed_fate(*list, tensor)) {
        fate = found->second;
        listed[t] = found->first;
      }
    }
    fates.push_back(fate);
  }
  return fates;
}

std::vector<bool> boundary_of(const LayerKind& kind, const KindPlan& plan) {
  std::vector<bool> boundary(plan.tensors.size());
  for (TensorIndex t = 0; t < plan.tensors.size(); ++t) {
    boundary[t] = plan.tensors[t].fate != Fate::recompute || t == kind.input;
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

// Gives every decision of `plan` its reason; `listed`: the name by which the policy decided.
void explain_kind(const PolicySpec& policy, const LayerKind& kind, const std::string& where,
                  const std::vector<std::string>& listed, KindPlan& plan,
                  std::vector<std::string>& warnings) {
  const Closure closure{{}, plan.rerun};
  const std::vector<bool> boundary = boundary_of(kind, plan);
  for (TensorIndex t = 0; t < plan.tensors.size(); ++t) {
    const Tensor& tensor = kind.tensors[t];
    TensorDecision& decision = plan.tensors[t];
    if (!decision.needed) {
      decision.reason = "backward does not need it";
      if (!listed[t].empty() && decision.fate != Fate::recompute) {
        warnings.push_back(fmt::format("'{}: {}' has no effect on '{}' in {}: {}", listed[t],
                                       fate_name(decision.fate), tensor.name, where,
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
        warnings.push_back(
            fmt::format("'{}: {}' saves little in {}: every product before it runs again anyway",
                        listed[t], fate_name(decision.fate), where));
      }
    }
  }
}

// Fills in `plan`. `where`: what warnings call its layers, "moe layers".
void decide_kind(const PolicySpec& policy, const LayerKind& kind, const std::string& where,
                 KindPlan& plan, std::vector<std::string>& warnings) {
  std::vector<std::string> listed; // the name by which the policy decided, if any
  KindPlan decided = plan_for(kind, fates_of(policy, kind, plan.first, listed));
  decided.kind = plan.kind;
  decided.first = plan.first;
  plan = std::move(decided);
  plan.unchecked = kind.checkpointed && policy.preset == Preset::none;
  for (TensorIndex t = 0; t < plan.tensors.size(); ++t) {
    plan.unchecked = plan.unchecked && (listed[t].empty() || plan.tensors[t].fate == Fate::keep);
  }
  explain_kind(policy, kind, where, listed, plan, warnings);
}

// Layers of a block that are all among the first ones, or all after them.
struct Part {
  LayerBlock block;
  bool first = false;
};

// Whether what the policy lists for the first layers changes anything in this loop.
bool first_differs(const PolicySpec& policy, const StepTrace& trace, const LayerBlock& block) {
  return std::any_of(block.kinds.begin(), block.kinds.end(), [&](std::uint32_t kind) {
    std::vector<std::string> ignored;
    KindPlan others;
    KindPlan first;
    first.first = true;
    decide_kind(policy, trace.kinds[kind], {}, others, ignored);
    decide_kind(policy, trace.kinds[kind], {}, first, ignored);
    return others.unchecked != first.unchecked ||
           !std::equal(
               others.tensors.begin(), others.tensors.end(), first.tensors.begin(),
               [](const TensorDecision& a, const TensorDecision& b) { return a.fate == b.fate; });
  });
}

std::vector<Part> parts_of(const PolicySpec& policy, const StepTrace& trace) {
  std::vector<Part> parts;
  std::int64_t left = policy.first ? policy.first->layers : 0;
  for (const LayerBlock& block : trace.blocks) {
    const bool decoder = trace.kinds[block.kind_of(0)].checkpointed;
    const std::int64_t first = decoder ? std::min(left, block.layers) : 0;
    left -= first;
    if (first > 0 && first < block.layers && first_differs(policy, trace, block)) {
      auto [one, other] = cut(block, first);
      parts.push_back({std::move(one), true});
      parts.push_back({std::move(other), false});
    } else {
      parts.push_back({block, first == block.layers});
    }
  }
  return parts;
}

// Which loops there are, of which kinds, yet without decisions.
Plan arrange(const PolicySpec& policy, const StepTrace& trace) {
  const std::vector<Part> parts = parts_of(policy, trace);
  std::vector<std::array<bool, 2>> used(trace.kinds.size()); // after the first layers, in them
  for (const Part& part : parts) {
    for (const std::uint32_t kind : part.block.kinds) {
      used[kind][part.first ? 1 : 0] = true;
    }
  }
  Plan plan;
  plan.first_layers = policy.first ? policy.first->layers : 0;
  plan.kinds.resize(trace.kinds.size());
  std::vector<std::uint32_t> in_first; // by StepTrace::kinds, index into Plan::kinds
  for (std::uint32_t kind = 0; kind < trace.kinds.size(); ++kind) {
    const auto [after, before] = used[kind];
    plan.kinds[kind].kind = kind;
    plan.kinds[kind].first = before && !after;
    const bool two = before && after;
    in_first.push_back(two ? static_cast<std::uint32_t>(plan.kinds.size()) : kind);
    if (two) {
      plan.kinds.emplace_back().kind = kind;
      plan.kinds.back().first = true;
    }
  }
  for (const Part& part : parts) {
    LayerBlock& block = plan.blocks.emplace_back(part.block);
    for (std::uint32_t& kind : block.kinds) {
      kind = part.first ? in_first[kind] : kind;
    }
  }
  return plan;
}

void warn_of_foreign_names(const PolicySpec& policy, const FrameworkSpec& framework,
                           std::vector<std::string>& warnings) {
  if (framework.policy_names.empty()) {
    return;
  }
  std::set<std::string> listed;
  const auto add = [&](const Fates& common, const FatesByKind& by_kind) {
    for (const auto& [name, fate] : common) {
      listed.insert(name);
    }
    for (const auto& [kind, fates] : by_kind) {
      for (const auto& [name, fate] : fates) {
        listed.insert(name);
      }
    }
  };
  add(policy.tensors, policy.by_kind);
  if (policy.first && policy.first->layers > 0) {
    add(policy.first->tensors, policy.first->by_kind);
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
                            const std::string& where, std::vector<std::string>& warnings) {
  Fates listed = plan.first ? policy.first->tensors : Fates{};
  listed.insert(policy.tensors.begin(), policy.tensors.end());
  listed.insert(policy.preset_tensors.begin(), policy.preset_tensors.end());
  for (const auto& [name, fate] : listed) {
    for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
      const std::vector<std::string>& names = kind.tensors[t].policy_names;
      if (fate != Fate::recompute && plan.tensors[t].needed && !plan.tensors[t].saved() &&
          names == std::vector<std::string>{expert_prefix + name}) {
        warnings.push_back(
            fmt::format("'{}: {}' does not reach '{}' in {}, which is recomputed: its name is '{}'",
                        name, fate_name(fate), kind.tensors[t].name, where, names.front()));
      }
    }
  }
}

// A framework that scans its layers gives all layers of a scan one policy.
void warn_of_loops(const StepTrace& trace, const Plan& plan, const FrameworkSpec& framework,
                   std::vector<std::string>& warnings) {
  if (framework.eager || plan.blocks.size() == trace.blocks.size()) {
    return;
  }
  const auto after = std::adjacent_find(
      plan.blocks.begin(), plan.blocks.end(), [&](const LayerBlock& one, const LayerBlock& next) {
        return plan.kinds[one.kind_of(0)].first && !plan.kinds[next.kind_of(0)].first;
      });
  warnings.push_back(fmt::format(
      "{}: one scan has one policy, so that other fates in the first {} decoder layers "
      "need two scans over {} layers",
      framework.title, plan.first_layers, trace.kinds[plan.kinds[after->kind_of(0)].kind].name));
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
    for (const KindPlan& kind : plan.kinds) {
      found = found || recomputes(trace.kinds[kind.kind], kind, name);
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

std::string where_text(const Plan& plan, const StepTrace& trace, std::size_t kind) {
  const KindPlan& own = plan.kinds[kind];
  const std::string& name = trace.kinds[own.kind].name;
  if (std::none_of(plan.kinds.begin(), plan.kinds.end(), [&](const KindPlan& other) {
        return other.first != own.first && trace.kinds[other.kind].name == name;
      })) {
    return {};
  }
  return fmt::format(" {} the first {}", own.first ? "among" : "after", plan.first_layers);
}

KindPlan plan_for(const LayerKind& kind, const std::vector<Fate>& fates) {
  KindPlan plan;
  plan.tensors.resize(fates.size());
  for (TensorIndex t = 0; t < fates.size(); ++t) {
    plan.tensors[t].fate = fates[t];
  }
  const Closure closure = close_over(kind, boundary_of(kind, plan));
  plan.rerun = closure.rerun;
  for (TensorIndex t = 0; t < fates.size(); ++t) {
    TensorDecision& decision = plan.tensors[t];
    decision.needed = closure.needed[t];
    plan.kept += decision.kept() ? kind.tensors[t].bytes : Bytes{};
    plan.offloaded += decision.offloaded() ? kind.tensors[t].bytes : Bytes{};
  }
  return plan;
}

Plan decide(const PolicySpec& policy, const StepTrace& trace, const FrameworkSpec& framework) {
  Plan plan = arrange(policy, trace);
  PolicySpec keep_all;
  keep_all.preset = Preset::none;
  std::set<std::string> named; // windowed layers are told the same as others of their name
  for (std::size_t k = 0; k < plan.kinds.size(); ++k) {
    KindPlan& own = plan.kinds[k];
    const LayerKind& kind = trace.kinds[own.kind];
    const std::string where = kind.name + " layers" + where_text(plan, trace, k);
    std::vector<std::string> warnings;
    decide_kind(kind.checkpointed ? policy : keep_all, kind, where, own, warnings);
    if (kind.checkpointed) {
      warn_of_missed_experts(policy, kind, own, where, warnings);
    }
    if (named.insert(where).second) {
      plan.warnings.insert(plan.warnings.end(), warnings.begin(), warnings.end());
    }
  }
  warn_of_loops(trace, plan, framework, plan.warnings);
  warn_of_preset(policy, trace, plan, plan.warnings);
  warn_of_foreign_names(policy, framework, plan.warnings);
  return plan;
}

} // namespace spillway
