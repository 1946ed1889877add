#include "hw_models/calibration/line_fit.hpp"

#include "sim/base/units.hpp"

#include <Eigen/Dense>
#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace spillway {
namespace {

constexpr double most_start_of_large = 0.01;
constexpr double least_start_of_small = 0.90;

// Estimates of (t0, 1 / R), their 95 % half-widths, and h of each row.
struct Line {
  double t0 = 0, t0_error = 0;
  double slope = 0, slope_error = 0;
  std::vector<double> leverages;
};

// t_i = t0 + slope x_i, each row divided by its time; without t0, through the origin.
Line solve(const std::vector<Sample>& samples, bool with_start) {
  const auto rows = static_cast<Eigen::Index>(samples.size());
  const Eigen::Index columns = with_start ? 2 : 1;
  Eigen::MatrixXd a(rows, columns);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const Sample& sample = samples[static_cast<std::size_t>(i)];
    a(i, 0) = sample.work / sample.seconds;
    if (with_start) {
      a(i, 1) = 1 / sample.seconds;
    }
  }
  // Columns of equal length: bytes and seconds differ by many orders of magnitude.
  const Eigen::VectorXd scale = a.colwise().norm().transpose();
  a = a * scale.cwiseInverse().asDiagonal();
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(rows);
  const Eigen::VectorXd solution = a.colPivHouseholderQr().solve(ones);
  const std::size_t degrees = samples.size() - static_cast<std::size_t>(columns);
  const double variance = (a * solution - ones).squaredNorm() / static_cast<double>(degrees);
  const Eigen::MatrixXd inverse = (a.transpose() * a).inverse();
  const double quantile = student_975(degrees);
  const auto error = [&](Eigen::Index j) {
    return quantile * std::sqrt(variance * std::max(0.0, inverse(j, j))) / scale(j);
  };
  Line line{0, 0, solution(0) / scale(0), error(0), {}};
  if (with_start) {
    line.t0 = solution(1) / scale(1);
    line.t0_error = error(1);
  }
  for (Eigen::Index i = 0; i < rows; ++i) {
    line.leverages.push_back((a.row(i) * inverse * a.row(i).transpose()).value());
  }
  return line;
}

void add_residuals(LineFit& fit, const std::vector<double>& leverages) {
  for (std::size_t i = 0; i < fit.samples.size(); ++i) {
    const Sample& sample = fit.samples[i];
    const double residual = fit.time(sample.work) / sample.seconds - 1;
    fit.residuals.push_back(residual);
    // A sample that alone fixes the line (h = 1) cannot be judged by the others.
    const double free = 1 - leverages[i];
    fit.off_others.push_back(free > 1e-9 ? residual / free : 0.0);
    fit.mean_residual += std::abs(residual) / static_cast<double>(fit.samples.size());
    fit.worst_residual = std::max(fit.worst_residual, std::abs(residual));
  }
}

// Reports the sample that is furthest from the line through the others, of those that
// are too far: how far that is depends on the side.
void check_residuals(const LineFit& fit, const LineRules& rules, Diagnostics& diagnostics) {
  const double fastest =
      std::min_element(fit.samples.begin(), fit.samples.end(), [](const auto& a, const auto& b) {
        return a.seconds < b.seconds;
      })->seconds;
  std::optional<std::size_t> worst;
  for (std::size_t i = 0; i < fit.samples.size(); ++i) {
    const double off = fit.off_others[i];
    const bool too_slow =
        off < rules.least_off &&
        (!rules.is_summary || fit.samples[i].seconds * (1 + rules.least_off) > fastest);
    const bool too_far = too_slow || off > rules.most_off;
    if (too_far && (!worst || std::abs(off) > std::abs(fit.off_others[*worst]))) {
      worst = i;
    }
  }
  if (!worst) {
    return;
  }
  const double off = fit.off_others[*worst];
  const Sample& sample = fit.samples[*worst];
  diagnostics.add(sample.place,
                  fmt::format("{}: {} measured, but the line through the others says {}",
                              rules.what, format_seconds(sample.seconds),
                              format_seconds(std::max(0.0, sample.seconds * (1 + off)))),
                  fmt::format("up to {:g} % {} is accepted: measure again",
                              100 * (off > 0 ? rules.most_off : -rules.least_off),
                              off > 0 ? "more" : "less"));
}

void check_line(const Line& line, const Place& place, const std::string& what,
                Diagnostics& diagnostics) {
  if (!(line.slope - line.slope_error > 0)) {
    diagnostics.add(place, what + ": times do not grow with size beyond their scatter",
                    "no rate follows from them");
  } else if (line.t0 < 0) {
    diagnostics.add(place,
                    fmt::format("{}: the start comes out at {}, below 0 by more than its scatter",
                                what, format_seconds(line.t0)),
                    "large sizes take longer than small ones allow");
  }
}

