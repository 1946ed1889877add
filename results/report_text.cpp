#include "results/report_text.hpp"

#include "results/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace spillway {
namespace {

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

// Which setting or capacity is too small, and the smallest change that helps.
std::string remedy_text(const Scenario& scenario, const RunResult& r) {
  std::string text;
  if (r.verdict == Verdict::host_oom) {
    const double share =
        scenario.device.host_memory.value / static_cast<double>(scenario.device.gpus_per_cpu);
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

std::string speedup_text(const RatioBand& band) {
  return fmt::format("{:.3f} ({:.3f} .. {:.3f})", band.expected, band.low, band.high);
}

// Two runs can only be compared on the same machine with the same model and
// batch; what may differ between them is how they are run.
bool is_condition(const std::string& path) {
  return path.starts_with("hardware") || path.starts_with("model") || path.starts_with("batch") ||
         path.starts_with("gpus") || path.starts_with("parallel");
}

using Settings = std::vector<std::pair<std::string, std::string>>;

Settings part_of(const Settings& settings, bool conditions) {
  Settings part;
  for (const auto& setting : settings) {
    if (is_condition(setting.first) == conditions) {
      part.push_back(setting);
    }
  }
  return part;
}

// A column of the speed-up table: the base policy run in one way, by condition.
struct BaseColumn {
  Settings way;
  std::vector<const AxisRow*> rows;

  [[nodiscard]] const AxisRow* under(const Settings& conditions) const {
    for (const AxisRow* row : rows) {
      if (part_of(row->settings, true) == conditions) {
        return row;
      }
    }
    return nullptr;
  }
};

// Ways that change nothing for the base policy are one column.
std::vector<BaseColumn> base_columns(const std::vector<const AxisRow*>& rows) {
  std::vector<BaseColumn> columns;
  for (const AxisRow* row : rows) {
    const Settings way = part_of(row->settings, false);
    auto column = std::find_if(columns.begin(), columns.end(),
                               [&](const BaseColumn& known) { return known.way == way; });
    if (column == columns.end()) {
      columns.push_back({way, {}});
      column = std::prev(columns.end());
    }
    column->rows.push_back(row);
  }
  const auto same_times = [](const BaseColumn& a, const BaseColumn& b) {
    return std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(),
                      [](const AxisRow* x, const AxisRow* y) {
                        return x->result.step_time_s == y->result.step_time_s;
                      });
  };
  std::vector<BaseColumn> distinct;
  for (BaseColumn& column : columns) {
    if (std::none_of(distinct.begin(), distinct.end(),
                     [&](const BaseColumn& known) { return same_times(known, column); })) {
      distinct.push_back(std::move(column));
    }
  }
  return distinct;
}

std::string settings_text(const Settings& settings) {
  std::string text;
  for (const auto& [path, value] : settings) {
    text += (text.empty() ? "" : ", ") + path.substr(path.rfind('.') + 1) + " " + value;
  }
  return text.empty() ? "any setting" : text;
}

// Speed-ups of one policy's settings (rows) over the base's (columns).
std::string speedup_matrix(const std::vector<const AxisRow*>& rows,
                           const std::vector<BaseColumn>& columns) {
  TextTable ratios;
  std::vector<std::string> head{rows.front()->result.policy + " with"};
  for (const BaseColumn& column : columns) {
    head.push_back(columns.size() == 1 ? "any setting" : settings_text(column.way));
  }
  ratios.add(std::move(head));
  for (const AxisRow* row : rows) {
    std::vector<std::string> cells{settings_text(row->settings)};
    for (const BaseColumn& column : columns) {
      const AxisRow* base = column.under(part_of(row->settings, true));
      cells.push_back(base == nullptr ? "-"
                                      : speedup_text(speedup_band(base->result, row->result)));
    }
    ratios.add(std::move(cells));
  }
  return fmt::format("\nspeed-up of {} (rows) over {} with (columns), on equal hardware\n",
                     rows.front()->result.policy, columns.front().rows.front()->result.policy) +
         ratios.render("  ");
}

// Which pairs of settings contain the published speed-up; if none does, how far
// the nearest pair is.
std::string published_statement(const Scenario& scenario, const std::vector<const AxisRow*>& rows,
                                const std::vector<BaseColumn>& columns, double published) {
  std::string containing;
  const AxisRow* nearest = nullptr;
  const AxisRow* nearest_base = nullptr;
  double distance = 0;
  for (const AxisRow* row : rows) {
    for (const BaseColumn& column : columns) {
      const AxisRow* base = column.under(part_of(row->settings, true));
      if (base == nullptr) {
        continue;
      }
      const RatioBand band = speedup_band(base->result, row->result);
      if (band.low <= published && published <= band.high) {
        containing += fmt::format("    {} against {}: {}\n", settings_text(row->settings),
                                  columns.size() == 1 ? "any setting" : settings_text(column.way),
                                  speedup_text(band));
      }
      const double miss = std::abs(band.expected - published);
      if (nearest == nullptr || miss < distance) {
        nearest = row;
        nearest_base = base;
        distance = miss;
      }
    }
  }
  std::string text = fmt::format("  published {:.3f}: ", published);
  if (!containing.empty()) {
    return text + "inside the band of\n" + containing;
  }
  const double own = nearest_base->result.step_time_s - nearest->result.step_time_s;
  text +=
      fmt::format("inside the band of no pair\n    nearest: {} against {}, which saves {} a step",
                  settings_text(nearest->settings),
                  settings_text(part_of(nearest_base->settings, false)), format_seconds(own));
  const PublishedValue* mine =
      published_value(scenario, nearest->result.policy, "model_tflops_per_gpu");
  const PublishedValue* theirs =
      published_value(scenario, nearest_base->result.policy, "model_tflops_per_gpu");
  if (mine != nullptr && theirs != nullptr) {
    const double flops = scenario.trace.model_flops.value() / 1e12;
    const double gain = flops / theirs->value - flops / mine->value;
    text += fmt::format(" of the published {}; {} stay unexplained", format_seconds(gain),
                        format_seconds(std::abs(gain - own)));
  }
  return text + "\n";
}

} // namespace

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
    return stated->value;
  }
  const PublishedValue* mine = published_value(scenario, policy, "model_tflops_per_gpu");
  const PublishedValue* theirs = published_value(scenario, base, "model_tflops_per_gpu");
  return mine != nullptr && theirs != nullptr ? std::optional(mine->value / theirs->value)
                                              : std::nullopt;
}

