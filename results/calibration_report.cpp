#include "results/calibration_report.hpp"

#include "results/text_table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_table_rows = 10; // of a table, the worst ones

std::string percent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.2f} %", 100 * share);
}

std::string rate_text(const NamedFit& fit, double rate) {
  return fit.rate_dimension == Dimension::flop_rate ? format_flop_rate(rate)
                                                    : format_byte_rate(rate);
}

std::string size_text(const NamedFit& fit, const Sample& sample) {
  if (!fit.of_table) {
    return format_bytes(sample.work);
  }
  std::string text;
  for (const std::int64_t size : sample.shape) {
    text += size > 0 ? fmt::format("{}{}", text.empty() ? "" : " x ", size) : "";
  }
  return text;
}

// All samples of a line; of a table the worst ones, worst first.
std::vector<std::size_t> shown_samples(const NamedFit& fit) {
  std::vector<std::size_t> order(fit.line.samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (fit.of_table) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::abs(fit.line.residuals[a]) > std::abs(fit.line.residuals[b]);
    });
    order.resize(std::min(order.size(), most_table_rows));
  }
  return order;
}

std::string coefficients_text(const Calibration& calibration) {
  TextTable table;
  table.add({"coefficient", "records", "value", "low", "high", "mean residual", "worst"});
  table.add_rule();
  for (const FittedCoefficient& fitted : calibration.coefficients) {
    const Coefficient& c = fitted.coefficient;
    const LineFit* line = fitted.fit ? &calibration.fits[*fitted.fit].line : nullptr;
    table.add({c.path, fmt::format("{}", fitted.records), format_coefficient(c, c.value),
               c.has_range() ? format_coefficient(c, c.low) : "-",
               c.has_range() ? format_coefficient(c, c.high) : "-",
               line == nullptr ? "-" : percent(line->mean_residual),
               line == nullptr ? "-" : percent(line->worst_residual)});
  }
  return table.render();
}

std::string tables_text(const Calibration& calibration) {
  TextTable table;
  table.add({"kernel table", "records", "rows", "start", "rate", "low", "high", "mean residual",
             "worst"});
  table.add_rule();
  bool any = false;
  for (const NamedFit& fit : calibration.fits) {
    if (fit.of_table) {
      const LineFit& line = fit.line;
      table.add({fit.name, fmt::format("{}", line.records), fmt::format("{}", line.samples.size()),
                 format_seconds(line.t0), rate_text(fit, line.rate),
                 rate_text(fit, line.rate_range.low), rate_text(fit, line.rate_range.high),
                 percent(line.mean_residual), percent(line.worst_residual)});
      any = true;
    }
  }
  return any ? "\n" + table.render() : "";
}

std::string dropped_text(const Calibration& calibration) {
  TextTable table;
  table.left_columns = 1;
  table.last_column_left = true;
  table.add({"not used", "records", "why"});
  table.add_rule();
  for (const Dropped& dropped : calibration.dropped) {
    table.add({dropped.kind, fmt::format("{}", dropped.records), dropped.reason});
  }
  return calibration.dropped.empty() ? "" : "\n" + table.render();
}

std::string beside_text(const Calibration& calibration) {
  TextTable table;
  table.left_columns = 2;
  table.add({"work", "copies beside it", "time", "over alone", "D2H", "H2D"});
  table.add_rule();
  for (const BesideCopies& line : calibration.beside) {
    table.add({line.work, line.copies, format_seconds(line.seconds),
               line.over_alone ? fmt::format("{:.3f}", *line.over_alone) : "-",
               line.d2h_rate > 0 ? format_byte_rate(line.d2h_rate) : "-",
               line.h2d_rate > 0 ? format_byte_rate(line.h2d_rate) : "-"});
  }
  return calibration.beside.empty() ? "" : "\n" + table.render();
}

std::string comparison_text(const Calibration& calibration) {
  TextTable table;
  table.left_columns = 1;
  table.add({"fit against measurement", "size", "measured", "fitted", "residual", "record"});
  table.add_rule();
  bool first = true;
  for (const NamedFit& fit : calibration.fits) {
    if (!std::exchange(first, false)) {
      table.add_rule();
    }
    for (const std::size_t i : shown_samples(fit)) {
      const Sample& sample = fit.line.samples[i];
      table.add({fit.name, size_text(fit, sample), format_seconds(sample.seconds),
                 format_seconds(fit.line.time(sample.work)), signed_percent(fit.line.residuals[i]),
                 place_text(sample.place)});
    }
  }
  return first ? ""
               : "\n" + table.render() +
                     "residual: fitted over measured time, less 1; of a kernel table the ten rows "
                     "furthest from its line\n";
}

