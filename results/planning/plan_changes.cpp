// What plan says of other policies, settings and machines: micro-batches that fit, fates to
// change, depth, what would be different.
#include "results/parallel.hpp"
#include "results/planning/plan_parts.hpp"
#include "results/planning/proposals.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

constexpr std::size_t most_replays_of_changes = 200;
constexpr std::size_t most_changes = 4; // of fates, to make a policy fit
constexpr std::size_t most_starts = 64; // to change one more fate of
constexpr std::size_t most_depths = 12; // policies to mix with the plan
constexpr std::int64_t largest_micro_batch = 1024;

// ---- The largest micro-batch ----

Scenario at_micro_batch(const Scenario& scenario, std::int64_t micro) {
  Scenario other = scenario;
  other.batch.micro = micro;
  other.trace = build_trace(other.model, other.parallel, other.batch, other.framework,
                            other.precision.compute);
  return other;
}

FamilyAnswer largest_of(const PlanQuestion& question, const Scenario& scenario,
                        const PolicySpec& policy, const std::string& title) {
  RateCache cache;
  const MemoryLimits limits = limits_of(question, scenario);
  FamilyAnswer answer{title, 0, 0};
  // Routing is even at multiples of one number of sequences only.
  std::int64_t unit = 1;
  for (BatchSpec batch = scenario.batch; unit <= largest_micro_batch; ++unit) {
    batch.micro = unit;
    if (routes_evenly(scenario.model, scenario.parallel, batch)) {
      break;
    }
  }
  const auto try_at = [&](std::int64_t units) {
    const std::int64_t micro = units * unit;
    const RunResult result =
        simulate(at_micro_batch(scenario, micro), policy, cache, question.folding).result;
    if (!fits(result, limits)) {
      return false;
    }
    if (micro > answer.largest) {
      answer.largest = micro;
      answer.tokens_per_s = result.tokens_per_s_per_gpu;
    }
    return true;
  };
  std::int64_t fails = 1;
  while (fails * unit <= largest_micro_batch && try_at(fails)) {
    fails *= 2;
  }
  // Memory grows with the micro-batch.
  for (std::int64_t low = answer.largest / unit; fails - low > 1;) {
    const std::int64_t middle = low + (fails - low) / 2;
    (try_at(middle) ? low : fails) = middle;
  }
  return answer;
}

} // namespace

std::vector<FamilyAnswer> families_of(const PlanQuestion& question, const PlanAnswer& answer,
                                      unsigned threads) {
  const Replayed& best = best_of(answer);
  const SettingSearch& search = *answer.settings[best.setting].search;
  std::vector<std::pair<std::string, PolicySpec>> policies;
  for (const char* preset : {"none", "full"}) {
    policies.emplace_back(preset, search.scenario().policy(preset));
  }
  Choice all;
  for (const GroupSpace& space : search.groups()) {
    GroupChoice& choice = all.emplace_back(space.least());
    for (std::size_t i = 0; i < space.names().size(); ++i) {
      choice = space.may_be(i, Fate::offload) ? with_fate(choice, i, Fate::offload) : choice;
    }
  }
  policies.emplace_back("everything offloaded", policy_of(search, all));
  for (const PolicySpec& policy : search.scenario().policies) {
    policies.emplace_back(policy.name, policy);
  }
  policies.emplace_back("this plan", best.policy);
  std::vector<FamilyAnswer> families(policies.size());
  run_jobs(
      policies.size(), threads, [] { return 0; },
      [&](std::size_t i, int) {
        families[i] =
            largest_of(question, search.scenario(), policies[i].second, policies[i].first);
      });
  return families;
}

// ---- The smallest change ----

