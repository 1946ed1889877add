#include "results/break_even.hpp"

#include <fmt/format.h>

#include <cmath>

namespace spillway {
namespace {

constexpr std::int64_t faster_percent = 10;
constexpr double precision = 1e-3; // of the value at which the times are equal

class Search {
public:
  Search(const ScenarioAt& scenario_at, bool band, unsigned threads, BreakEven& found)
      : scenario_at_(scenario_at), band_(band), threads_(threads), found_(found) {}

  SweepPoint point(double number) {
    const Scenario scenario = scenario_at_(found_.sweep.text(number));
    RateCache cache;
    SweepPoint point;
    point.number = number;
    point.base = run(scenario, found_.base, cache).result;
    const Simulation policy = run(scenario, found_.policy, cache);
    point.policy = policy.result;
    point.faster = what_if_faster(scenario, policy, cache, faster_percent, threads_);
    return point;
  }

  // Where one end of the speed-up's band, or its middle, is 1 between two values.
  double equal_between(double from, double to, double RatioBand::*end) {
    const bool gains = ratio(to).*end > 1;
    while (to - from > precision * std::abs(to)) {
      const double middle = from + (to - from) / 2;
      ((ratio(middle).*end > 1) == gains ? to : from) = middle;
    }
    return from + (to - from) / 2;
  }

  Explanation explain_last() {
    const Scenario scenario = scenario_at_(found_.sweep.text(found_.sweep.numbers.back()));
    RateCache cache;
    return explain(
        simulate(scenario, scenario.policy(found_.policy), cache, Folding::micro_batches));
  }

private:
  [[nodiscard]] Simulation run(const Scenario& scenario, const std::string& policy,
                               RateCache& cache) const {
    const PolicySpec& spec = scenario.policy(policy);
    return band_ ? simulate_with_band(scenario, spec, cache, threads_)
                 : simulate(scenario, spec, cache);
  }

  [[nodiscard]] RatioBand ratio(double number) const {
    const Scenario scenario = scenario_at_(found_.sweep.text(number));
    RateCache cache;
    return speedup_band(run(scenario, found_.base, cache).result,
                        run(scenario, found_.policy, cache).result);
  }

  const ScenarioAt& scenario_at_;
  bool band_;
  unsigned threads_;
  BreakEven& found_;
};

// Between which neighbours an end of the band passes 1; the first such place.
std::optional<double> first_equal(Search& search, const std::vector<SweepPoint>& points,
                                  std::size_t from, double RatioBand::*end) {
  for (std::size_t i = from; i + 1 < points.size(); ++i) {
    const double left = speedup_band(points[i].base, points[i].policy).*end;
    const double right = speedup_band(points[i + 1].base, points[i + 1].policy).*end;
    if ((left > 1) != (right > 1)) {
      return search.equal_between(points[i].number, points[i + 1].number, end);
    }
  }
  return std::nullopt;
}

void find_crossings(Search& search, bool band, BreakEven& found) {
  const std::vector<SweepPoint>& points = found.points;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const bool before = points[i].policy.step_time_s < points[i].base.step_time_s;
    const bool after = points[i + 1].policy.step_time_s < points[i + 1].base.step_time_s;
    if (before != after) {
      found.crossings.push_back(
          {search.equal_between(points[i].number, points[i + 1].number, &RatioBand::expected),
           after, false, std::nullopt, std::nullopt});
    }
  }
  if (band && found.crossings.size() == 1 && found.crossings.front().gains) {
    found.crossings.front().has_band = true;
    found.crossings.front().band_from = first_equal(search, points, 0, &RatioBand::high);
    found.crossings.front().band_to = first_equal(search, points, 0, &RatioBand::low);
  }
}

} // namespace

std::string Sweep::text(double number) const {
  return unit.empty() ? fmt::format("{}", number) : fmt::format("{} {}", number, unit);
}

BreakEven find_break_even(const ScenarioAt& scenario_at, const std::string& base,
                          const std::string& policy, const Sweep& sweep, bool band,
                          unsigned threads) {
  BreakEven found;
  found.sweep = sweep;
  found.base = base;
  found.policy = policy;
  Search search(scenario_at, band, threads, found);
  for (const double number : sweep.numbers) {
    found.points.push_back(search.point(number));
  }
  find_crossings(search, band, found);
  found.beyond = search.explain_last();
  return found;
}

} // namespace spillway
