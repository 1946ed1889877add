// Arithmetic of the simulated clock, with its limits checked.
#pragma once

#include "sim/base/units.hpp"

#include <cstdint>
#include <stdexcept>

namespace spillway {

inline constexpr double ps_per_second = 1e12;
// Sums of two times below this cannot overflow.
inline constexpr SimTime longest_time{std::int64_t{1} << 62};

[[nodiscard]] inline SimTime later(SimTime now, SimTime duration) {
  if (duration > longest_time - now) {
    throw std::overflow_error("the simulated time exceeds 2^62 ps (53 days)");
  }
  return now + duration;
}

// Whole picoseconds, rounded up, for `work` units at `rate` units per second.
[[nodiscard]] inline SimTime flow_time(double work, double rate) {
  const double ps = work / rate * ps_per_second;
  if (!(ps <= static_cast<double>(longest_time.count()))) {
    throw std::overflow_error("a flow takes longer than 2^62 ps (53 days)");
  }
  const auto whole = static_cast<std::int64_t>(ps); // std::ceil is a call on many targets
  return SimTime{static_cast<double>(whole) < ps ? whole + 1 : whole};
}

} // namespace spillway
