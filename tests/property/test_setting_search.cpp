// The search finds what trying every policy finds.
#include "results/planning/setting_search.hpp"

#include "tests/support/random_choice.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace spillway::testing {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr MemoryLimits no_limits{std::numeric_limits<std::int64_t>::max() / 4,
                                 std::numeric_limits<std::int64_t>::max() / 4};

// All names of all kinds are recomputed, but for the layer's input and the `free` ones.
Pins pins_but(const Scenario& scenario, const std::set<std::string>& free) {
  const SettingSearch all(scenario, {}, Folding::automatic);
  Pins pins;
  for (const GroupSpace& group : all.groups()) {
    for (std::size_t i = 0; i < group.names().size(); ++i) {
      const std::string name = group.kind() + "." + group.names()[i];
      if (free.count(name) == 0) {
        const bool input = !group.may_be(i, Fate::recompute);
        pins[name] = input ? Fate::keep : Fate::recompute;
      }
    }
  }
  REQUIRE(pins.size() > 2);
  return pins;
}

// Every fate of every name that is not pinned, whether backward needs it or not.
std::vector<Choice> all_choices(const SettingSearch& search) {
  std::vector<Choice> choices{Choice(search.groups().size())};
  for (std::size_t g = 0; g < search.groups().size(); ++g) {
    const GroupSpace& group = search.groups()[g];
    for (std::size_t i = 0; i < group.names().size(); ++i) {
      std::vector<Choice> longer;
      for (const Choice& choice : choices) {
        for (const Fate fate : {Fate::recompute, Fate::keep, Fate::offload}) {
          if (group.may_be(i, fate)) {
            Choice& made = longer.emplace_back(choice);
            made[g].saved |= fate == Fate::recompute ? 0U : 1U << i;
            made[g].offloaded |= fate == Fate::offload ? 1U << i : 0U;
          }
        }
      }
      choices = std::move(longer);
    }
  }
  return choices;
}

struct Replay {
  double step_s = 0;
  MemoryLimits bytes;
  [[nodiscard]] bool fits(const MemoryLimits& limits) const {
    return bytes.hbm <= limits.hbm && bytes.host <= limits.host;
  }
};

Replay replay_of(const SettingSearch& search, const Choice& choice, RateCache& cache) {
  const RunResult result = simulate(search.scenario(), policy_of(search, choice), cache).result;
  return {result.step_time_s, {result.peak_hbm_bytes, result.peak_host_bytes}};
}

std::vector<Replay> replay_all(const SettingSearch& search, RateCache& cache) {
  std::vector<Replay> replays;
  for (const Choice& choice : all_choices(search)) {
    replays.push_back(replay_of(search, choice, cache));
  }
  return replays;
}

double best_of(const std::vector<Replay>& replays, const MemoryLimits& limits) {
  double best = never;
  for (const Replay& replay : replays) {
    best = replay.fits(limits) ? std::min(best, replay.step_s) : best;
  }
  return best;
}

struct Found {
  double best = never;
  std::size_t replays = 0;
};

// Takes candidates in the order of their bounds until none is below the best.
Found search_best(SettingSearch& search, const MemoryLimits& limits, RateCache& cache) {
  Found found;
  search.open(never, limits);
  double least = search.least(); // what was not taken yet is not faster
  while (const auto next = search.take(found.best)) {
    CHECK(next->bound_s >= least * (1 - 1e-12));
    least = search.least();
    const Replay replay = replay_of(search, next->choice, cache);
    ++found.replays;
    found.best = replay.fits(limits) ? std::min(found.best, replay.step_s) : found.best;
  }
  return found;
}

