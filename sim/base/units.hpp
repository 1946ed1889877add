// Units of measure as types, so that a byte count can never be added to a
// flop count and every division of work by a rate yields a time.
//
//   Bytes     exact 64-bit count of bytes
//   Flops     floating-point operations (double: step totals exceed 2^53 only in noise)
//   ByteRate  bytes per second          FlopRate  flops per second
//   Seconds   model-side time (double)  SimTime   engine-side time (integer picoseconds)
//
// Worked example: Bytes{3'000'000'000} / ByteRate{200e9} is Seconds{0.015}, and
// to_sim_time(Seconds{0.015}) is 15'000'000'000 ps. 2^63 ps is 106 days.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

class Bytes {
public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}
  [[nodiscard]] constexpr std::int64_t count() const { return count_; }

  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes{a.count_ * n}; }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

private:
  std::int64_t count_ = 0;
};

// A non-negative real amount of one dimension; different tags do not mix.
template <class Tag>
class Quantity {
public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value_ - b.value_};
  }
  friend constexpr Quantity operator*(Quantity a, double factor) {
    return Quantity{a.value_ * factor};
  }
  friend constexpr Quantity operator*(double factor, Quantity a) { return a * factor; }
  friend constexpr Quantity operator/(Quantity a, double divisor) {
    return Quantity{a.value_ / divisor};
  }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

private:
  double value_ = 0;
};

using Flops = Quantity<struct FlopsTag>;
using ByteRate = Quantity<struct ByteRateTag>; // bytes per second
using FlopRate = Quantity<struct FlopRateTag>; // flops per second

using Seconds = std::chrono::duration<double>;
using SimTime = std::chrono::duration<std::int64_t, std::pico>;

[[nodiscard]] constexpr Seconds operator/(Bytes amount, ByteRate rate) {
  return Seconds{static_cast<double>(amount.count()) / rate.value()};
}
[[nodiscard]] constexpr Seconds operator/(Flops amount, FlopRate rate) {
  return Seconds{amount.value() / rate.value()};
}

// Rounds up: the fewest picoseconds that, read back by to_seconds, are not less
// than `time`, so work is never finished before its time. Above 2^62 ps or NaN:
// std::overflow_error, since a file can ask for it.
[[nodiscard]] SimTime to_sim_time(Seconds time);
[[nodiscard]] constexpr Seconds to_seconds(SimTime time) {
  return Seconds{time};
}

// ---- Text with units, as YAML files and the command line write it ----

enum class Dimension { bytes, byte_rate, flop_rate, seconds };

struct ParsedQuantity {
  double value = 0;  // in base units: bytes, bytes/s, flop/s, s
  std::string error; // empty when the text was understood; else "'rate' needs a unit"
  std::string hint;  // what would be right, e.g. "write for example \"193 GB/s\""
};

// Reads "80 GiB", "193 GB/s", "2.5 PFLOP/s", "8 us". A bare number, an unknown
// unit, NaN, infinity, a negative value or trailing text is an error. Decimal
// (GB) and binary (GiB) prefixes differ. Units are case-sensitive; a near miss
// in case is suggested. Bytes must come out whole and below 2^63; a double holds
// each count up to 2^53. `name` is what the error calls the text, quoted where
// it is a key. Locale-independent.
[[nodiscard]] ParsedQuantity parse_quantity(const std::string& text, Dimension dimension,
                                            std::string_view name = "the quantity");

// Bytes and times as files hold them where every bit counts: a whole number in the
// unit that makes the text shortest, e.g. "80 GB", "1 GiB", "1234567 B", "12 us".
// parse_whole reads them back without a double in between: bytes, or picoseconds
// for Dimension::seconds. None for anything else, also for what parse_quantity
// takes, and from 2^63 on. Both of the first two expect what is not negative.
[[nodiscard]] std::string exact_bytes(std::int64_t bytes);
[[nodiscard]] std::string exact_time(SimTime time);
[[nodiscard]] std::optional<std::int64_t> parse_whole(std::string_view text, Dimension dimension);

// Bytes for people who must get every one of them: "4 GB", or "4.002 GB (4001953125 B)"
// where four digits do not say it.
[[nodiscard]] std::string full_bytes(std::int64_t bytes);

// Human-readable, three to four significant digits: "174.8 GB", "193 GB/s",
// "908.2 TFLOP/s", "12.4 ms". For text output only; JSON and CSV print numbers.
[[nodiscard]] std::string format_bytes(double bytes);
[[nodiscard]] std::string format_byte_rate(double bytes_per_second);
[[nodiscard]] std::string format_flop_rate(double flops_per_second);
[[nodiscard]] std::string format_seconds(double seconds);

} // namespace spillway
