#include "results/report_parts.hpp"
#include "results/text_table.hpp"

#include <fmt/format.h>

namespace spillway {
namespace {

std::string owners_text(const OwnerMap& owners, std::int64_t total) {
  TextTable table;
  for (const auto& [name, bytes] : owners) {
    table.add(
        {name, bytes_text(bytes),
         fmt::format("{:.1f} %", 100 * static_cast<double>(bytes) / static_cast<double>(total))});
  }
  return table.render("    ");
}

std::string published_line(const Scenario& scenario, const RunResult& r) {
  std::string text;
  const auto found = scenario.published.find(r.policy);
  if (found == scenario.published.end()) {
    return text;
  }
  for (const PublishedValue& value : found->second) {
    const std::optional<double> mine = numeric_field(r, value.field);
    if (mine) {
      text += fmt::format("  {} {:.6g}, published {:.6g} ({:+.1f} %), {}\n", value.field, *mine,
                          value.value, 100 * (*mine / value.value - 1), value.source);
    }
  }
  return text;
}

} // namespace

std::string job_text(const Scenario& scenario) {
  std::string text =
      fmt::format("{} GPUs = fsdp {} x expert {}, micro-batch {} x {} tokens",
                  scenario.parallel.gpus, scenario.parallel.fsdp, scenario.parallel.expert,
                  scenario.batch.micro, scenario.batch.sequence);
  if (scenario.batch.accumulation > 1) {
    text += fmt::format(" x {} accumulated", scenario.batch.accumulation);
  }
  return text;
}

std::string scenario_text(const Scenario& scenario) {
  return fmt::format("{}\n{} on {}: {}\n", scenario.title, scenario.model.title,
                     scenario.device.title, job_text(scenario));
}

std::string runtime_text(const Scenario& scenario) {
  return fmt::format("{}, copies {}, collectives {}\n", scenario.framework.title,
                     schedule_name(scenario.runtime.schedule),
                     scenario.runtime.overlap_collectives ? "overlapped" : "exposed");
}

std::string run_text(const Scenario& scenario, const Simulation& run) {
  const RunResult& r = run.result;
  std::string text = fmt::format("policy {}: ", r.policy);
  if (r.verdict == Verdict::fits) {
    text += fmt::format("fits, {} a step, {:.1f} model TFLOP/s per GPU\n",
                        format_seconds(r.step_time_s), r.model_tflops_per_gpu);
  } else {
    text += fmt::format("{}, {}\n", verdict_name(r.verdict), shortfall_text(r));
    text += remedy_text(scenario, r);
  }
  text += published_line(scenario, r);
  TextTable table;
  table.add({"step time", format_seconds(r.step_time_s),
             r.has_band() ? "band " + range_text(r.step_time_low_s, r.step_time_high_s) : ""});
  for (std::size_t bin = 0; bin < time_bin_count; ++bin) {
    if (r.time[bin] > 0) {
      table.add({"  " + bin_title(static_cast<TimeBin>(bin)), format_seconds(r.time[bin]),
                 fmt::format("{:.1f} %", 100 * r.time[bin] / r.step_time_s)});
    }
  }
  table.add({"tokens/s per GPU", fmt::format("{:.0f}", r.tokens_per_s_per_gpu)});
  table.add({"model TFLOP/s per GPU", fmt::format("{:.1f}", r.model_tflops_per_gpu),
             fmt::format("{:.1f} % MFU", 100 * r.mfu)});
  table.add({"hardware TFLOP/s per GPU", fmt::format("{:.1f}", r.hardware_tflops_per_gpu)});
  if (r.d2h_bytes > 0) {
    table.add({"offloaded each way", bytes_text(r.d2h_bytes), hidden_text(r) + " hidden"});
  }
  text += "\n" + table.render("  ");
  text += fmt::format("\n  peak HBM {} of {}, at {}\n", bytes_text(r.peak_hbm_bytes),
                      bytes_text(r.hbm_limit_bytes), r.peak_hbm_moment);
  text += owners_text(r.hbm_owners, r.peak_hbm_bytes);
  text += fmt::format("  peak pinned host memory {} of {} per GPU\n", bytes_text(r.peak_host_bytes),
                      bytes_text(r.host_limit_bytes));
  if (r.peak_host_bytes > 0) {
    text += owners_text(r.host_owners, r.peak_host_bytes);
  }
  if (!scenario.assumed.empty()) {
    text += "\n  assumed, since no source states it (every coefficient: --json)\n";
    for (const Assumption& assumption : scenario.assumed) {
      text += fmt::format("    {}{}: {}\n", assumption.what,
                          assumption.value.empty() ? "" : " = " + assumption.value, assumption.why);
    }
  }
  for (const std::string& warning : r.warnings) {
    text += fmt::format("  warning: {}\n", warning);
  }
  return text;
}

} // namespace spillway
