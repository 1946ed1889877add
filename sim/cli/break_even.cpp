#include "sim/cli/break_even.hpp"

#include "results/break_even.hpp"
#include "results/report_text.hpp"
#include "results/write.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace spillway {
namespace {

constexpr const char* example =
    "for example --break-even 'hardware.host.d2h.rate+hardware.host.h2d.rate=25 GB/s,50 GB/s'";

// "25 GB/s" to 25 and its unit; nothing for what is no positive number.
std::optional<std::pair<double, std::string>> number_and_unit(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number);
  if (status != std::errc{} || !(number > 0) || !std::isfinite(number)) {
    return std::nullopt;
  }
  const std::string unit(rest, end);
  const std::size_t first = unit.find_first_not_of(' ');
  return std::pair(number, first == std::string::npos ? "" : unit.substr(first));
}

Sweep parse_sweep(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::vector<std::string> paths = split(text.substr(0, equals), '+');
  if (equals == std::string::npos || std::count(paths.begin(), paths.end(), "") > 0) {
    throw InputError(fmt::format("--break-even '{}' is not PATH[+PATH...]=V1,V2,...", text),
                     example);
  }
  Sweep sweep;
  sweep.path = text.substr(0, equals);
  bool good = true;
  for (const std::string& value : split(text.substr(equals + 1), ',')) {
    const auto number = number_and_unit(value);
    good = good && number &&
           (sweep.numbers.empty() ||
            (number->second == sweep.unit && number->first > sweep.numbers.back()));
    if (good) {
      sweep.unit = number->second;
      sweep.numbers.push_back(number->first);
    }
  }
  if (!good || sweep.numbers.size() < 2) {
    throw InputError(fmt::format("--break-even needs two or more positive numbers in one unit, "
                                 "ascending, not '{}'",
                                 text.substr(equals + 1)),
                     example);
  }
  return sweep;
}

void check_alone(const CommonOptions& options) {
  const auto refuse = [](bool given, const char* name) {
    if (given) {
      throw InputError(fmt::format("--break-even varies one thing; leave {} out", name));
    }
  };
  refuse(!options.axes.empty(), "--axis");
  refuse(!options.hardware.empty(), "--hardware");
  refuse(!options.csv.empty(), "--csv");
  refuse(options.no_fold, "--no-fold");
}

// --base, or the first policy that fits.
std::string base_of(const Scenario& scenario, const std::vector<const PolicySpec*>& policies,
                    const CommonOptions& options) {
  std::vector<std::string> names;
  for (const PolicySpec* policy : policies) {
    names.push_back(policy->name);
    RateCache cache;
    if (options.base.empty() ? simulate(scenario, *policy, cache).result.verdict == Verdict::fits
                             : policy->name == options.base) {
      return policy->name;
    }
  }
  if (!options.base.empty()) {
    throw InputError(fmt::format("--base '{}' is not among the compared policies", options.base),
                     suggestion(options.base, names));
  }
  return names.front();
}

Scenario load_with(const CommonOptions& options, const Sweep& sweep, const std::string& value) {
  CommonOptions own = options;
  for (const std::string& path : split(sweep.path, '+')) {
    own.set.push_back(fmt::format("{}={}", path, value));
  }
  return load_from(own);
}

// The search bisects, so a value between the first two must be one as well.
void check_takes_fractions(const ScenarioAt& scenario_at, const Sweep& sweep) {
  const double first = sweep.numbers[0];
  const double between = first + std::min(0.5, (sweep.numbers[1] - first) / 2);
  try {
    static_cast<void>(scenario_at(sweep.text(between)));
  } catch (const InputError& error) {
    throw InputError(fmt::format("--break-even needs a key that takes fractions: {}",
                                 error.diagnostics().front().message),
                     "compare at whole numbers with --axis");
  }
}

bool any_fits(const BreakEven& found) {
  const SweepPoint& last = found.points.back();
  return last.base.verdict == Verdict::fits || last.policy.verdict == Verdict::fits;
}

} // namespace

ExitCode run_break_even(const CommonOptions& options) {
  check_alone(options);
  const Sweep sweep = parse_sweep(options.break_even);
  const ScenarioAt scenario_at = [&](const std::string& value) {
    return load_with(options, sweep, value);
  };
  const Scenario first = scenario_at(sweep.text(sweep.numbers.front()));
  check_takes_fractions(scenario_at, sweep);
  const std::vector<const PolicySpec*> policies = chosen_policies(first, options);
  if (policies.size() < 2) {
    throw InputError("--break-even compares policies, and there is only one",
                     "name another one with --policy");
  }
  const std::string base = base_of(first, policies, options);
  std::vector<BreakEven> all;
  std::string text = scenario_text(first) + runtime_text(first) + sweep.path + "\n";
  for (const PolicySpec* policy : policies) {
    if (policy->name != base) {
      all.push_back(find_break_even(scenario_at, base, policy->name, sweep, !options.no_band,
                                    thread_count(options)));
      text += "\n" + break_even_text(all.back());
    }
  }
  if (!options.json.empty()) {
    write_output(options.json, break_even_json(all));
  }
  if (options.prints_text()) {
    write_output("-", text);
  }
  return std::any_of(all.begin(), all.end(), any_fits) ? ExitCode::done : ExitCode::no;
}

} // namespace spillway
