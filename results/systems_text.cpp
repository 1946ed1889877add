#include "results/report_parts.hpp"
#include "results/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

// "122.4 GB of 174.1 GB".
std::string part_text(std::int64_t bytes, std::int64_t limit) {
  return fmt::format("{} of {}", bytes_text(bytes), bytes_text(limit));
}

std::vector<std::string> cells(const ResultRow& row, const RunResult* base) {
  const RunResult& r = row.result;
  const bool is_base = base == nullptr || base->policy == r.policy;
  return {row.settings.front().second,
          r.policy,
          verdict_name(r.verdict),
          format_seconds(r.step_time_s),
          fmt::format("{:.1f}", r.model_tflops_per_gpu),
          is_base ? "-" : speedup_text(speedup_band(*base, r)),
          hidden_text(r),
          part_text(r.peak_hbm_bytes, r.hbm_limit_bytes),
          part_text(r.peak_host_bytes, r.host_limit_bytes)};
}

} // namespace

std::string systems_text(const Scenario& scenario, const std::vector<ResultRow>& rows,
                         const std::string& base) {
  TextTable table;
  table.left_columns = 3;
  table.add({"hardware", "policy", "verdict", "step", "TFLOP/s", "speed-up over " + base, "hidden",
             "peak HBM", "peak pinned host memory"});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i].settings != rows[i - 1].settings) {
      table.add_rule();
    }
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const ResultRow& other) {
      return other.settings == rows[i].settings && other.result.policy == base;
    });
    table.add(cells(rows[i], same == rows.end() ? nullptr : &same->result));
  }
  return fmt::format("{}: {}\n\n", scenario.model.title, job_text(scenario)) + table.render();
}

} // namespace spillway
