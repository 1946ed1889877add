#include "results/planning/policy_space.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

constexpr std::size_t most_names = 30; // bits of a set

bool knows(const FrameworkSpec& framework, const std::string& name) {
  const std::vector<std::string>& known = framework.policy_names;
  return known.empty() || std::find(known.begin(), known.end(), name) != known.end();
}

// The most specific name that the framework knows, if any.
const std::string* chosen_name(const Tensor& tensor, const FrameworkSpec& framework) {
  const auto found = std::find_if(tensor.policy_names.begin(), tensor.policy_names.end(),
                                  [&](const std::string& name) { return knows(framework, name); });
  return found == tensor.policy_names.end() ? nullptr : &*found;
}

[[noreturn]] void throw_too_many(const std::string& kind, std::size_t names) {
  throw InputError(fmt::format("{} layers have {} tensors to choose for, more than {}", kind, names,
                               GroupSpace::most_free_names),
                   "say what becomes of some of them with --pin NAME=keep|recompute|offload");
}

} // namespace

Fate fate_of(GroupChoice choice, std::size_t name) {
  return (choice.saved >> name & 1U) == 0       ? Fate::recompute
         : (choice.offloaded >> name & 1U) != 0 ? Fate::offload
                                                : Fate::keep;
}

GroupChoice with_fate(GroupChoice choice, std::size_t name, Fate fate) {
  const std::uint32_t bit = 1U << name;
  choice.saved = fate == Fate::recompute ? choice.saved & ~bit : choice.saved | bit;
  choice.offloaded = fate == Fate::offload ? choice.offloaded | bit : choice.offloaded & ~bit;
  return choice;
}

std::optional<Fate> pin_of(const Pins& pins, const std::string& kind, const std::string& name) {
  const auto special = pins.find(kind + "." + name);
  const auto found = special == pins.end() ? pins.find(name) : special;
  return found == pins.end() ? std::nullopt : std::optional(found->second);
}

GroupSpace::GroupSpace(const Scenario& scenario, const StepBound::Group& group, const Pins& pins)
    : kind_(group.name) {
  std::vector<std::int64_t> layers(scenario.trace.kinds.size(), 0);
  for (const LayerBlock& block : scenario.trace.blocks) {
    for (std::int64_t position = 0; position < block.layers; ++position) {
      ++layers[block.kind_of(position)];
    }
  }
  for (const std::uint32_t index : group.kinds) {
    const LayerKind& kind = scenario.trace.kinds[index];
    kinds_.push_back(&kind);
    std::vector<std::size_t>& name_of = name_of_.emplace_back();
    for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
      const std::string* name = chosen_name(kind.tensors[t], scenario.framework);
      const auto at =
          name == nullptr ? names_.end() : std::find(names_.begin(), names_.end(), *name);
      const auto position = static_cast<std::size_t>(at - names_.begin());
      if (name != nullptr && at == names_.end()) {
        if (names_.size() == most_names) {
          throw_too_many(kind_, names_.size() + 1);
        }
        names_.push_back(*name);
        bytes_.push_back(0);
        pinned_.push_back(pin_of(pins, kind_, *name));
      }
      name_of.push_back(name == nullptr ? most_names : position);
      if (name != nullptr) {
        bytes_[position] += layers[index] * kind.tensors[t].bytes.count();
        always_saved_ |= t == kind.input ? 1U << position : 0U;
      }
    }
  }
  const auto free =
      static_cast<std::size_t>(std::count(pinned_.begin(), pinned_.end(), std::nullopt));
  if (free > most_free_names + 1) {
    throw_too_many(kind_, free);
  }
}

bool GroupSpace::may_be(std::size_t name, Fate fate) const {
  if (pinned_[name]) {
    return *pinned_[name] == fate;
  }
  return fate != Fate::recompute || !is_input(name);
}

GroupChoice GroupSpace::least() const {
  GroupChoice choice{always_saved_, 0};
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (pinned_[i]) {
      choice = with_fate(choice, i, *pinned_[i]);
    }
  }
  return choice;
}

double GroupSpace::policies() const {
  double count = 1;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    count *= pinned_[i] ? 1 : is_input(i) ? 2 : 3;
  }
  return count;
}

bool GroupSpace::all_used(std::uint32_t saved, const std::vector<KindPlan>& plans) const {
  std::uint32_t used = always_saved_;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    for (TensorIndex t = 0; t < plans[k].tensors.size(); ++t) {
      if (plans[k].tensors[t].needed && name_of_[k][t] < most_names) {
        used |= 1U << name_of_[k][t];
      }
    }
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    used |= pinned_[i] ? 1U << i : 0U;
  }
  return (saved & ~used) == 0;
}

