#include "results/report_parts.hpp"
#include "results/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace spillway {
namespace {

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
  std::vector<const ResultRow*> rows;

  [[nodiscard]] const ResultRow* under(const Settings& conditions) const {
    for (const ResultRow* row : rows) {
      if (part_of(row->settings, true) == conditions) {
        return row;
      }
    }
    return nullptr;
  }
};

// Ways that change nothing for the base policy are one column.
std::vector<BaseColumn> base_columns(const std::vector<const ResultRow*>& rows) {
  std::vector<BaseColumn> columns;
  for (const ResultRow* row : rows) {
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
                      [](const ResultRow* x, const ResultRow* y) {
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
std::string speedup_matrix(const std::vector<const ResultRow*>& rows,
                           const std::vector<BaseColumn>& columns) {
  TextTable ratios;
  std::vector<std::string> head{rows.front()->result.policy + " with"};
  for (const BaseColumn& column : columns) {
    head.push_back(columns.size() == 1 ? "any setting" : settings_text(column.way));
  }
  ratios.add(std::move(head));
  for (const ResultRow* row : rows) {
    std::vector<std::string> cells{settings_text(row->settings)};
    for (const BaseColumn& column : columns) {
      const ResultRow* base = column.under(part_of(row->settings, true));
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
std::string published_statement(const Scenario& scenario, const std::vector<const ResultRow*>& rows,
                                const std::vector<BaseColumn>& columns, double published) {
  std::string containing;
  const ResultRow* nearest = nullptr;
  const ResultRow* nearest_base = nullptr;
  double distance = 0;
  for (const ResultRow* row : rows) {
    for (const BaseColumn& column : columns) {
      const ResultRow* base = column.under(part_of(row->settings, true));
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

// What was published belongs to one system.
bool varies_system(const std::vector<ResultRow>& rows) {
  const Settings& settings = rows.front().settings;
  return std::any_of(settings.begin(), settings.end(),
                     [](const auto& setting) { return setting.first == "hardware"; });
}

} // namespace

std::string axis_text(const Scenario& scenario, const std::vector<ResultRow>& rows,
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
  for (const ResultRow& row : rows) {
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
  std::vector<const ResultRow*> base_rows;
  for (const ResultRow& row : rows) {
    if (row.result.policy == base) {
      base_rows.push_back(&row);
    } else if (std::find(policies.begin(), policies.end(), row.result.policy) == policies.end()) {
      policies.push_back(row.result.policy);
    }
  }
  const std::vector<BaseColumn> columns = base_columns(base_rows);
  for (const std::string& policy : policies) {
    std::vector<const ResultRow*> own;
    for (const ResultRow& row : rows) {
      if (row.result.policy == policy) {
        own.push_back(&row);
      }
    }
    text += speedup_matrix(own, columns);
    const auto published = published_speedup(scenario, policy, base);
    if (published && !varies_system(rows)) {
      text += published_statement(scenario, own, columns, *published);
    }
  }
  return text;
}

} // namespace spillway
