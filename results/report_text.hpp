// Results as text for people: one run, or several side by side.
#pragma once

#include "results/simulate.hpp"
#include "results/write.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

// Title, split and batch; framework and schedule.
[[nodiscard]] std::string scenario_text(const Scenario& scenario);
[[nodiscard]] std::string runtime_text(const Scenario& scenario);

// Verdict first, then times, memory, assumptions and warnings.
[[nodiscard]] std::string run_text(const Scenario& scenario, const Simulation& run);

// Fields that `published` may name are numeric ones of the field table, and
// `speedup`. Throws InputError.
void check_published(const Scenario& scenario);

// What was published for a policy and field; nullptr when nothing was.
[[nodiscard]] const PublishedValue* published_value(const Scenario& scenario,
                                                    const std::string& policy,
                                                    std::string_view field);

// The published speed-up of a policy over another: stated as such, or the ratio
// of published TFLOP/s.
[[nodiscard]] std::optional<double> published_speedup(const Scenario& scenario,
                                                      const std::string& policy,
                                                      const std::string& base);

// Policies as columns, in the order given. `base`: index of the policy that the
// others are compared with.
[[nodiscard]] std::string compare_text(const Scenario& scenario,
                                       const std::vector<RunResult>& results, std::size_t base);

// One line per setting and policy, for `--axis`; then for every other policy its
// speed-up over `base` for each pair of settings, and what was published.
[[nodiscard]] std::string axis_text(const Scenario& scenario, const std::vector<ResultRow>& rows,
                                    const std::string& base);

// The same scenario on several systems: one line per system and policy, each against the
// base policy on the same system. What was published belongs to one system and is left out.
[[nodiscard]] std::string systems_text(const Scenario& scenario, const std::vector<ResultRow>& rows,
                                       const std::string& base);

} // namespace spillway