std::vector<std::uint32_t> GroupSpace::saved_sets() const {
  std::uint32_t fixed = always_saved_;
  std::vector<std::uint32_t> free;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::uint32_t bit = 1U << i;
    if (pinned_[i]) {
      fixed |= *pinned_[i] == Fate::recompute ? 0U : bit;
    } else if ((always_saved_ & bit) == 0) {
      free.push_back(bit);
    }
  }
  std::vector<std::uint32_t> sets;
  for (std::uint32_t chosen = 0; chosen < 1U << free.size(); ++chosen) {
    std::uint32_t saved = fixed;
    for (std::size_t i = 0; i < free.size(); ++i) {
      saved |= (chosen >> i & 1U) != 0 ? free[i] : 0U;
    }
    if (all_used(saved, plans({saved, 0}))) {
      sets.push_back(saved);
    }
  }
  return sets;
}

std::vector<KindPlan> GroupSpace::plans(GroupChoice choice) const {
  std::vector<KindPlan> result;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    std::vector<Fate> fates(kinds_[k]->tensors.size(), Fate::recompute);
    for (TensorIndex t = 0; t < fates.size(); ++t) {
      const std::size_t name = name_of_[k][t];
      fates[t] = name < most_names ? fate_of(choice, name) : Fate::recompute;
    }
    if (fates[kinds_[k]->input] == Fate::recompute) {
      fates[kinds_[k]->input] = Fate::keep; // a framework may have no name for it
    }
    result.push_back(plan_for(*kinds_[k], fates));
  }
  return result;
}

void GroupSpace::set_fates(std::uint32_t kept, std::uint32_t offloaded,
                           std::vector<KindPlan>& plans) const {
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    KindPlan& plan = plans[k];
    plan.kept = plan.offloaded = Bytes{};
    for (TensorIndex t = 0; t < plan.tensors.size(); ++t) {
      TensorDecision& decision = plan.tensors[t];
      const std::size_t name = name_of_[k][t];
      if (name < most_names) {
        decision.fate = fate_of({kept | offloaded, offloaded}, name);
      }
      plan.kept += decision.kept() ? kinds_[k]->tensors[t].bytes : Bytes{};
      plan.offloaded += decision.offloaded() ? kinds_[k]->tensors[t].bytes : Bytes{};
    }
  }
}

std::vector<KindPlan> GroupSpace::nothing_saved() const {
  std::vector<KindPlan> result;
  for (const LayerKind* kind : kinds_) {
    result.push_back(plan_for(*kind, std::vector<Fate>(kind->tensors.size(), Fate::recompute)));
  }
  return result;
}

GroupChoice GroupSpace::choice_of(const PolicySpec& policy, const StepTrace& trace,
                                  const FrameworkSpec& framework) const {
  const Plan plan = decide(policy, trace, framework);
  GroupChoice choice;
  for (std::size_t k = 0; k < trace.kinds.size(); ++k) {
    if (trace.kinds[k].name != kind_ || !trace.kinds[k].checkpointed) {
      continue;
    }
    for (TensorIndex t = 0; t < plan.kinds[k].tensors.size(); ++t) {
      const std::size_t name = name_of_.front()[t];
      const TensorDecision& decision = plan.kinds[k].tensors[t];
      if (name < most_names && decision.saved()) {
        choice.saved |= 1U << name;
        choice.offloaded |= decision.offloaded() ? 1U << name : 0U;
      }
    }
    break;
  }
  return choice;
}

void GroupSpace::write(GroupChoice choice, PolicySpec& policy) const {
  auto& fates = policy.by_kind[kind_];
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (fate_of(choice, i) != Fate::recompute) {
      fates[names_[i]] = fate_of(choice, i);
    }
  }
  // A less specific name that is saved for another tensor must not reach these.
  for (const LayerKind* kind : kinds_) {
    for (const Tensor& tensor : kind->tensors) {
      for (const std::string& name : names_) {
        const auto own = std::find(tensor.policy_names.begin(), tensor.policy_names.end(), name);
        const bool recomputed = own != tensor.policy_names.end() && fates.find(name) == fates.end();
        if (recomputed && std::any_of(own + 1, tensor.policy_names.end(), [&](const auto& other) {
              return fates.find(other) != fates.end();
            })) {
          fates[name] = Fate::recompute;
        }
      }
    }
  }
}

void check_pins(const Pins& pins, const std::vector<GroupSpace>& groups) {
  for (const auto& [pin, fate] : pins) {
    std::vector<std::string> known;
    bool is_input = false;
    for (const GroupSpace& group : groups) {
      for (std::size_t i = 0; i < group.names().size(); ++i) {
        for (const std::string& name : {group.names()[i], group.kind() + "." + group.names()[i]}) {
          known.push_back(name);
          is_input = is_input || (name == pin && group.is_input(i));
        }
      }
    }
    if (std::find(known.begin(), known.end(), pin) == known.end()) {
      throw InputError(fmt::format("--pin {}={}: no such tensor", pin, fate_name(fate)),
                       suggestion(pin, known));
    }
    if (fate == Fate::recompute && is_input) {
      throw InputError(
          fmt::format("--pin {}={}: a layer is recomputed from it", pin, fate_name(fate)),
          "keep or offload it");
    }
  }
}

} // namespace spillway