std::string scenario_text(const Scenario& scenario) {
  std::string text = fmt::format("{}\n", scenario.title);
  text += fmt::format("{} on {}: {} GPUs = fsdp {} x expert {}, micro-batch {} x {} tokens",
                      scenario.model.title, scenario.device.title, scenario.parallel.gpus,
                      scenario.parallel.fsdp, scenario.parallel.expert, scenario.batch.micro,
                      scenario.batch.sequence);
  if (scenario.batch.accumulation > 1) {
    text += fmt::format(" x {} accumulated", scenario.batch.accumulation);
  }
  return text + "\n";
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
             "band " + range_text(r.step_time_low_s, r.step_time_high_s)});
  for (std::size_t bin = 0; bin < time_bin_count; ++bin) {
    if (r.time[bin] > 0) {
      std::string name = time_bin_name(static_cast<TimeBin>(bin));
      name.resize(name.size() - 2); // without the unit
      table.add({"  " + name, format_seconds(r.time[bin]),
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

std::string compare_text(const Scenario& scenario, const std::vector<RunResult>& results,
                         std::size_t base) {
  TextTable table;
  const auto row = [&](const std::string& name, const auto& cell) {
    std::vector<std::string> cells{name};
    for (const RunResult& r : results) {
      cells.push_back(cell(r));
    }
    table.add(std::move(cells));
  };
  row("", [](const RunResult& r) { return r.policy; });
  table.add_rule();
  row("verdict", [](const RunResult& r) { return std::string(verdict_name(r.verdict)); });
  row("step time", [](const RunResult& r) { return format_seconds(r.step_time_s); });
  row("  band",
      [](const RunResult& r) { return range_text(r.step_time_low_s, r.step_time_high_s); });
  row("model TFLOP/s per GPU",
      [](const RunResult& r) { return fmt::format("{:.1f}", r.model_tflops_per_gpu); });
  const bool any_published = std::any_of(results.begin(), results.end(), [&](const RunResult& r) {
    return published_value(scenario, r.policy, "model_tflops_per_gpu") != nullptr;
  });
  if (any_published) {
    row("  published", [&](const RunResult& r) {
      const PublishedValue* value = published_value(scenario, r.policy, "model_tflops_per_gpu");
      return value == nullptr ? std::string("-")
                              : fmt::format("{:.1f} ({:+.1f} %)", value->value,
                                            100 * (r.model_tflops_per_gpu / value->value - 1));
    });
  }
  row("hardware TFLOP/s per GPU",
      [](const RunResult& r) { return fmt::format("{:.1f}", r.hardware_tflops_per_gpu); });
  if (results.size() > 1) {
    row("speed-up over " + results[base].policy, [&](const RunResult& r) {
      return &r == &results[base] ? std::string("-") : speedup_text(speedup_band(results[base], r));
    });
  }
  const std::string& base_policy = results[base].policy;
  if (std::any_of(results.begin(), results.end(), [&](const RunResult& r) {
        return r.policy != base_policy && published_speedup(scenario, r.policy, base_policy);
      })) {
    row("  published", [&](const RunResult& r) {
      const auto speedup = r.policy == base_policy
                               ? std::nullopt
                               : published_speedup(scenario, r.policy, base_policy);
      return speedup ? fmt::format("{:.3f}", *speedup) : std::string("-");
    });
  }
  row("offload copies hidden", hidden_text);
  table.add_rule();
  for (std::size_t bin = 0; bin < time_bin_count; ++bin) {
    if (std::any_of(results.begin(), results.end(),
                    [&](const RunResult& r) { return r.time[bin] > 0; })) {
      std::string name = time_bin_name(static_cast<TimeBin>(bin));
      name.resize(name.size() - 2);
      row(name, [&](const RunResult& r) { return format_seconds(r.time[bin]); });
    }
  }
  table.add_rule();
  row("peak HBM", [](const RunResult& r) { return bytes_text(r.peak_hbm_bytes); });
  row("  limit", [](const RunResult& r) { return bytes_text(r.hbm_limit_bytes); });
  std::vector<std::string> owners;
  for (const RunResult& r : results) {
    for (const auto& [owner, bytes] : r.hbm_owners) {
      if (std::find(owners.begin(), owners.end(), owner) == owners.end()) {
        owners.push_back(owner);
      }
    }
  }
  for (const std::string& owner : owners) {
    row("  " + owner, [&](const RunResult& r) {
      for (const auto& [name, bytes] : r.hbm_owners) {
        if (name == owner) {
          return bytes_text(bytes);
        }
      }
      return std::string("-");
    });
  }
  row("peak pinned host memory", [](const RunResult& r) { return bytes_text(r.peak_host_bytes); });
  row("  limit per GPU", [](const RunResult& r) { return bytes_text(r.host_limit_bytes); });
  std::string text = table.render();
  for (const RunResult& r : results) {
    if (r.verdict != Verdict::fits) {
      text += fmt::format("\n{}: {}\n", r.policy, shortfall_text(r));
      if (r.verdict == Verdict::hbm_oom) {
        text += fmt::format("  at {}\n", r.peak_hbm_moment);
      }
      text += remedy_text(scenario, r);
    }
  }
  return text;
}

std::string axis_text(const Scenario& scenario, const std::vector<AxisRow>& rows,
                      const std::string& base) {
  TextTable table;
  std::vector<std::string> head;
  for (const auto& [path, value] : rows.front().settings) {
    head.push_back(path.substr(path.rfind('.') + 1));
  }
  table.left_columns = head.size() + 2;
  for (const char* name : {"policy", "verdict", "step", "TFLOP/s", "forward", "recompute",
                           "backward", "exp. copies", "exp. collect.", "hidden"}) {
    head.emplace_back(name);
  }
  table.add(std::move(head));
  table.add_rule();
  for (const AxisRow& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [path, value] : row.settings) {
      cells.push_back(value);
    }
    const RunResult& r = row.result;
    const auto bin = [&](TimeBin b) { return format_seconds(r.time[static_cast<std::size_t>(b)]); };
    cells.insert(cells.end(),
                 {r.policy, verdict_name(r.verdict), format_seconds(r.step_time_s),
                  fmt::format("{:.1f}", r.model_tflops_per_gpu), bin(TimeBin::forward),
                  bin(TimeBin::recompute), bin(TimeBin::backward), bin(TimeBin::exposed_offload),
                  bin(TimeBin::exposed_collective), hidden_text(r)});
    table.add(std::move(cells));
  }
  std::string text = table.render();

  std::vector<std::string> policies;
  std::vector<const AxisRow*> base_rows;
  for (const AxisRow& row : rows) {
    if (row.result.policy == base) {
      base_rows.push_back(&row);
    } else if (std::find(policies.begin(), policies.end(), row.result.policy) == policies.end()) {
      policies.push_back(row.result.policy);
    }
  }
  const std::vector<BaseColumn> columns = base_columns(base_rows);
  for (const std::string& policy : policies) {
    std::vector<const AxisRow*> own;
    for (const AxisRow& row : rows) {
      if (row.result.policy == policy) {
        own.push_back(&row);
      }
    }
    text += speedup_matrix(own, columns);
    if (const auto published = published_speedup(scenario, policy, base)) {
      text += published_statement(scenario, own, columns, *published);
    }
  }
  return text;
}

} // namespace spillway
