// `spillway plan`: the fastest policy that fits, over every fate of every tensor and over
// the settings that the user lets vary, with a bound on what could be faster.
//
// Settings are compared by seconds per token and GPU. The named policies of a scenario and
// proposals (proposals.hpp) are replayed first; then candidates in the order of their lower
// bounds (setting_search.hpp), until no bound is below the best. The result does not depend
// on the number of threads; a time limit makes it depend on the machine's speed.
#pragma once

#include "results/planning/setting_search.hpp"
#include "results/simulate.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

using Assignments = std::vector<std::pair<std::string, std::string>>; // path, value

struct PlanQuestion {
  std::vector<Assignments> settings;                // at least one; may be empty lists
  std::function<Scenario(const Assignments&)> load; // throws InputError
  Pins pins;
  std::optional<double> hbm_limit, host_limit; // bytes per GPU, beside the scenario's own
  std::size_t most_replays = 3000;
  std::optional<std::chrono::duration<double>> time_limit;
  double enough_gap = 0; // stop when at most this fraction could be gained
  Folding folding = Folding::automatic;
};

// A policy that was replayed.
struct Replayed {
  std::size_t setting = 0;
  PolicySpec policy;
  std::optional<Choice> choice; // none: a policy that the search cannot make, such as `none`
  RunResult result;
  bool fits = false;
  double seconds_per_token = 0; // of one GPU
};

struct SettingOutcome {
  Assignments settings;
  std::shared_ptr<const SettingSearch> search; // none: it cannot be run
  std::string impossible;                      // why
  double bound = 0;                            // seconds per token, before any replay
  std::optional<std::size_t> best;             // of the replayed
  double tokens = 0;                           // per step and GPU
};

struct PlanAnswer {
  std::vector<SettingOutcome> settings;
  std::vector<Replayed> replayed; // in the order in which they were
  std::optional<std::size_t> best;
  std::optional<std::size_t> best_named;
  double least = 0; // seconds per token that nothing beats, of what fits
  bool out_of_time = false, out_of_replays = false;
  double policies = 0;       // in the space, over all settings
  std::uint64_t bounded = 0; // choices, whole or in part

  // What could be gained at most, as a fraction of the best; 0: it is the optimum.
  [[nodiscard]] double gap() const;
};

struct PlanProgress {
  std::size_t replays = 0;
  std::optional<double> best; // tokens per second and GPU
  double gap = 1;
};

[[nodiscard]] PlanAnswer find_plan(const PlanQuestion& question, unsigned threads,
                                   const std::function<void(const PlanProgress&)>& progress);

} // namespace spillway