std::string list_text(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string use_text(const CalibrationUse& use) {
  std::string text;
  if (!use.base.empty()) {
    text += fmt::format("\nfrom {}: {}\n", use.base, list_text(use.from_base));
    if (!use.replaced.empty()) {
      text += fmt::format("replaced of it: {}\n", list_text(use.replaced));
    }
  } else if (!use.missing.empty()) {
    text += fmt::format("\na scenario needs also: {}\n  --base NAME takes them from one of: {}\n",
                        list_text(use.missing), list_text(use.base_names));
  }
  return text + fmt::format("\nwritten: {}\n", list_text(use.written));
}

Json fit_json(const NamedFit& fit) {
  const LineFit& line = fit.line;
  Json json{{"name", fit.name},
            {"records", line.records},
            {"start_s", line.t0},
            {"start_low_s", line.t0_range.low},
            {"start_high_s", line.t0_range.high},
            {"rate_per_s", line.rate},
            {"rate_low_per_s", line.rate_range.low},
            {"rate_high_per_s", line.rate_range.high},
            {"mean_abs_residual_percent", 100 * line.mean_residual},
            {"max_abs_residual_percent", 100 * line.worst_residual}};
  json["samples"] = Json::array();
  for (std::size_t i = 0; i < line.samples.size(); ++i) {
    const Sample& sample = line.samples[i];
    Json sizes = Json::array();
    for (const std::int64_t size : sample.shape) {
      if (size > 0) {
        sizes.push_back(size);
      }
    }
    json["samples"].push_back({{"sizes", sizes},
                               {"measured_s", sample.seconds},
                               {"fitted_s", line.time(sample.work)},
                               {"residual_percent", 100 * line.residuals[i]},
                               {"file", sample.place.source->name},
                               {"line", sample.place.line}});
  }
  return json;
}

} // namespace

std::string calibration_text(const Calibration& calibration, const CalibrationUse& use) {
  return fmt::format("{}: {} records in {}\n\n", calibration.device, calibration.records,
                     list_text(calibration.files)) +
         coefficients_text(calibration) + tables_text(calibration) + dropped_text(calibration) +
         beside_text(calibration) + comparison_text(calibration) + use_text(use);
}

std::string calibration_json(const Calibration& calibration, const CalibrationUse& use) {
  Json json{{"device", calibration.device},
            {"files", calibration.files},
            {"records", calibration.records}};
  for (const char* key : {"coefficients", "fits", "not_used", "beside_copies"}) {
    json[key] = Json::array();
  }
  for (const FittedCoefficient& fitted : calibration.coefficients) {
    const Coefficient& c = fitted.coefficient;
    json["coefficients"].push_back({{"path", c.path},
                                    {"value", c.value},
                                    {"low", c.low},
                                    {"high", c.high},
                                    {"records", fitted.records},
                                    {"note", fitted.note}});
  }
  for (const NamedFit& fit : calibration.fits) {
    json["fits"].push_back(fit_json(fit));
  }
  for (const Dropped& dropped : calibration.dropped) {
    json["not_used"].push_back(
        {{"kind", dropped.kind}, {"records", dropped.records}, {"reason", dropped.reason}});
  }
  for (const BesideCopies& line : calibration.beside) {
    json["beside_copies"].push_back(
        {{"work", line.work},
         {"copies", line.copies},
         {"time_s", line.seconds},
         {"over_alone", line.over_alone ? Json(*line.over_alone) : Json(nullptr)},
         {"d2h_bytes_per_s", line.d2h_rate},
         {"h2d_bytes_per_s", line.h2d_rate}});
  }
  json["base"] = use.base.empty() ? Json(nullptr) : Json(use.base);
  json["from_base"] = use.from_base;
  json["replaced"] = use.replaced;
  json["missing"] = use.missing;
  json["written"] = use.written;
  // File names may be anything.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

} // namespace spillway
