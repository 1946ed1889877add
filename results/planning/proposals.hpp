// Policies that are worth a replay before any search: local optima of the lower bound.
#pragma once

#include "results/planning/setting_search.hpp"

#include <vector>

namespace spillway {

// All choices that differ from `choice` in the fate of one name of one kind of layer.
[[nodiscard]] std::vector<Choice> changed_in_one(const SettingSearch& search, const Choice& choice);

// A few choices with a low bound that fit by their bounds.
[[nodiscard]] std::vector<Choice> propose(const SettingSearch& search, const MemoryLimits& limits);

// Whether a policy gives every pinned name the fate that it is pinned to.
[[nodiscard]] bool keeps_pins(const PolicySpec& policy, const Scenario& scenario, const Pins& pins);

} // namespace spillway
