#include "results/planning/plan_parts.hpp"

#include "results/parallel.hpp"

#include <algorithm>

namespace spillway {

const Replayed& best_of(const PlanAnswer& answer) {
  return answer.replayed[*answer.best];
}

PolicySpec policy_of(const SettingSearch& search, const Choice& choice) {
  PolicySpec policy;
  policy.name = "plan";
  for (std::size_t g = 0; g < choice.size(); ++g) {
    search.groups()[g].write(choice[g], policy);
  }
  return policy;
}

namespace {

bool same_decisions(const Plan& one, const Plan& other) {
  return one.blocks.size() == other.blocks.size() &&
         std::equal(one.kinds.begin(), one.kinds.end(), other.kinds.begin(), other.kinds.end(),
                    [](const KindPlan& a, const KindPlan& b) {
                      return a.unchecked == b.unchecked &&
                             std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(),
                                        b.tensors.end(),
                                        [](const TensorDecision& x, const TensorDecision& y) {
                                          return x.needed == y.needed &&
                                                 (!x.needed || x.fate == y.fate);
                                        });
                    });
}

} // namespace

std::optional<Choice> exact_choice(const SettingSearch& search, const PolicySpec& policy) {
  const Scenario& scenario = search.scenario();
  Choice choice;
  for (const GroupSpace& group : search.groups()) {
    choice.push_back(group.choice_of(policy, scenario.trace, scenario.framework));
  }
  const Plan asked = decide(policy, scenario.trace, scenario.framework);
  const Plan made = decide(policy_of(search, choice), scenario.trace, scenario.framework);
  return same_decisions(asked, made) ? std::optional(choice) : std::nullopt;
}

std::vector<RunResult> replay_all(const SettingSearch& search,
                                  const std::vector<PolicySpec>& policies, Folding folding,
                                  unsigned threads) {
  std::vector<RunResult> results(policies.size());
  run_jobs(
      policies.size(), threads, [&] { return search.rates(); },
      [&](std::size_t i, RateCache& cache) {
        results[i] = simulate(search.scenario(), policies[i], cache, folding).result;
      });
  return results;
}

MemoryLimits limits_of(const PlanQuestion& question, const Scenario& scenario) {
  const double hbm = hbm_limit(scenario.runtime, scenario.device);
  const double host = host_limit(scenario.runtime, scenario.device);
  return {static_cast<std::int64_t>(std::min(hbm, question.hbm_limit.value_or(hbm))),
          static_cast<std::int64_t>(std::min(host, question.host_limit.value_or(host)))};
}

bool fits(const RunResult& result, const MemoryLimits& limits) {
  return limits.hold({result.peak_hbm_bytes, result.peak_host_bytes});
}

} // namespace spillway
