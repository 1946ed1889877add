// Memory, launches and copies: coefficients of a line or of a few numbers.
#include "hw_models/calibration/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace spillway {
namespace {

constexpr double cache_multiple = 4;

Coefficient coefficient(const std::string& path, Dimension dimension, double value,
                        const Interval& range) {
  Coefficient c;
  c.path = path;
  c.dimension = dimension;
  c.value = value;
  c.low = range.low;
  c.high = range.high;
  c.kind = "measured";
  return c;
}

// "latency + bytes / rate over 21 sizes from 4.096 kB to 4.295 GB, ..."
std::string note_of(const LineFit& fit, const std::string& formula) {
  return fmt::format("{} over {} sizes from {} to {}, least squares of relative residuals: mean "
                     "{:.1f} %, worst {:.1f} %",
                     formula, fit.samples.size(), format_bytes(fit.samples.front().work),
                     format_bytes(fit.samples.back().work), 100 * fit.mean_residual,
                     100 * fit.worst_residual);
}

const LineFit* add_fit(const LineRules& rules, const std::vector<Sample>& samples, Calibration& out,
                       Diagnostics& diagnostics) {
  std::optional<LineFit> fit = fit_line(samples, rules, diagnostics);
  if (!fit) {
    return nullptr;
  }
  out.fits.push_back({rules.what, Dimension::byte_rate, false, std::move(*fit)});
  return &out.fits.back().line;
}

void add_coefficient(Coefficient c, std::string note, const LineFit& fit, Calibration& out) {
  out.coefficients.push_back({std::move(c), std::move(note), fit.records, out.fits.size() - 1});
}

void fit_direction(const std::string& name, const std::vector<Sample>& samples, Calibration& out,
                   Diagnostics& diagnostics) {
  const LineFit* fit =
      samples.empty() ? nullptr : add_fit({"copy " + name}, samples, out, diagnostics);
  if (fit == nullptr) {
    return;
  }
  const std::string note = note_of(*fit, "latency + bytes / rate");
  add_coefficient(
      coefficient("host." + name + ".rate", Dimension::byte_rate, fit->rate, fit->rate_range), note,
      *fit, out);
  add_coefficient(
      coefficient("host." + name + ".latency", Dimension::seconds, fit->t0, fit->t0_range), note,
      *fit, out);
}

} // namespace

void fit_memory(const Measurements& measured, Calibration& out, Diagnostics& /*diagnostics*/) {
  const auto total = static_cast<double>(measured.device.total);
  out.coefficients.push_back({coefficient("gpu.memory", Dimension::bytes, total, {total, total}),
                              "what the driver reports",
                              1,
                              {}});
}

void fit_stream(const Measurements& measured, Calibration& out, Diagnostics& diagnostics) {
  if (measured.stream.empty()) {
    return;
  }
  const auto cache = static_cast<double>(measured.device.l2);
  std::vector<Sample> large;
  std::copy_if(measured.stream.begin(), measured.stream.end(), std::back_inserter(large),
               [&](const Sample& sample) { return sample.work > cache_multiple * cache; });
  const std::size_t dropped = measured.stream.size() - large.size();
  const std::string rule =
      fmt::format("{:g} times the L2 cache of {}", cache_multiple, format_bytes(cache));
  if (large.empty()) {
    diagnostics.add(measured.stream.front().place,
                    fmt::format("hbm_stream: no working set is larger than {}", rule),
                    "what fits in the cache says nothing of HBM");
    return;
  }
  LineRules rules{"hbm_stream"};
  if (dropped > 0) {
    const std::string small = "working set of at most " + rule;
    add_dropped(out.dropped, "hbm_stream", small, dropped);
    rules.left_out = fmt::format("not used for a {}: {}", small, dropped);
  }
  if (const LineFit* fit = add_fit(rules, large, out, diagnostics)) {
    add_coefficient(
        coefficient("gpu.hbm_rate", Dimension::byte_rate, fit->rate, fit->rate_range),
        note_of(*fit, fmt::format("{} + bytes read and written / rate", format_seconds(fit->t0))),
        *fit, out);
  }
}

void fit_launch(const Measurements& measured, Calibration& out, Diagnostics& diagnostics) {
  if (measured.launch.empty()) {
    return;
  }
  const std::vector<Sample> merged = merge_repeats(measured.launch, "launch", diagnostics);
  const auto [fast, slow] =
      std::minmax_element(measured.launch.begin(), measured.launch.end(),
                          [](const Sample& a, const Sample& b) { return a.seconds < b.seconds; });
  const std::size_t n = measured.launch.size();
  out.coefficients.push_back(
      {coefficient("gpu.kernel_overhead", Dimension::seconds, merged.front().seconds,
                   {fast->seconds, slow->seconds}),
       n == 1 ? "one measurement of empty kernels back to back; its scatter is unknown"
              : fmt::format("empty kernels back to back: median and range of {} measurements", n),
       n,
       {}});
}

void fit_copies(const Measurements& measured, Calibration& out, Diagnostics& diagnostics) {
  fit_direction("d2h", measured.d2h, out, diagnostics);
  fit_direction("h2d", measured.h2d, out, diagnostics);
}

void fit_duplex(const Measurements& measured, Calibration& out, Diagnostics& diagnostics) {
  if (measured.duplex.empty()) {
    return;
  }
  const LineFit* fit = add_fit({"copy both ways"}, measured.duplex, out, diagnostics);
  if (fit == nullptr) {
    return;
  }
  check_both_ways(fit->rate, fit->samples.back().place, out, diagnostics);
  Interval range = fit->rate_range;
  std::string note =
      note_of(*fit, fmt::format("{} + bytes of both directions / rate", format_seconds(fit->t0)));
  const auto both = [](const InterferenceRecord& record) { return record.copies == "both"; };
  if (std::any_of(measured.interference.begin(), measured.interference.end(), both)) {
    note += "; the range holds the sums beside kernels";
  }
  for (const InterferenceRecord& record : measured.interference) {
    range = both(record) ? range.united(record.d2h_rate + record.h2d_rate) : range;
  }
  add_coefficient(coefficient("host.duplex_rate", Dimension::byte_rate, fit->rate, range),
                  std::move(note), *fit, out);
}

} // namespace spillway