// The value that `share` of all are below.
std::int64_t quantile(std::vector<std::int64_t> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// Nothing fails to fit; some of all; some, with little room in host memory.
std::vector<MemoryLimits> limits_of(const std::vector<Replay>& replays) {
  std::vector<std::int64_t> hbm;
  std::vector<std::int64_t> host;
  for (const Replay& replay : replays) {
    hbm.push_back(replay.bytes.hbm);
    host.push_back(replay.bytes.host);
  }
  return {no_limits,
          {quantile(hbm, 0.3), no_limits.host},
          {quantile(hbm, 0.3), quantile(host, 0.5)},
          {quantile(hbm, 0.6), quantile(host, 0.2)}};
}

void check_search(const std::string& name, const std::vector<std::string>& set,
                  const std::set<std::string>& free) {
  CAPTURE(name);
  const Scenario scenario = catalogue(name, set);
  SettingSearch search(scenario, pins_but(scenario, free), Folding::automatic);
  RateCache cache;
  const std::vector<Replay> replays = replay_all(search, cache);
  for (const MemoryLimits& limits : limits_of(replays)) {
    CAPTURE(limits.hbm);
    CAPTURE(limits.host);
    const Found found = search_best(search, limits, cache);
    CHECK(found.best == best_of(replays, limits));
    CHECK(found.replays * 2 < replays.size());
  }
}

TEST_CASE("The search finds the best of all policies of two kinds of layers") {
  check_search("deepseek-v3-gb200", {},
               {"dense.query_proj", "dense.mlpwi_0", "moe.query_proj", "moe.moe_mlpwi_0",
                "moe.mlpwi_0", "moe.moe_mlpwo"});
}

TEST_CASE("The search finds the best of all policies under a clock rule") {
  check_search(
      "deepseek-v3-h200", {},
      {"dense.context", "moe.query_proj", "moe.key_proj", "moe.moe_mlpwi_0", "moe.moe_mlpwi_1"});
}

TEST_CASE("The search finds the best of all policies of one kind of layers") {
  check_search("llama-3.1-405b-gb200", {},
               {"dense.query_proj", "dense.key_proj", "dense.context", "dense.mlpwi_0",
                "dense.mlpwo", "dense.decoder_layer_input"});
}

TEST_CASE("The search finds the best of all policies where the last layer keeps") {
  check_search("qwen3-30b-a3b-slice-gb200", {},
               {"moe.query_proj", "moe.context", "moe.moe_mlpwi_0", "moe.moe_mlpwi_1",
                "moe.moe_mlp_product", "moe.decoder_layer_input"});
}

// Of policies that are the same in effect, the one without what backward does not need.
std::set<Choice> listed_below(const SettingSearch& search, double ceiling) {
  std::set<Choice> choices;
  const std::vector<std::uint32_t> sets = search.groups().front().saved_sets();
  for (const Choice& choice : all_choices(search)) {
    const bool in_use = std::find(sets.begin(), sets.end(), choice.front().saved) != sets.end();
    if (in_use && search.bound_of(choice).step_s < ceiling) {
      choices.insert(choice);
    }
  }
  return choices;
}

TEST_CASE("Below a ceiling every policy is listed whose own bound is") {
  const Scenario scenario = catalogue("llama-3.1-405b-gb200", {"hardware=h200"});
  SettingSearch search(
      scenario,
      pins_but(scenario, {"dense.query_proj", "dense.key_proj", "dense.context", "dense.mlpwi_0",
                          "dense.mlpwo", "dense.decoder_layer_input"}),
      Folding::automatic);
  std::vector<double> bounds;
  for (const Choice& choice : all_choices(search)) {
    bounds.push_back(search.bound_of(choice).step_s);
  }
  std::sort(bounds.begin(), bounds.end());
  for (std::size_t i = 8; i < bounds.size(); i += 40) {
    const double ceiling = bounds[i];
    search.open(ceiling, no_limits);
    std::set<Choice> taken;
    while (const auto next = search.take(ceiling)) {
      taken.insert(next->choice);
    }
    CHECK(taken == listed_below(search, ceiling));
  }
}

} // namespace
} // namespace spillway::testing
