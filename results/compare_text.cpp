#include "results/report_parts.hpp"
#include "results/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

// Policies are columns; each function adds the rows of one subject.
class Comparison {
public:
  Comparison(const Scenario& scenario, const std::vector<RunResult>& results, std::size_t base)
      : scenario_(scenario), results_(results), base_(results[base]) {}

  std::string text() {
    row("", [](const RunResult& r) { return r.policy; });
    table_.add_rule();
    add_rates();
    table_.add_rule();
    add_time_bins();
    table_.add_rule();
    add_memory();
    return table_.render() + shortfalls();
  }

private:
  template <class Cell>
  void row(const std::string& name, const Cell& cell) {
    std::vector<std::string> cells{name};
    for (const RunResult& r : results_) {
      cells.push_back(cell(r));
    }
    table_.add(std::move(cells));
  }

  // What was published for a field beside its predictions, where anything was.
  template <class Format>
  void published_row(std::string_view field, const Format& format) {
    const auto value_of = [&](const RunResult& r) {
      return published_value(scenario_, r.policy, field);
    };
    if (std::any_of(results_.begin(), results_.end(), value_of)) {
      row("  published", [&](const RunResult& r) {
        const PublishedValue* value = value_of(r);
        return value == nullptr ? std::string("-")
                                : fmt::format("{} ({:+.1f} %)", format(value->value),
                                              100 * (*numeric_field(r, field) / value->value - 1));
      });
    }
  }

  void add_rates() {
    row("verdict", [](const RunResult& r) { return std::string(verdict_name(r.verdict)); });
    row("step time", [](const RunResult& r) { return format_seconds(r.step_time_s); });
    published_row("step_time_s", [](double value) { return format_seconds(value); });
    if (base_.has_band()) {
      row("  band",
          [](const RunResult& r) { return range_text(r.step_time_low_s, r.step_time_high_s); });
    }
    row("model TFLOP/s per GPU",
        [](const RunResult& r) { return fmt::format("{:.1f}", r.model_tflops_per_gpu); });
    published_row("model_tflops_per_gpu",
                  [](double value) { return fmt::format("{:.1f}", value); });
    row("hardware TFLOP/s per GPU",
        [](const RunResult& r) { return fmt::format("{:.1f}", r.hardware_tflops_per_gpu); });
    if (results_.size() > 1) {
      add_speedups();
    }
    row("offload copies hidden", hidden_text);
  }

  void add_speedups() {
    const auto is_base = [&](const RunResult& r) { return r.policy == base_.policy; };
    row("speed-up over " + base_.policy, [&](const RunResult& r) {
      return is_base(r) ? std::string("-") : speedup_text(speedup_band(base_, r));
    });
    const auto published = [&](const RunResult& r) {
      return is_base(r) ? std::nullopt : published_speedup(scenario_, r.policy, base_.policy);
    };
    if (std::any_of(results_.begin(), results_.end(), published)) {
      row("  published", [&](const RunResult& r) {
        const std::optional<double> speedup = published(r);
        return speedup ? fmt::format("{:.3f}", *speedup) : std::string("-");
      });
    }
  }

  void add_time_bins() {
    for (std::size_t bin = 0; bin < time_bin_count; ++bin) {
      if (std::any_of(results_.begin(), results_.end(),
                      [&](const RunResult& r) { return r.time[bin] > 0; })) {
        row(bin_title(static_cast<TimeBin>(bin)),
            [&](const RunResult& r) { return format_seconds(r.time[bin]); });
      }
    }
  }

  void add_memory() {
    row("peak HBM", [](const RunResult& r) { return bytes_text(r.peak_hbm_bytes); });
    published_row("peak_hbm_bytes", [](double value) { return format_bytes(value); });
    row("  limit", [](const RunResult& r) { return bytes_text(r.hbm_limit_bytes); });
    std::vector<std::string> owners;
    for (const RunResult& r : results_) {
      for (const auto& [owner, bytes] : r.hbm_owners) {
        if (std::find(owners.begin(), owners.end(), owner) == owners.end()) {
          owners.push_back(owner);
        }
      }
    }
    for (const std::string& owner : owners) {
      row("  " + owner, [&](const RunResult& r) {
        const auto found = std::find_if(r.hbm_owners.begin(), r.hbm_owners.end(),
                                        [&](const auto& entry) { return entry.first == owner; });
        return found == r.hbm_owners.end() ? std::string("-") : bytes_text(found->second);
      });
    }
    row("peak pinned host memory",
        [](const RunResult& r) { return bytes_text(r.peak_host_bytes); });
    row("  limit per GPU", [](const RunResult& r) { return bytes_text(r.host_limit_bytes); });
  }

  [[nodiscard]] std::string shortfalls() const {
    std::string text;
    for (const RunResult& r : results_) {
      if (r.verdict != Verdict::fits) {
        text += fmt::format("\n{}: {}\n", r.policy, shortfall_text(r));
        if (r.verdict == Verdict::hbm_oom) {
          text += fmt::format("  at {}\n", r.peak_hbm_moment);
        }
        text += remedy_text(scenario_, r);
      }
    }
    return text;
  }

  const Scenario& scenario_;
  const std::vector<RunResult>& results_;
  const RunResult& base_;
  TextTable table_;
};

} // namespace

std::string compare_text(const Scenario& scenario, const std::vector<RunResult>& results,
                         std::size_t base) {
  return Comparison(scenario, results, base).text();
}

} // namespace spillway