void unite_with_single_measurements(LineFit& fit) {
  for (std::size_t i = 0; i < fit.samples.size(); ++i) {
    const Sample& sample = fit.samples[i];
    if (std::abs(fit.off_others[i]) > most_off_others) {
      continue;
    }
    if (fit.t0 <= most_start_of_large * sample.seconds) {
      fit.rate_range = fit.rate_range.united(sample.work / (sample.seconds - fit.t0));
    }
    const double start = sample.seconds - sample.work / fit.rate;
    if (start >= least_start_of_small * sample.seconds) {
      fit.t0_range = fit.t0_range.united(start);
    }
  }
}

bool is_dense_enough(const std::vector<Sample>& samples, const LineRules& rules,
                     Diagnostics& diagnostics) {
  const std::string& what = rules.what;
  const std::string left_out = rules.left_out.empty() ? "" : "; " + rules.left_out;
  std::vector<double> sizes;
  sizes.reserve(samples.size());
  for (const Sample& sample : samples) {
    sizes.push_back(sample.work);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() < least_sizes) {
    diagnostics.add(samples.front().place,
                    fmt::format("{}: {} size{} cannot give a start and a rate", what, sizes.size(),
                                sizes.size() == 1 ? "" : "s"),
                    fmt::format("measure at least {}{}", least_sizes, left_out));
    return false;
  }
  if (sizes.back() < least_span * sizes.front()) {
    diagnostics.add(
        samples.front().place,
        fmt::format("{}: the largest size is only {:.3g} times the smallest", what,
                    sizes.back() / sizes.front()),
        fmt::format("measure sizes that span a factor of at least {:g}{}", least_span, left_out));
    return false;
  }
  return true;
}

} // namespace

double student_975(std::size_t degrees) {
  const boost::math::students_t distribution(static_cast<double>(degrees));
  return boost::math::quantile(boost::math::complement(distribution, 0.025));
}

Interval Interval::united(double value) const {
  return {std::min(low, value), std::max(high, value)};
}

std::vector<Sample> merge_repeats(std::vector<Sample> samples, const std::string& what,
                                  Diagnostics& diagnostics) {
  std::stable_sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return std::pair(a.shape, a.seconds) < std::pair(b.shape, b.seconds);
  });
  std::vector<Sample> merged;
  for (auto begin = samples.begin(); begin != samples.end();) {
    const auto end = std::find_if(begin, samples.end(),
                                  [&](const Sample& other) { return other.shape != begin->shape; });
    const Sample& fast = *begin;
    const Sample& slow = *(end - 1);
    if (slow.seconds > (1 + most_repeat_spread) * fast.seconds) {
      diagnostics.add(slow.place,
                      fmt::format("this {} takes {}, but the same on {} {}", what,
                                  format_seconds(slow.seconds), place_text(fast.place),
                                  format_seconds(fast.seconds)),
                      fmt::format("times of one shape may differ by {:g} %: measure again under "
                                  "one condition",
                                  100 * most_repeat_spread));
    }
    const auto count = end - begin;
    Sample middle = *(begin + (count - 1) / 2);
    middle.seconds = (middle.seconds + (begin + count / 2)->seconds) / 2;
    merged.push_back(std::move(middle));
    begin = end;
  }
  return merged;
}

std::optional<LineFit> fit_line(const std::vector<Sample>& samples, const LineRules& rules,
                                Diagnostics& diagnostics) {
  const std::size_t mistakes = diagnostics.count();
  LineFit fit;
  fit.records = samples.size();
  fit.samples = merge_repeats(samples, rules.what, diagnostics);
  if (diagnostics.count() > mistakes || !is_dense_enough(fit.samples, rules, diagnostics)) {
    return std::nullopt;
  }
  Line line = solve(fit.samples, true);
  const double t0_high = line.t0 + line.t0_error;
  if (line.t0 < 0 && (t0_high >= 0 || rules.is_summary)) {
    line = solve(fit.samples, false);
  }
  fit.t0 = line.t0;
  fit.rate = 1 / line.slope;
  add_residuals(fit, line.leverages);
  if (line.slope > 0) { // one wrong time spoils the intervals, so it is looked for first
    check_residuals(fit, rules, diagnostics);
  }
  if (diagnostics.count() == mistakes) {
    check_line(line, fit.samples.front().place, rules.what, diagnostics);
  }
  if (diagnostics.count() > mistakes) {
    return std::nullopt;
  }
  fit.t0_range = {std::max(0.0, line.t0 - line.t0_error),
                  std::max(0.0, t0_high)}; // 0 where it was set to 0
  fit.rate_range = {1 / (line.slope + line.slope_error), 1 / (line.slope - line.slope_error)};
  unite_with_single_measurements(fit);
  return fit;
}

} // namespace spillway