namespace {

// The fastest of `candidates` that fits, as far as their bounds ask for replays.
std::optional<std::pair<Choice, RunResult>> fastest_that_fits(const PlanQuestion& question,
                                                              const SettingSearch& search,
                                                              const std::vector<Choice>& candidates,
                                                              unsigned threads) {
  const MemoryLimits limits = limits_of(question, search.scenario());
  std::vector<std::pair<double, const Choice*>> order;
  for (const Choice& choice : candidates) {
    const SettingSearch::Bounded bounded = search.bound_of(choice);
    if (limits.hold(bounded.bytes)) {
      order.emplace_back(bounded.step_s, &choice);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  std::optional<std::pair<Choice, RunResult>> found;
  constexpr std::size_t at_once = 8;
  for (std::size_t i = 0; i < std::min(order.size(), most_replays_of_changes); i += at_once) {
    if (found && order[i].first >= found->second.step_time_s) {
      break;
    }
    std::vector<PolicySpec> policies;
    for (std::size_t k = i; k < std::min(i + at_once, order.size()); ++k) {
      policies.push_back(policy_of(search, *order[k].second));
    }
    const std::vector<RunResult> results = replay_all(search, policies, question.folding, threads);
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (fits(results[k], limits) &&
          (!found || results[k].step_time_s < found->second.step_time_s)) {
        found.emplace(*order[i + k].second, results[k]);
      }
    }
  }
  return found;
}

// Those that come nearest to fitting, to change more of.
std::vector<Choice> least_memory_of(const SettingSearch& search, std::vector<Choice> choices) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    order.emplace_back(search.bound_of(choices[i]).bytes.hbm, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Choice> least;
  for (std::size_t i = 0; i < std::min(order.size(), most_starts); ++i) {
    least.push_back(std::move(choices[order[i].second]));
  }
  return least;
}

} // namespace

std::vector<ChangeAnswer> changes_of(const PlanQuestion& question, unsigned threads) {
  std::vector<ChangeAnswer> answers;
  const SettingSearch search(question.load({}), question.pins, question.folding);
  const Scenario& scenario = search.scenario();
  const MemoryLimits limits = limits_of(question, scenario);
  for (const PolicySpec& policy : scenario.policies) {
    RateCache cache = search.rates();
    if (fits(simulate(scenario, policy, cache, question.folding).result, limits)) {
      continue;
    }
    const std::optional<Choice> asked = exact_choice(search, policy);
    if (!asked) {
      continue;
    }
    const Choice& own = *asked;
    ChangeAnswer answer;
    answer.policy = policy.name;
    std::optional<std::pair<Choice, RunResult>> found;
    std::vector<Choice> front{own};
    for (std::size_t changes = 1; changes <= most_changes && !found; ++changes) {
      std::vector<Choice> next;
      for (const Choice& choice : front) {
        const std::vector<Choice> more = changed_in_one(search, choice);
        next.insert(next.end(), more.begin(), more.end());
      }
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
      found = fastest_that_fits(question, search, next, threads);
      front = least_memory_of(search, std::move(next));
    }
    if (found) {
      answer.changes = fate_changes(search.groups(), own, found->first);
      answer.result = found->second;
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

// ---- What would change it ----

namespace {

std::vector<std::pair<std::string, Assignments>> variations_of(const Scenario& scenario) {
  std::vector<std::pair<std::string, Assignments>> all;
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  all.emplace_back("one sequence more a micro-batch",
                   Assignments{{"batch.micro", number(scenario.batch.micro + 1)}});
  all.emplace_back("sequences twice as long",
                   Assignments{{"batch.sequence", number(2 * scenario.batch.sequence)}});
  constexpr double uneven = 1.5;
  if (scenario.model.experts > 0 && static_cast<double>(scenario.parallel.expert) >= uneven &&
      scenario.batch.routing_imbalance < uneven) {
    all.emplace_back("1.5 times the mean load on the busiest GPU's experts",
                     Assignments{{"routing.imbalance", fmt::format("{}", uneven)}});
  }
  const auto half = [](const Coefficient& rate) {
    return fmt::format("{:.0f} B/s", rate.value / 2);
  };
  all.emplace_back("the host link at half its rate",
                   Assignments{{"hardware.host.d2h.rate", half(scenario.device.d2h_rate)},
                               {"hardware.host.h2d.rate", half(scenario.device.h2d_rate)}});
  all.emplace_back(
      "one more GPU on each CPU",
      Assignments{{"hardware.host.gpus_per_cpu", number(scenario.device.gpus_per_cpu + 1)}});
  return all;
}

} // namespace

std::vector<WhatChanges> what_changes(const PlanQuestion& question, const PlanAnswer& answer,
                                      unsigned threads) {
  const Replayed& best = best_of(answer);
  const SettingSearch& search = *answer.settings[best.setting].search;
  const auto variations = variations_of(search.scenario());
  std::vector<WhatChanges> all(variations.size());
  run_jobs(
      variations.size(), threads, [] { return 0; },
      [&](std::size_t i, int) {
        WhatChanges& change = all[i];
        change.what = variations[i].first;
        try {
          Assignments settings = answer.settings[best.setting].settings;
          settings.insert(settings.end(), variations[i].second.begin(), variations[i].second.end());
          const Scenario scenario = question.load(settings);
          const MemoryLimits limits = limits_of(question, scenario);
          RateCache cache;
          const auto run = [&](const PolicySpec& policy, double& tokens, bool& fit) {
            const RunResult result = simulate(scenario, policy, cache, question.folding).result;
            tokens = result.tokens_per_s_per_gpu;
            fit = fits(result, limits);
          };
          run(best.policy, change.plan, change.plan_fits);
          if (answer.best_named) {
            run(answer.replayed[*answer.best_named].policy, change.named, change.named_fits);
          }
        } catch (const InputError& error) {
          change.impossible = error.diagnostics().front().message;
        }
      });
  return all;
}

// ---- Depth ----

namespace {

// `own` in the first layers, `others` in the rest.
PolicySpec mixed(const SettingSearch& search, const Choice& own, const Choice& others,
                 std::int64_t layers) {
  PolicySpec policy = policy_of(search, others);
  FirstLayers& first = policy.first.emplace();
  first.layers = layers;
  first.by_kind = policy_of(search, own).by_kind;
  for (const auto& [kind, fates] : policy.by_kind) { // what only the others save
    for (const auto& [name, fate] : fates) {
      first.by_kind[kind].emplace(name, Fate::recompute);
    }
  }
  return policy;
}

// Of mixtures of the plan with one that is faster and too large, the fewest layers of the
// plan that fit: memory is linear in them but for the loop's ends.
std::optional<DepthAnswer> shallowest(const PlanQuestion& question, const SettingSearch& search,
                                      const Replayed& best, const Choice& faster) {
  const MemoryLimits limits = limits_of(question, search.scenario());
  RateCache cache = search.rates();
  const auto run = [&](const PolicySpec& policy) {
    return simulate(search.scenario(), policy, cache, question.folding).result;
  };
  std::optional<DepthAnswer> found;
  std::int64_t fails = 0;
  std::int64_t fits_at = decoder_layers(search.scenario().trace); // the plan itself
  while (fits_at - fails > 1) {
    DepthAnswer answer;
    answer.layers = fails + (fits_at - fails) / 2;
    answer.policy = mixed(search, *best.choice, faster, answer.layers);
    answer.result = run(answer.policy);
    if (fits(answer.result, limits)) {
      fits_at = answer.layers;
      found = std::move(answer);
    } else {
      fails = answer.layers;
    }
  }
  return found;
}

} // namespace

std::optional<DepthAnswer> depth_of(const PlanQuestion& question, const PlanAnswer& answer,
                                    unsigned threads) {
  const Replayed& best = best_of(answer);
  const SettingSearch& search = *answer.settings[best.setting].search;
  std::vector<std::pair<double, Choice>> faster;
  for (Choice& choice : changed_in_one(search, *best.choice)) {
    const double bound = search.bound_of(choice).step_s;
    if (bound < best.result.step_time_s) {
      faster.emplace_back(bound, std::move(choice));
    }
  }
  std::stable_sort(faster.begin(), faster.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  faster.resize(std::min(faster.size(), most_depths));
  std::vector<std::optional<DepthAnswer>> depths(faster.size());
  run_jobs(
      faster.size(), threads, [] { return 0; },
      [&](std::size_t i, int) {
        depths[i] = shallowest(question, search, best, faster[i].second);
        if (depths[i]) {
          depths[i]->changes = fate_changes(search.groups(), *best.choice, faster[i].second);
        }
      });
  std::optional<DepthAnswer> found;
  for (std::optional<DepthAnswer>& depth : depths) {
    const double known = found ? found->result.step_time_s : best.result.step_time_s;
    if (depth && depth->result.step_time_s < known) {
      found = std::move(depth);
    }
  }
  return found;
}

} // namespace spillway
