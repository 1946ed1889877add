#include "sim/base/units.hpp"

#include "sim/base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace spillway {

namespace {

// One unit is factor x 10^exponent base units.
struct Unit {
  std::string_view name;
  int exponent = 0;
  double factor = 1;
};

constexpr double kibi = 1024;

// In the order in which they print: decimal ones by size first.
constexpr Unit byte_units[] = {
    {"B", 0},
    {"kB", 3},
    {"MB", 6},
    {"GB", 9},
    {"TB", 12},
    {"PB", 15},
    {"KiB", 0, kibi},
    {"MiB", 0, kibi* kibi},
    {"GiB", 0, kibi* kibi* kibi},
    {"TiB", 0, kibi* kibi* kibi* kibi},
    {"PiB", 0, kibi* kibi* kibi* kibi* kibi},
};
constexpr Unit byte_rate_units[] = {
    {"B/s", 0},
    {"kB/s", 3},
    {"MB/s", 6},
    {"GB/s", 9},
    {"TB/s", 12},
    {"PB/s", 15},
    {"KiB/s", 0, kibi},
    {"MiB/s", 0, kibi* kibi},
    {"GiB/s", 0, kibi* kibi* kibi},
    {"TiB/s", 0, kibi* kibi* kibi* kibi},
    {"PiB/s", 0, kibi* kibi* kibi* kibi* kibi},
};
constexpr Unit flop_rate_units[] = {
    {"FLOP/s", 0},   {"MFLOP/s", 6},  {"GFLOP/s", 9},
    {"TFLOP/s", 12}, {"PFLOP/s", 15}, {"EFLOP/s", 18},
};
constexpr Unit second_units[] = {
    {"ps", -12}, {"ns", -9}, {"us", -6}, {"ms", -3}, {"s", 0}, {"min", 0, 60}, {"h", 0, 3600},
};

constexpr std::size_t decimal_byte_units = 6;

struct DimensionInfo {
  std::span<const Unit> units;
  std::string_view example;
};

[[nodiscard]] DimensionInfo info_of(Dimension dimension) {
  switch (dimension) {
  case Dimension::bytes: return {byte_units, "80 GiB"};
  case Dimension::byte_rate: return {byte_rate_units, "193 GB/s"};
  case Dimension::flop_rate: return {flop_rate_units, "2.5 PFLOP/s"};
  case Dimension::seconds: return {second_units, "8 us"};
  }
  throw std::logic_error("unknown dimension");
}

[[nodiscard]] const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) {
      return &unit;
    }
  }
  return nullptr;
}

[[nodiscard]] std::string example_hint(const DimensionInfo& info) {
  return fmt::format("write for example \"{}\"", info.example);
}

[[nodiscard]] std::string unit_hint(const DimensionInfo& info, std::string_view name) {
  const std::string per_second = fmt::format("{}/s", name);
  if (find_unit(info.units, per_second) != nullptr) {
    return fmt::format("did you mean '{}'?", per_second);
  }
  std::vector<std::string> names;
  for (const Unit& unit : info.units) {
    names.emplace_back(unit.name);
  }
  // Capitals are the prefixes of large units: 'EB' is meant like 'PB' and not like 'B'.
  if (name.front() >= 'A' && name.front() <= 'Z') {
    std::ranges::reverse(names);
  }
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? example_hint(info) : fmt::format("did you mean '{}'?", nearest);
}

// Reads `number` with its decimal point moved, so that a value with a decimal
// prefix is rounded once: 1.005 kB is 1005 bytes, but 1.005 * 1000 is not 1005.
[[nodiscard]] std::optional<double> scaled(std::string_view number, const Unit& unit) {
  const std::size_t e = number.find_first_of("eE");
  int exponent = 0;
  if (e != std::string_view::npos) {
    const std::size_t digits = e + (number[e + 1] == '+' ? 2 : 1);
    std::from_chars(number.data() + digits, number.data() + number.size(), exponent);
  }
  const std::string moved = fmt::format("{}e{}", number.substr(0, e), exponent + unit.exponent);
  double value = 0;
  const auto read = std::from_chars(moved.data(), moved.data() + moved.size(), value);
  value *= unit.factor;
  return read.ec == std::errc{} && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// What from_chars took is neither nothing, inf, nan nor a number like 010, which
// some readers take for octal.
[[nodiscard]] bool is_decimal(std::string_view number) {
  constexpr std::string_view digits = "0123456789";
  return number.find_first_not_of("0123456789.eE+-") == std::string_view::npos &&
         number.find_first_of(digits) != std::string_view::npos &&
         !(number.size() > 1 && number[0] == '0' && digits.find(number[1]) != digits.npos);
}

constexpr double two_to_63 = 9223372036854775808.0;

[[nodiscard]] ParsedQuantity refuse(std::string error, std::string hint = {}) {
  return {0, std::move(error), std::move(hint)};
}

// Four significant digits in the largest of `units` (ascending) that leaves at
// least 1; rounding comes first, so that 999.96 GB prints as 1 TB.
[[nodiscard]] std::string format_with(std::span<const Unit> units, double value) {
  if (!std::isfinite(value)) {
    return fmt::format("{} {}", value, units.front().name);
  }
  const std::string digits = fmt::format("{:.3e}", std::abs(value));
  double rounded = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  const auto size_of = [](const Unit& unit) { return scaled("1", unit).value(); };
  const Unit* chosen = &units.front();
  for (const Unit& unit : units) {
    if (rounded >= size_of(unit)) {
      chosen = &unit;
    }
  }
  return fmt::format("{}{:.4g} {}", value < 0 ? "-" : "", rounded / size_of(*chosen), chosen->name);
}

// How many bytes or picoseconds one of this unit is; none below one.
[[nodiscard]] std::optional<std::int64_t> whole_size(const Unit& unit, Dimension dimension) {
  const int exponent = unit.exponent + (dimension == Dimension::seconds ? 12 : 0);
  auto size = static_cast<std::int64_t>(unit.factor);
  for (int i = 0; i < exponent; ++i) {
    size *= 10;
  }
  return exponent < 0 ? std::nullopt : std::optional(size);
}

// The shortest of all texts that say `count` exactly; of several, the first unit's.
[[nodiscard]] std::string exact_with(Dimension dimension, std::int64_t count) {
  std::string shortest;
  for (const Unit& unit : info_of(dimension).units) {
    const std::int64_t size = whole_size(unit, dimension).value();
    const std::string text = fmt::format("{} {}", count / size, unit.name);
    if (count % size == 0 && (shortest.empty() || text.size() < shortest.size())) {
      shortest = text;
    }
  }
  return shortest;
}

} // namespace

