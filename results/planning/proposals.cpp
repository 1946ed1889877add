#include "results/planning/proposals.hpp"

#include <algorithm>

namespace spillway {
namespace {

bool fits(const SettingSearch::Bounded& bounded, const MemoryLimits& limits) {
  return bounded.bytes.hbm <= limits.hbm && bounded.bytes.host <= limits.host;
}

// One change at a time, the best first, as long as it helps.
Choice climb(const SettingSearch& search, Choice choice, const MemoryLimits& limits) {
  SettingSearch::Bounded best = search.bound_of(choice);
  for (bool better = true; better;) {
    better = false;
    Choice next;
    for (Choice& changed : changed_in_one(search, choice)) {
      const SettingSearch::Bounded bounded = search.bound_of(changed);
      if (fits(bounded, limits) && bounded.step_s < best.step_s) {
        best = bounded;
        next = std::move(changed);
        better = true;
      }
    }
    if (better) {
      choice = std::move(next);
    }
  }
  return choice;
}

Choice least_memory(const SettingSearch& search) {
  Choice choice;
  for (const GroupSpace& group : search.groups()) {
    choice.push_back(group.least());
  }
  return choice;
}

} // namespace

std::vector<Choice> changed_in_one(const SettingSearch& search, const Choice& choice) {
  std::vector<Choice> changed;
  for (std::size_t g = 0; g < choice.size(); ++g) {
    const GroupSpace& group = search.groups()[g];
    for (std::size_t i = 0; i < group.names().size(); ++i) {
      const std::uint32_t bit = 1U << i;
      for (const Fate fate : {Fate::keep, Fate::recompute, Fate::offload}) {
        Choice other = choice;
        GroupChoice& own = other[g];
        own.saved = fate == Fate::recompute ? own.saved & ~bit : own.saved | bit;
        own.offloaded = fate == Fate::offload ? own.offloaded | bit : own.offloaded & ~bit;
        if (group.may_be(i, fate) && own != choice[g]) {
          changed.push_back(std::move(other));
        }
      }
    }
  }
  return changed;
}

std::vector<Choice> propose(const SettingSearch& search, const MemoryLimits& limits) {
  std::vector<Choice> proposed;
  const Choice start = least_memory(search);
  const SettingSearch::Bounded least = search.bound_of(start);
  if (!fits(least, limits)) {
    return proposed;
  }
  // Bounds of memory are below what is needed: try with less of it as well.
  for (const double part : {1.0, 0.9, 0.8, 0.6}) {
    MemoryLimits some = limits;
    some.hbm = least.bytes.hbm +
               static_cast<std::int64_t>(part * static_cast<double>(limits.hbm - least.bytes.hbm));
    proposed.push_back(climb(search, start, some));
  }
  return proposed;
}

bool keeps_pins(const PolicySpec& policy, const Scenario& scenario, const Pins& pins) {
  if (pins.empty()) {
    return true;
  }
  const Plan plan = decide(policy, scenario.trace, scenario.framework);
  for (std::size_t k = 0; k < scenario.trace.kinds.size(); ++k) {
    const LayerKind& kind = scenario.trace.kinds[k];
    for (TensorIndex t = 0; kind.checkpointed && t < kind.tensors.size(); ++t) {
      for (const std::string& name : kind.tensors[t].policy_names) {
        const auto special = pins.find(kind.name + "." + name);
        const auto pin = special == pins.end() ? pins.find(name) : special;
        if (pin != pins.end() && plan.kinds[k].tensors[t].needed &&
            plan.kinds[k].tensors[t].fate != pin->second) {
          return false;
        }
      }
    }
  }
  return true;
}

} // namespace spillway
