// What the parts of plan's answers have in common, inside this folder.
#pragma once

#include "results/planning/plan_answers.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace spillway {

[[nodiscard]] const Replayed& best_of(const PlanAnswer& answer);
[[nodiscard]] PolicySpec policy_of(const SettingSearch& search, const Choice& choice);
// The choice that asks for the same as `policy` in every layer; none where the search has
// none such: without a checkpoint, or with fates of its own in the first layers.
[[nodiscard]] std::optional<Choice> exact_choice(const SettingSearch& search,
                                                 const PolicySpec& policy);

// The scenario's own limits, or those asked for where they are smaller.
[[nodiscard]] MemoryLimits limits_of(const PlanQuestion& question, const Scenario& scenario);
[[nodiscard]] bool fits(const RunResult& result, const MemoryLimits& limits);

// In the order of `policies`, whatever the number of threads.
[[nodiscard]] std::vector<RunResult> replay_all(const SettingSearch& search,
                                                const std::vector<PolicySpec>& policies,
                                                Folding folding, unsigned threads);

// ---- plan_changes.cpp ----

[[nodiscard]] std::vector<FamilyAnswer> families_of(const PlanQuestion& question,
                                                    const PlanAnswer& answer, unsigned threads);
[[nodiscard]] std::vector<ChangeAnswer> changes_of(const PlanQuestion& question, unsigned threads);
[[nodiscard]] std::vector<WhatChanges> what_changes(const PlanQuestion& question,
                                                    const PlanAnswer& answer, unsigned threads);
[[nodiscard]] std::optional<DepthAnswer> depth_of(const PlanQuestion& question,
                                                  const PlanAnswer& answer, unsigned threads);

} // namespace spillway
