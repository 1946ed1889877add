// Random policies of a search's space, and what the search says and a replay does about them.
#pragma once

#include "results/planning/setting_search.hpp"
#include "results/simulate.hpp"
#include "tests/support/random_graph.hpp"

#include <cstdint>
#include <string>

namespace spillway::testing {

// Shares of names that are saved, and of those that are offloaded, of one random policy.
struct Density {
  double saved = 0.5, offloaded = 0.5;
};

// Every seed has another mix: few or many saved, and few or many of them offloaded.
inline Density density_of(std::uint64_t seed) {
  constexpr double saved[] = {0.15, 0.5, 0.85, 0.4};
  constexpr double offloaded[] = {0.1, 0.5, 0.95};
  return {saved[seed % 4], offloaded[seed / 4 % 3]};
}

inline Choice random_choice(const SettingSearch& search, std::uint64_t seed) {
  test::Random random(seed);
  const Density density = density_of(seed);
  Choice choice;
  for (const GroupSpace& group : search.groups()) {
    GroupChoice& made = choice.emplace_back();
    for (std::size_t i = 0; i < group.names().size(); ++i) {
      const bool saved = random.real(0, 1) < density.saved;
      const bool offloaded = random.real(0, 1) < density.offloaded;
      if (saved || !group.may_be(i, Fate::recompute)) {
        made.saved |= 1U << i;
        made.offloaded |= offloaded ? 1U << i : 0U;
      }
    }
  }
  return choice;
}

inline PolicySpec policy_of(const SettingSearch& search, const Choice& choice) {
  PolicySpec policy;
  policy.name = "random";
  policy.preset = Preset::custom;
  for (std::size_t g = 0; g < choice.size(); ++g) {
    search.groups()[g].write(choice[g], policy);
  }
  return policy;
}

inline std::string text_of(const PolicySpec& policy) {
  std::string text;
  for (const auto& [kind, fates] : policy.by_kind) {
    for (const auto& [name, fate] : fates) {
      text += kind + "." + name + "=" + fate_name(fate) + " ";
    }
  }
  return text;
}

} // namespace spillway::testing
