#include "results/planning/proposals.hpp"

#include "policies/save_cut.hpp"

#include <algorithm>

namespace spillway {
namespace {

// One change at a time, the best first, as long as it helps.
Choice climb(const SettingSearch& search, Choice choice, const MemoryLimits& limits) {
  SettingSearch::Bounded best = search.bound_of(choice);
  for (bool better = true; better;) {
    better = false;
    Choice next;
    for (Choice& changed : changed_in_one(search, choice)) {
      const SettingSearch::Bounded bounded = search.bound_of(changed);
      if (limits.hold(bounded.bytes) && bounded.step_s < best.step_s) {
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

// What a minimum cut saves of each kind of layer when a byte costs so many seconds, kept on
// the device.
Choice cut_choice(const SettingSearch& search, double seconds_per_byte) {
  Choice choice;
  for (std::size_t g = 0; g < search.groups().size(); ++g) {
    const GroupSpace& space = search.groups()[g];
    const std::uint32_t kind = search.bound().groups()[g].kinds.front();
    const LayerKind& layer = search.scenario().trace.kinds[kind];
    SaveCosts costs;
    for (OpIndex op = 0; op < layer.ops.size(); ++op) {
      costs.rerun_s.push_back(search.bound().layer(kind).op_time(op, 1.0));
    }
    costs.price_s.assign(space.names().size(), 0.0);
    for (TensorIndex t = 0; t < layer.tensors.size(); ++t) {
      std::size_t group = SaveCosts::no_group;
      for (std::size_t i = 0; i < space.names().size(); ++i) {
        if (space.is_named(t, i) && space.may_be(i, Fate::keep)) {
          group = i;
          costs.price_s[i] +=
              seconds_per_byte * static_cast<double>(layer.tensors[t].bytes.count());
        }
      }
      costs.group_of.push_back(group);
    }
    GroupChoice& own = choice.emplace_back(space.least());
    for (const std::size_t i : cheapest_saves(layer, costs).groups) {
      own = with_fate(own, i, Fate::keep);
    }
  }
  return choice;
}

// Offloads what is kept, the largest first, until it fits.
Choice made_to_fit(const SettingSearch& search, Choice choice, const MemoryLimits& limits) {
  while (!limits.hold(search.bound_of(choice).bytes)) {
    GroupChoice* group = nullptr; // that has the largest one
    std::size_t name = 0;
    std::int64_t most = 0;
    for (std::size_t g = 0; g < choice.size(); ++g) {
      const GroupSpace& space = search.groups()[g];
      for (std::size_t i = 0; i < space.names().size(); ++i) {
        if (fate_of(choice[g], i) == Fate::keep && space.may_be(i, Fate::offload) &&
            space.bytes()[i] > most) {
          most = space.bytes()[i];
          group = &choice[g];
          name = i;
        }
      }
    }
    if (group == nullptr) {
      break;
    }
    *group = with_fate(*group, name, Fate::offload);
  }
  return choice;
}

} // namespace

std::vector<Choice> changed_in_one(const SettingSearch& search, const Choice& choice) {
  std::vector<Choice> changed;
  for (std::size_t g = 0; g < choice.size(); ++g) {
    const GroupSpace& group = search.groups()[g];
    for (std::size_t i = 0; i < group.names().size(); ++i) {
      for (const Fate fate : {Fate::keep, Fate::recompute, Fate::offload}) {
        if (group.may_be(i, fate) && fate != fate_of(choice[g], i)) {
          changed.push_back(choice);
          changed.back()[g] = with_fate(choice[g], i, fate);
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
  if (!limits.hold(least.bytes)) {
    return proposed;
  }
  // Bounds of memory are below what is needed: try with less of it as well.
  for (const double part : {1.0, 0.9, 0.8, 0.6}) {
    MemoryLimits some = limits;
    some.hbm = least.bytes.hbm +
               static_cast<std::int64_t>(part * static_cast<double>(limits.hbm - least.bytes.hbm));
    proposed.push_back(climb(search, start, some));
  }
  // Prices of a byte from next to nothing to the time that copying it takes several times.
  const double copy = 1 / copy_rate(search.scenario(), PriceOf::store);
  for (const double price : {0.01, 0.1, 0.3, 1.0, 3.0}) {
    const Choice cut = made_to_fit(search, cut_choice(search, price * copy), limits);
    if (limits.hold(search.bound_of(cut).bytes)) {
      proposed.push_back(climb(search, cut, limits));
    }
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
        const std::optional<Fate> pin = pin_of(pins, kind.name, name);
        const TensorDecision& decision = plan.kinds[k].tensors[t];
        if (pin && decision.needed && decision.fate != *pin) {
          return false;
        }
      }
    }
  }
  return true;
}

} // namespace spillway
