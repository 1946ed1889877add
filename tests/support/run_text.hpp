// Everything that a run says as one text, to compare two runs to the byte.
#pragma once

#include "results/explanation.hpp"
#include "results/write.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <string>

namespace spillway::testing {

// With memory's peaks of all GPUs.
[[nodiscard]] inline std::string run_text_of(const Simulation& run) {
  std::string text = run_json(run.result);
  for (const Timeline::PoolPeak& peak : run.timeline.peaks) {
    const std::string task =
        peak.task == no_id ? "start" : run.lowered.describe(peak.task, run.timeline);
    text += fmt::format("{} {} {} {}\n", peak.bytes, peak.time.count(), task,
                        fmt::join(peak.owners, " "));
  }
  return text + fmt::format("{} {} {}\n", run.timeline.makespan.count(), run.timeline.solver_calls,
                            fmt::join(run.timeline.final_bytes, " "));
}

[[nodiscard]] inline std::string explanation_text_of(const Scenario& scenario,
                                                     const Simulation& run) {
  const Explanation explanation = explain(run);
  return explanation_json(run, explanation) + explanation_text(scenario, run, explanation, 1000);
}

// The first line that differs, or nothing.
[[nodiscard]] inline std::string difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a);
  std::istringstream lines_b(b);
  std::string line_a;
  std::string line_b;
  while (std::getline(lines_a, line_a) && std::getline(lines_b, line_b)) {
    if (line_a != line_b) {
      return fmt::format("'{}' against '{}'", line_a, line_b);
    }
  }
  return a == b ? "" : "one is longer";
}

} // namespace spillway::testing
