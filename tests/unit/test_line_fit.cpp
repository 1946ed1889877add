// A line through times: what it gives, how well it is known, what it refuses.
#include "hw_models/calibration/line_fit.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;

namespace {

// One sample per size and time, on lines 1, 2, ... of a file.
std::vector<Sample> samples_of(const std::vector<std::pair<double, double>>& times) {
  const auto source = std::make_shared<const SourceText>(SourceText{"m.jsonl", {}});
  std::vector<Sample> samples;
  for (const auto& [work, seconds] : times) {
    const int line = static_cast<int>(samples.size()) + 1;
    samples.push_back({{static_cast<std::int64_t>(work)}, work, seconds, {source, line, 1}});
  }
  return samples;
}

// start + size / rate at sizes 1, 4, 16, ... MB, each times its factor.
std::vector<Sample> line(double start, double rate, const std::vector<double>& factors) {
  std::vector<std::pair<double, double>> times;
  double size = 1e6;
  for (const double factor : factors) {
    times.emplace_back(size, factor * (start + size / rate));
    size *= 4;
  }
  return samples_of(times);
}

LineFit fitted(const std::vector<Sample>& samples) {
  Diagnostics diagnostics;
  const std::optional<LineFit> fit = fit_line(samples, {"copy"}, diagnostics);
  CHECK(report_text(diagnostics) == "");
  REQUIRE(fit.has_value());
  return *fit;
}

std::string refusal(const std::vector<Sample>& samples) {
  Diagnostics diagnostics;
  CHECK_FALSE(fit_line(samples, {"copy"}, diagnostics).has_value());
  return report_text(diagnostics);
}

} // namespace

TEST_CASE("Times on a line give its start and rate exactly, with points as intervals") {
  const LineFit fit = fitted(line(10e-6, 50e9, {1, 1, 1, 1, 1}));
  CHECK(fit.t0 == doctest::Approx(10e-6).epsilon(1e-9));
  CHECK(fit.rate == doctest::Approx(50e9).epsilon(1e-9));
  CHECK(fit.t0_range.low == doctest::Approx(10e-6).epsilon(1e-6));
  CHECK(fit.t0_range.high == doctest::Approx(10e-6).epsilon(1e-6));
  CHECK(fit.rate_range.low == doctest::Approx(50e9).epsilon(1e-6));
  CHECK(fit.rate_range.high == doctest::Approx(50e9).epsilon(1e-6));
  CHECK(fit.worst_residual < 1e-9);
  CHECK(fit.records == 5);
}

// Four times, t = (2, 3, 5, 40) s at x = (1, 2, 4, 38). With a = 1 / t and b = x / t:
//   sum aa = 0.25 + 0.111111 + 0.04 + 0.000625       = 0.401736
//   sum ab = 0.25 + 0.222222 + 0.16 + 0.02375        = 0.655972
//   sum bb = 0.25 + 0.444444 + 0.64 + 0.9025         = 2.236944
//   sum a  = 1.058333, sum b = 2.916667, determinant = aa bb - ab ab = 0.468361
//   t0    = (a bb - b ab) / determinant = 0.969722
//   slope = (aa b - ab a) / determinant = 1.019496
// s^2 = (4 - t0 sum a - slope sum b) / 2, and t_{2, 0.975} = 4.302653.
TEST_CASE("The interval is Student's, from the scatter about the line") {
  const std::vector<std::pair<double, double>> times{{1, 2}, {2, 3}, {4, 5}, {38, 40}};
  double aa = 0;
  double ab = 0;
  double bb = 0;
  double a = 0;
  double b = 0;
  for (const auto& [x, t] : times) {
    aa += 1 / (t * t);
    ab += x / (t * t);
    bb += x * x / (t * t);
    a += 1 / t;
    b += x / t;
  }
  const double determinant = aa * bb - ab * ab;
  const double t0 = (a * bb - b * ab) / determinant;
  const double slope = (aa * b - ab * a) / determinant;
  CHECK(t0 == doctest::Approx(0.969722).epsilon(1e-6)); // half of the last digit
  CHECK(slope == doctest::Approx(1.019496).epsilon(1e-6));
  const double variance = (4 - t0 * a - slope * b) / 2;
  const double t0_error = 4.302653 * std::sqrt(variance * bb / determinant);
  const double slope_error = 4.302653 * std::sqrt(variance * aa / determinant);

  const LineFit fit = fitted(samples_of(times));
  CHECK(fit.t0 == doctest::Approx(t0).epsilon(1e-9));
  CHECK(1 / fit.rate == doctest::Approx(slope).epsilon(1e-9));
  // No size is large or small enough to widen the intervals on its own.
  CHECK(fit.t0_range.low == doctest::Approx(t0 - t0_error).epsilon(1e-5));
  CHECK(fit.t0_range.high == doctest::Approx(t0 + t0_error).epsilon(1e-5));
  CHECK(1 / fit.rate_range.low == doctest::Approx(slope + slope_error).epsilon(1e-5));
  CHECK(1 / fit.rate_range.high == doctest::Approx(slope - slope_error).epsilon(1e-5));
  for (std::size_t i = 0; i < times.size(); ++i) {
    CHECK(fit.residuals[i] == doctest::Approx((t0 + slope * times[i].first) / times[i].second - 1));
  }
}

