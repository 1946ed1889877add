// Copies beside work: against the same work alone, and against copies alone.
#include "hw_models/calibration/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace spillway {
namespace {

// Kernels slow copies down, but the rates of both stay of one order.
constexpr double most_beside = 3;

const LineFit* fit_named(const Calibration& calibration, const std::string& name) {
  const auto found = std::find_if(calibration.fits.begin(), calibration.fits.end(),
                                  [&](const NamedFit& fit) { return fit.name == name; });
  return found == calibration.fits.end() ? nullptr : &found->line;
}

std::string name_of(const InterferenceRecord& record) {
  return record.copies == "none" ? record.work + " alone"
                                 : record.work + " beside " + record.copies + " copies";
}

void check_same_rate(const std::vector<InterferenceRecord>& group, const std::string& direction,
                     double InterferenceRecord::*rate, Diagnostics& diagnostics) {
  const auto [slow, fast] = std::minmax_element(
      group.begin(), group.end(), [&](const auto& a, const auto& b) { return a.*rate < b.*rate; });
  if ((*fast).*rate > (1 + most_repeat_spread) * (*slow).*rate) {
    diagnostics.add(
        fast->place,
        fmt::format("{}: {} copies reach {}, but the same on {} {}", name_of(*fast), direction,
                    format_byte_rate((*fast).*rate), place_text(slow->place),
                    format_byte_rate((*slow).*rate)),
        fmt::format("rates beside one work may differ by {:g} %: measure again under one condition",
                    100 * most_repeat_spread));
  }
}

// The same work beside the same copies must give the same.
void check_repeats(const std::vector<InterferenceRecord>& records, Diagnostics& diagnostics) {
  std::map<std::pair<std::string, std::string>, std::vector<InterferenceRecord>> groups;
  for (const InterferenceRecord& record : records) {
    groups[{record.work, record.copies}].push_back(record);
  }
  for (const auto& [key, group] : groups) {
    std::vector<Sample> times;
    for (const InterferenceRecord& record : group) {
      times.push_back({{}, 0, record.seconds, record.place});
    }
    static_cast<void>(merge_repeats(std::move(times), name_of(group.front()), diagnostics));
    check_same_rate(group, "d2h", &InterferenceRecord::d2h_rate, diagnostics);
    check_same_rate(group, "h2d", &InterferenceRecord::h2d_rate, diagnostics);
  }
}

void check_rate(const InterferenceRecord& record, const Calibration& calibration,
                Diagnostics& diagnostics) {
  const bool both = record.copies == "both";
  const LineFit* alone = fit_named(calibration, "copy " + (both ? "both ways" : record.copies));
  if (alone == nullptr) {
    return;
  }
  const double reached = record.d2h_rate + record.h2d_rate;
  if (reached > most_beside * alone->rate || reached < alone->rate / most_beside) {
    diagnostics.add(record.place,
                    fmt::format("{}: copies reach {}, but {} without work", name_of(record),
                                format_byte_rate(reached), format_byte_rate(alone->rate)),
                    fmt::format("up to {:g} times as much or as little is accepted: measure again",
                                most_beside));
  } else if (both) {
    check_both_ways(reached, record.place, calibration, diagnostics);
  }
}

} // namespace

void check_both_ways(double together, const Place& place, const Calibration& out,
                     Diagnostics& diagnostics) {
  const LineFit* d2h = fit_named(out, "copy d2h");
  const LineFit* h2d = fit_named(out, "copy h2d");
  if (d2h == nullptr || h2d == nullptr) {
    return;
  }
  const double apart = d2h->rate_range.high + h2d->rate_range.high;
  if (together > (1 + most_repeat_spread) * apart) {
    diagnostics.add(
        place,
        fmt::format("copies both ways reach {}, but one way at a time at most {} and {}",
                    format_byte_rate(together), format_byte_rate(d2h->rate_range.high),
                    format_byte_rate(h2d->rate_range.high)),
        fmt::format("up to {:g} % above the sum is accepted: measure again",
                    100 * most_repeat_spread));
  }
}

void compare_interference(const Measurements& measured, Calibration& out,
                          Diagnostics& diagnostics) {
  check_repeats(measured.interference, diagnostics);
  for (const InterferenceRecord& record : measured.interference) {
    check_rate(record, out, diagnostics);
    BesideCopies line{record.work, record.copies,   record.seconds,
                      {},          record.d2h_rate, record.h2d_rate};
    const auto alone = std::find_if(measured.interference.begin(), measured.interference.end(),
                                    [&](const InterferenceRecord& other) {
                                      return other.work == record.work && other.copies == "none";
                                    });
    if (alone != measured.interference.end()) {
      line.over_alone = record.seconds / alone->seconds;
    }
    out.beside.push_back(std::move(line));
  }
}

} // namespace spillway
