// At which value of a setting two policies take the same time, and what limits the one
// that is compared beyond it: of a host link, the bandwidth from which offload pays.
//
//   find_break_even([](const std::string& v) { return scenario_with_link(v); }, "remat",
//                   "offload", {"hardware.host.d2h.rate", "GB/s", {25, 100, 400}}, true, 1)
#pragma once

#include "results/explanation.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct Sweep {
  std::string path;            // as the user wrote it
  std::string unit;            // of all values, "" for plain numbers
  std::vector<double> numbers; // two or more, ascending

  [[nodiscard]] std::string text(double number) const; // "25 GB/s"
};

struct SweepPoint {
  double number = 0;
  RunResult base, policy;
  WhatIf faster; // of the policy
};

// The speed-up is 1 at `number`, within 0.1 %. With a band, so is its high end at `band_from`
// and its low end at `band_to`; neither is set where that is outside of the swept values.
struct Crossing {
  double number = 0;
  bool gains = true;     // the policy is the faster one above
  bool has_band = false; // of one crossing, above which the policy gains
  std::optional<double> band_from, band_to;
};

struct BreakEven {
  Sweep sweep;
  std::string base, policy;
  std::vector<SweepPoint> points;
  std::vector<Crossing> crossings;
  Explanation beyond; // of the policy at the last value
};

using ScenarioAt = std::function<Scenario(const std::string& value)>;

[[nodiscard]] BreakEven find_break_even(const ScenarioAt& scenario_at, const std::string& base,
                                        const std::string& policy, const Sweep& sweep, bool band,
                                        unsigned threads);

[[nodiscard]] std::string break_even_text(const BreakEven& found);
[[nodiscard]] std::string break_even_json(const std::vector<BreakEven>& all);

} // namespace spillway