// A start of 10 us is at most 1 % of times from 1 ms on: of 64 MB at 50 GB/s and more.
// Of the two such sizes one takes 5 % longer: its rate is 50 / 1.05 = 47.6 GB/s.
TEST_CASE("The range of the rate holds the rates of single large measurements") {
  const std::vector<Sample> samples = line(10e-6, 50e9, {1, 1, 1, 1, 1.05, 1, 1, 1, 1, 1, 1, 1});
  const LineFit fit = fitted(samples);
  const double single = 256e6 / (samples[4].seconds - fit.t0);
  CHECK(single == doctest::Approx(47.6e9).epsilon(0.001));
  CHECK(fit.rate_range.low == doctest::Approx(single));
  CHECK(fit.rate_range.high < 52e9);
  // The same slip at a small size is no rate's business.
  const LineFit other = fitted(line(10e-6, 50e9, {1, 1.05, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  CHECK(other.rate_range.low > 48.5e9);
}

// 100 kB, 200 kB at 50 GB/s are 2 and 4 us beside 40 us: more than 90 % is start.
TEST_CASE("The range of the start holds what single small measurements say") {
  std::vector<std::pair<double, double>> times;
  for (const double size : {1e5, 2e5, 1e6, 4e6, 16e6, 64e6, 256e6, 1e9, 4e9, 8e9, 9e9}) {
    times.emplace_back(size, 40e-6 + size / 50e9);
  }
  times.front().second = 46e-6; // 44 us and 2 us of transfer
  const LineFit fit = fitted(samples_of(times));
  CHECK(fit.t0_range.high == doctest::Approx(44e-6).epsilon(0.001));
}

TEST_CASE("A start below 0 within its scatter becomes 0") {
  const LineFit fit = fitted(line(0, 50e9, {0.98, 1.02, 0.99, 1.01, 1.0}));
  CHECK(fit.t0 == 0);
  CHECK(fit.t0_range.low == 0);
  CHECK(fit.t0_range.high > 0);
  // Alone, the slope is sum b / sum bb with b = x / t.
  double b = 0;
  double bb = 0;
  for (const Sample& sample : fit.samples) {
    b += sample.work / sample.seconds;
    bb += sample.work * sample.work / (sample.seconds * sample.seconds);
  }
  CHECK(fit.rate == doctest::Approx(bb / b).epsilon(1e-9));
}

TEST_CASE("A start below 0 by more than its scatter is refused") {
  std::vector<std::pair<double, double>> times;
  for (const double size : {1e6, 4e6, 16e6, 64e6, 256e6}) {
    times.emplace_back(size, size / 50e9 - 1e-6);
  }
  CHECK(refusal(samples_of(times)) ==
        "1:1: copy: the start comes out at -1 us, below 0 by more than its scatter | large sizes "
        "take longer than small ones allow");
}

TEST_CASE("Too few sizes are refused, however many records there are") {
  const std::string advice = " | measure at least 4";
  CHECK(refusal(line(1e-5, 50e9, {1})) ==
        "1:1: copy: 1 size cannot give a start and a rate" + advice);
  CHECK(refusal(line(1e-5, 50e9, {1, 1, 1})) ==
        "1:1: copy: 3 sizes cannot give a start and a rate" + advice);
  std::vector<Sample> repeated = line(1e-5, 50e9, {1, 1, 1});
  repeated.insert(repeated.end(), {repeated[0], repeated[1], repeated[2]});
  CHECK(refusal(repeated) == "1:1: copy: 3 sizes cannot give a start and a rate" + advice);
}

TEST_CASE("Sizes that lie close together are refused") {
  const auto times = [](double largest) {
    return samples_of({{1e6, 3e-5}, {2e6, 5e-5}, {4e6, 9e-5}, {largest, 1e-5 + largest / 50e9}});
  };
  CHECK(refusal(times(15e6)) == "1:1: copy: the largest size is only 15 times the smallest | "
                                "measure sizes that span a factor of at least 16");
  CHECK(fitted(times(16e6)).rate == doctest::Approx(50e9));
}

TEST_CASE("Times that do not grow with size are refused") {
  CHECK(refusal(samples_of({{1e6, 1e-3}, {4e6, 1e-3}, {16e6, 1e-3}, {64e6, 1e-3}})) ==
        "1:1: copy: times do not grow with size beyond their scatter | no rate follows from them");
  CHECK(refusal(samples_of({{1e6, 4e-3}, {4e6, 3e-3}, {16e6, 2e-3}, {64e6, 1e-3}})) ==
        "1:1: copy: times do not grow with size beyond their scatter | no rate follows from them");
}

// 64 MB at 50 GB/s and 10 us take 1.29 ms. A time that is too short has much weight, yet
// it is the one that is named, with what the others say of its size.
TEST_CASE("A time far off the line through the others is refused") {
  const std::vector<Sample> samples = line(1e-5, 50e9, {1, 1, 1, 2, 1, 1, 1, 1});
  const std::string says = "4:1: copy: {} measured, but the line through the others says 1.29 ms | "
                           "up to 25 % [] is accepted: measure again";
  const auto text = [&](const std::string& measured, const std::string& way) {
    return replaced(replaced(says, "{}", measured), "[]", way);
  };
  CHECK(refusal(line(1e-5, 50e9, {1, 1, 1, 2, 1, 1, 1, 1})) == text("2.58 ms", "less"));
  CHECK(refusal(line(1e-5, 50e9, {1, 1, 1, 0.1, 1, 1, 1, 1})) == text("129 us", "more"));
  // 1 / 1.33 - 1 is -24.8 %, 1 / 1.34 - 1 is -25.4 %; 1 / 0.805 - 1 is 24.2 %, 1 / 0.795 - 1 25.8
  // %.
  CHECK(fitted(line(1e-5, 50e9, {1, 1, 1, 1.33, 1, 1, 1, 1})).rate > 0);
  CHECK(refusal(line(1e-5, 50e9, {1, 1, 1, 1.34, 1, 1, 1, 1})) == text("1.729 ms", "less"));
  CHECK(fitted(line(1e-5, 50e9, {1, 1, 1, 0.805, 1, 1, 1, 1})).rate > 0);
  CHECK(refusal(line(1e-5, 50e9, {1, 1, 1, 0.795, 1, 1, 1, 1})) == text("1.026 ms", "more"));
  // Other bounds for samples that are kept one by one.
  Diagnostics diagnostics;
  CHECK(fit_line(line(1e-5, 50e9, {1, 1, 1, 2, 1, 1, 1, 1}), {"matmul", -10, 1}, diagnostics)
            .has_value());
  CHECK(report_text(diagnostics) == "");
}

// Bounds of a table's kind: a third of the time (off by more than 200 %) is too fast, ten
// times the time (off by less than -90 %) too slow. 64 MB and 10 us take 1.29 ms; the
// record in 40 % of that is off by 150 %, further than one in 20 times that can ever be.
TEST_CASE("A time that is too far off is not masked by one further off that is not") {
  Diagnostics diagnostics;
  CHECK_FALSE(fit_line(line(1e-5, 50e9, {1, 1, 1, 20, 1, 0.4, 1, 1, 1, 1}), {"matmul", -0.9, 2},
                       diagnostics)
                  .has_value());
  CHECK(report_text(diagnostics).starts_with("4:1: matmul: 25.8 ms measured, "));
}

// Each byte takes 1.4 % more for every doubling, 2^0.02, so that a line has a start
// below 0 by more than the scatter. R alone: sum b^2 / sum b with b = x / t.
TEST_CASE("The line of a summary starts at 0 where it would start before") {
  std::vector<std::pair<double, double>> times;
  double b = 0;
  double bb = 0;
  for (double size = 1e6; size < 4e9; size *= 2) {
    times.emplace_back(size, 1e-10 * std::pow(size, 1.02));
    b += size / times.back().second;
    bb += std::pow(size / times.back().second, 2);
  }
  CHECK(refusal(samples_of(times)).find("below 0 by more than its scatter") != std::string::npos);
  LineRules rules{"matmul"};
  rules.is_summary = true;
  Diagnostics diagnostics;
  const std::optional<LineFit> fit = fit_line(samples_of(times), rules, diagnostics);
  CHECK(report_text(diagnostics) == "");
  REQUIRE(fit.has_value());
  CHECK(fit->t0 == 0);
  CHECK(fit->t0_range.low == 0);
  CHECK(fit->t0_range.high == 0);
  CHECK(fit->rate == doctest::Approx(bb / b).epsilon(1e-9));
}

// Three large kernels on 1 TB/s and -1 us, within their scatter, and a small one in 2 us:
// the others say -1 us of it, but nothing is faster.
TEST_CASE("A small kernel is not too slow for a summary that knows no start") {
  const std::vector<Sample> samples =
      samples_of({{1e6, 2e-6}, {1e8, 99e-6}, {4e8, 400e-6}, {16e8, 1599e-6}});
  Diagnostics diagnostics;
  CHECK(fit_line(samples, {"matmul", -0.9, 2, true}, diagnostics).has_value());
  CHECK(report_text(diagnostics) == "");
  CHECK_FALSE(fit_line(samples, {"matmul", -0.9, 2}, diagnostics).has_value());
  std::vector<Sample> slow = samples; // 11 ms for 400 us
  slow[2].seconds = 11e-3;
  Diagnostics others;
  CHECK_FALSE(fit_line(slow, {"matmul", -0.9, 2, true}, others).has_value());
  CHECK(report_text(others).starts_with("3:1: matmul: 11 ms measured, "));
}

TEST_CASE("Repeats of one shape give their median, and their order does not matter") {
  Diagnostics diagnostics;
  const std::vector<Sample> odd = samples_of({{8, 1.02}, {4, 3}, {8, 1.00}, {8, 1.05}});
  const std::vector<Sample> merged = merge_repeats(odd, "copy", diagnostics);
  REQUIRE(merged.size() == 2);
  CHECK(merged[0].work == 4);
  CHECK(merged[1].seconds == 1.02);
  CHECK(merge_repeats(samples_of({{8, 1.04}, {8, 1.00}}), "copy", diagnostics)[0].seconds ==
        doctest::Approx(1.02));
  CHECK(report_text(diagnostics) == "");
}

TEST_CASE("Repeats that differ by more than 10 % are refused with both lines") {
  Diagnostics diagnostics;
  static_cast<void>(merge_repeats(samples_of({{8, 1.1}, {4, 3}, {8, 1.0}}), "copy", diagnostics));
  CHECK(report_text(diagnostics) == "");
  static_cast<void>(merge_repeats(samples_of({{8, 1.2}, {4, 3}, {8, 1.0}}), "copy", diagnostics));
  CHECK(report_text(diagnostics) ==
        "1:1: this copy takes 1.2 s, but the same on m.jsonl:3 1 s | times of one shape may differ "
        "by 10 %: measure again under one condition");
  CHECK(refusal(samples_of({{1, 1}, {4, 2}, {16, 4}, {64, 8}, {64, 40}}))
            .starts_with("5:1: this copy takes 40 s"));
}
