#include "results/report_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway {

std::string bytes_text(std::int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

std::string range_text(double low, double high) {
  return fmt::format("{} .. {}", format_seconds(low), format_seconds(high));
}

std::string hidden_text(const RunResult& r) {
  return r.offload_hidden_fraction ? fmt::format("{:.0f} %", 100 * *r.offload_hidden_fraction)
                                   : "-";
}

std::string speedup_text(const RatioBand& band) {
  return band.low < band.high
             ? fmt::format("{:.3f} ({:.3f} .. {:.3f})", band.expected, band.low, band.high)
             : fmt::format("{:.3f}", band.expected);
}

std::string bin_title(TimeBin bin) {
  std::string name = time_bin_name(bin);
  name.resize(name.size() - 2);
  return name;
}

std::string shortfall_text(const RunResult& r) {
  if (r.verdict == Verdict::hbm_oom) {
    return fmt::format("out of HBM: {} needed, {} there, {} short", bytes_text(r.peak_hbm_bytes),
                       bytes_text(r.hbm_limit_bytes),
                       bytes_text(r.peak_hbm_bytes - r.hbm_limit_bytes));
  }
  return fmt::format("out of pinned host memory: {} per GPU needed, {} there, {} short",
                     bytes_text(r.peak_host_bytes), bytes_text(r.host_limit_bytes),
                     bytes_text(r.peak_host_bytes - r.host_limit_bytes));
}

std::string remedy_text(const Scenario& scenario, const RunResult& r) {
  std::string text;
  if (r.verdict == Verdict::host_oom) {
    const double share = host_share(scenario.device);
    const bool by_setting =
        scenario.runtime.host_memory_limit && *scenario.runtime.host_memory_limit < share;
    text += by_setting
                ? fmt::format("  the limit is the setting runtime.host_memory_limit; the CPU "
                              "memory's share is {} per GPU\n",
                              format_bytes(share))
                : std::string("  the limit is this GPU's share of its CPU's memory\n");
    if (by_setting && static_cast<double>(r.peak_host_bytes) <= share) {
      text += fmt::format(
          "  it fits with --set runtime.host_memory_limit=\"{} GB\"\n",
          static_cast<std::int64_t>(std::ceil(static_cast<double>(r.peak_host_bytes) / 1e9)));
      return text;
    }
  }
  const std::int64_t micro = largest_fitting_micro_batch(scenario, r.policy);
  text += micro > 0 ? fmt::format("  it fits with --set batch.micro={} (now {})\n", micro,
                                  scenario.batch.micro)
                    : std::string("  no micro-batch fits: shard over more GPUs or save less\n");
  return text;
}

void check_published(const Scenario& scenario) {
  std::vector<std::string> known = numeric_field_names();
  known.emplace_back("speedup");
  Diagnostics diagnostics;
  for (const auto& [policy, values] : scenario.published) {
    for (const PublishedValue& value : values) {
      if (std::find(known.begin(), known.end(), value.field) == known.end()) {
        diagnostics.add(value.place, fmt::format("unknown field '{}'", value.field),
                        suggestion(value.field, known));
      }
    }
  }
  diagnostics.throw_if_any();
}

const PublishedValue* published_value(const Scenario& scenario, const std::string& policy,
                                      std::string_view field) {
  const auto found = scenario.published.find(policy);
  if (found != scenario.published.end()) {
    for (const PublishedValue& value : found->second) {
      if (value.field == field) {
        return &value;
      }
    }
  }
  return nullptr;
}

std::optional<double> published_speedup(const Scenario& scenario, const std::string& policy,
                                        const std::string& base) {
  if (const PublishedValue* stated = published_value(scenario, policy, "speedup")) {
    return stated->over == base ? std::optional(stated->value) : std::nullopt;
  }
  const PublishedValue* mine = published_value(scenario, policy, "model_tflops_per_gpu");
  const PublishedValue* theirs = published_value(scenario, base, "model_tflops_per_gpu");
  return mine != nullptr && theirs != nullptr ? std::optional(mine->value / theirs->value)
                                              : std::nullopt;
}

} // namespace spillway
