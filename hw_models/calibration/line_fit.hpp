// A line through measured times, and how well it is known.
//
//   t(x) = t0 + x / R        x: bytes that move, or flops
//
// by least squares of the relative residuals r_i = t(x_i) / t_i - 1: with weights 1 / t_i
// a microsecond counts at the small sizes and a per cent at the large ones, so one fit
// gives both numbers. With n sizes, the design matrix A of rows (1 / t_i, x_i / t_i) and
// s^2 = sum r_i^2 / (n - 2), the 95 % interval of each number is
//
//   +- t_{n-2, 0.975} sqrt(s^2 [(A^T A)^-1]_jj)        t: Student's distribution
//
// That is the scatter about the line. Where the line itself does not hold (a rate that
// drifts with size), single measurements lie outside, so the interval that is reported is
// united with them:
//
//   R    each x_i / (t_i - t0) of a size whose start is at most 1 % of its time
//   t0   each t_i - x_i / R of a size that spends at least 90 % of its time starting
//
// where a measurement more than 25 % off the line through the others, below, is none of the
// line's; single kernels may be.
//
// A start below 0 is set to 0 if 0 lies in its interval, and R fitted alone.
//
// Example: 1, 2, 4 and 16 GB in 0.11, 0.21, 0.41 and 1.61 s lie on t0 = 10 ms and R = 10 GB/s
// exactly, so both intervals are points.
//
// A record is judged by the line through all others, since a time that is far too short
// bends the line towards itself. With h_i = a_i^T (A^T A)^-1 a_i for row a_i of A, that line
// is off by r_i / (1 - h_i) of the record's time.
//
// Refused, with the place of the record at fault:
//   fewer than 4 sizes, or sizes within a factor of 16 (sparse);
//   two times of one size that differ by more than 10 % (the median is used otherwise);
//   a time more than 25 % off the line through the others, a rate or a start that is below
//   0 by more than its interval (contradictory).
#pragma once

#include "hw_models/calibration/measurements.hpp"

#include <optional>
#include <string>
#include <vector>

namespace spillway {

inline constexpr std::size_t least_sizes = 4;
inline constexpr double least_span = 16;
inline constexpr double most_off_others = 0.25;
inline constexpr double most_repeat_spread = 0.10;

struct Interval {
  double low = 0;
  double high = 0;
  [[nodiscard]] Interval united(double value) const;
};

struct LineFit {
  std::vector<Sample> samples; // in the order of their sizes; repeats merged
  std::size_t records = 0;     // before merging
  double t0 = 0;               // s
  double rate = 0;             // x per s
  Interval t0_range, rate_range;
  std::vector<double> residuals;  // one per sample
  std::vector<double> off_others; // the same, of the line through the other samples
  double mean_residual = 0;       // of the absolute values
  double worst_residual = 0;

  [[nodiscard]] double time(double x) const { return t0 + x / rate; }
};

// Samples in the order of their shapes, those of one shape replaced by their median.
// `what` names them in messages: "matrix product".
[[nodiscard]] std::vector<Sample> merge_repeats(std::vector<Sample> samples,
                                                const std::string& what, Diagnostics& diagnostics);

// The 97.5 % quantile of Student's distribution.
[[nodiscard]] double student_975(std::size_t degrees);

struct LineRules {
  std::string what; // the samples, in messages: "copy d2h"
  // What the line through the others may say of a sample, over its time, less 1.
  double least_off = -most_off_others;
  double most_off = most_off_others;
  // The line sums up samples that are kept one by one: a start below 0 becomes 0 whatever
  // its interval. The start is then little known, so that a small sample is too slow only
  // where it is so against the fastest one as well.
  bool is_summary = false;
  std::string left_out = {}; // for the hint where sizes are too few: what was not used
};

// Nothing after a diagnostic. There must be samples, all with work above 0.
[[nodiscard]] std::optional<LineFit> fit_line(const std::vector<Sample>& samples,
                                              const LineRules& rules, Diagnostics& diagnostics);

} // namespace spillway