SimTime to_sim_time(Seconds time) {
  constexpr double longest = 0x1p62;
  const double exact = std::ceil(time.count() * 1e12);
  if (!(exact <= longest)) {
    throw std::overflow_error("a time exceeds 2^62 ps (53 days)");
  }
  SimTime rounded{static_cast<std::int64_t>(exact)};
  // The product is rounded too; what counts is the time that is read back.
  constexpr SimTime one{1};
  if (exact < 0x1p53 && to_seconds(rounded - one) >= time) {
    rounded -= one;
  }
  while (to_seconds(rounded) < time) {
    rounded += one;
  }
  return rounded;
}

ParsedQuantity parse_quantity(const std::string& text, Dimension dimension, std::string_view name) {
  const DimensionInfo info = info_of(dimension);
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  double unscaled = 0;
  const auto [number_end, ec] = std::from_chars(begin, end, unscaled);
  const std::string_view number(begin, static_cast<std::size_t>(number_end - begin));
  if (!is_decimal(number)) {
    return refuse(fmt::format("{} must be a number with a unit, not '{}'", name, text),
                  example_hint(info));
  }
  if (number.front() == '-') {
    return refuse(fmt::format("{} must not be negative", name));
  }
  std::string_view unit_name(number_end, static_cast<std::size_t>(end - number_end));
  unit_name.remove_prefix(std::min(unit_name.find_first_not_of(" \t"), unit_name.size()));
  if (unit_name.empty()) {
    return refuse(fmt::format("{} needs a unit", name), example_hint(info));
  }
  const Unit* const unit = find_unit(info.units, unit_name);
  if (unit == nullptr) {
    return refuse(fmt::format("unknown unit '{}' in {}", unit_name, name),
                  unit_hint(info, unit_name));
  }
  const std::optional<double> value = ec == std::errc{} ? scaled(number, *unit) : std::nullopt;
  if (!value) {
    return refuse(fmt::format("{} is out of range: '{}' does not fit in a double", name, text));
  }
  if (dimension == Dimension::bytes && *value != std::floor(*value)) {
    return refuse(fmt::format("{} must be a whole number of bytes, not '{}'", name, text));
  }
  if (dimension == Dimension::bytes && *value >= two_to_63) {
    return refuse(fmt::format("{} must be below 2^63 bytes, not '{}'", name, text));
  }
  return {*value, {}, {}};
}

std::string exact_bytes(std::int64_t bytes) {
  return bytes == 0 ? "0 B" : exact_with(Dimension::bytes, bytes);
}

std::string exact_time(SimTime time) {
  return time == SimTime{0} ? "0 s" : exact_with(Dimension::seconds, time.count());
}

std::optional<std::int64_t> parse_whole(std::string_view text, Dimension dimension) {
  std::int64_t count = 0;
  const auto [number_end, ec] = std::from_chars(text.data(), text.data() + text.size(), count);
  const auto digits = static_cast<std::size_t>(number_end - text.data());
  if (ec != std::errc{} || text.front() == '-' || !is_decimal(text.substr(0, digits))) {
    return std::nullopt;
  }
  text.remove_prefix(digits);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const Unit* const unit = find_unit(info_of(dimension).units, text);
  const std::optional<std::int64_t> size = unit ? whole_size(*unit, dimension) : std::nullopt;
  if (!size || count > std::numeric_limits<std::int64_t>::max() / *size) {
    return std::nullopt;
  }
  return count * *size;
}

std::string format_bytes(double bytes) {
  return format_with(std::span(byte_units).first(decimal_byte_units), bytes);
}

std::string full_bytes(std::int64_t bytes) {
  const std::string text = format_bytes(static_cast<double>(bytes));
  const std::string exact = exact_bytes(bytes);
  return text == exact || bytes < 10'000 ? exact : fmt::format("{} ({} B)", text, bytes);
}

std::string format_byte_rate(double bytes_per_second) {
  return format_with(std::span(byte_rate_units).first(decimal_byte_units), bytes_per_second);
}

std::string format_flop_rate(double flops_per_second) {
  return format_with(flop_rate_units, flops_per_second);
}

std::string format_seconds(double seconds) {
  if (seconds == 0) {
    return "0 s";
  }
  return format_with(second_units, seconds);
}

} // namespace spillway
