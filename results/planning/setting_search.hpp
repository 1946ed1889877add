// The search inside one setting of a scenario: which policies can be faster than what is
// known, best bound first.
//
// Every set of saved tensors of every kind of layer is bounded; of those that may be fast
// enough every way to keep or offload its tensors is. Kinds of layers are put together
// lazily, in the order of the bound of the whole step.
#pragma once

#include "results/planning/policy_space.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

namespace spillway {

// Bytes per GPU.
struct MemoryLimits {
  std::int64_t hbm = 0, host = 0;
  [[nodiscard]] bool hold(const MemoryLimits& bytes) const {
    return bytes.hbm <= hbm && bytes.host <= host;
  }
};

class SettingSearch {
public:
  // Replays the reference policy. `scenario` is kept.
  SettingSearch(Scenario scenario, const Pins& pins, Folding folding);
  SettingSearch(const SettingSearch&) = delete; // the space refers to the scenario
  SettingSearch& operator=(const SettingSearch&) = delete;

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] const StepBound& bound() const { return *bound_; }
  [[nodiscard]] const std::vector<GroupSpace>& groups() const { return groups_; }
  [[nodiscard]] const RateCache& rates() const { return cache_; }

  // Lower bound of the step time of one choice, and of the bytes that it needs.
  struct Bounded {
    double step_s = 0;
    MemoryLimits bytes;
  };
  [[nodiscard]] Bounded bound_of(const Choice& choice) const;
  [[nodiscard]] double root_bound() const { return root_bound_; } // seconds, of any choice

  // Makes the list of choices that may take less than `ceiling` seconds and fit.
  // From `deadline` on it gives up: what is not listed is then bounded by root_bound().
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  void open(double ceiling, const MemoryLimits& limits, const Deadline& deadline = {});
  [[nodiscard]] std::uint64_t bounded() const { return bounded_; } // choices, whole or in part
  // No choice that was not yet taken is faster than this; infinity when none is left.
  [[nodiscard]] double least() const;
  // The next choice in the order of bounds, if any is below `ceiling`.
  struct Next {
    Choice choice;
    double bound_s = 0;
  };
  [[nodiscard]] std::optional<Next> take(double ceiling);
  // The same for what was not looked at before of the kind with most bytes: more different
  // choices, sooner. take() will come to them again.
  [[nodiscard]] std::optional<Next> take_new(double ceiling);

private:
  struct Option {
    GroupChoice choice;
    StepBound::Share share;
    std::int64_t last_layer = 0; // bytes, StepBound::last_layer_bytes
  };
  struct Node { // option `main` with options `partner` and all later ones of the other group
    double least = 0;
    std::uint32_t main = 0, partner = 0;
    bool operator<(const Node& other) const { // the least on top of the queue
      return std::tie(other.least, other.main, other.partner) < std::tie(least, main, partner);
    }
  };
  struct Need { // of the other groups, at least
    StepBound::Share share;
    std::int64_t kept = 0, last_layer = 0;
  };
  [[nodiscard]] std::vector<Option> options_of(std::size_t group, const Need& others,
                                               double ceiling, const MemoryLimits& limits);
  class Splitter;
  [[nodiscard]] Need least_need(const std::vector<Option>& options) const;
  static void sort_by_time(std::vector<Option>& options);
  [[nodiscard]] double step_with(const StepBound::Share& share, const StepBound::Share& more) const;
  [[nodiscard]] bool fits(const Option& one, const Option& other) const;
  [[nodiscard]] bool late() const;
  void push(std::uint32_t main, std::uint32_t partner);
  [[nodiscard]] std::optional<Next> choice_of(const Node& node, double ceiling);

  Scenario scenario_;
  RateCache cache_;
  std::unique_ptr<StepBound> bound_;
  std::vector<GroupSpace> groups_;
  std::vector<StepBound::Share> least_shares_; // by group, of any choice
  double root_bound_ = 0;
  MemoryLimits limits_;
  std::size_t main_group_ = 0;
  std::vector<Option> main_, partner_;
  std::vector<StepBound::Share> partner_least_; // of this and all later ones
  std::priority_queue<Node> queue_, new_;       // of all; of main ones with their first partner
  std::uint64_t bounded_ = 0;
  Deadline deadline_;
  bool complete_ = true; // the list
};

} // namespace spillway
