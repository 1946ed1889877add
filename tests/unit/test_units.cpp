#include "sim/base/units.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

using namespace spillway;

namespace {

double value_of(const std::string& text, Dimension dimension) {
  const ParsedQuantity parsed = parse_quantity(text, dimension);
  CAPTURE(text);
  CHECK(parsed.error == "");
  return parsed.value;
}

// "error | hint" of a text that must be refused.
std::string refusal(const std::string& text, Dimension dimension) {
  const ParsedQuantity parsed = parse_quantity(text, dimension, "'rate'");
  CHECK(parsed.value == 0);
  return parsed.hint.empty() ? parsed.error : parsed.error + " | " + parsed.hint;
}

} // namespace

TEST_CASE("Work divided by a rate is a time") {
  // 3e9 B / 200e9 B/s = 0.015 s; 5e12 FLOP / 1e15 FLOP/s = 0.005 s
  CHECK((Bytes{3'000'000'000} / ByteRate{200e9}).count() == doctest::Approx(0.015));
  CHECK((Flops{5e12} / FlopRate{1e15}).count() == doctest::Approx(0.005));
}

TEST_CASE("A time becomes the fewest picoseconds that are not less") {
  // 0.015 s x 1e12 ps/s
  CHECK(to_sim_time(Seconds{0.015}).count() == 15'000'000'000);
  CHECK(to_sim_time(Seconds{0}).count() == 0);
  // a tenth of a picosecond needs a whole one
  CHECK(to_sim_time(Seconds{1e-13}).count() == 1);
  // 1.5 ps lies between 1 and 2
  CHECK(to_sim_time(Seconds{1.5e-12}).count() == 2);
  // one unit in the last place above 1 s is 2.2e-16 s, far below a picosecond
  CHECK(to_sim_time(Seconds{std::nextafter(1.0, 2.0)}).count() == 1'000'000'000'001);
}

TEST_CASE("Rounding to picoseconds is tight and survives the way back") {
  const unsigned seed = 20240611;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    // Whole picoseconds up to 1000 s (2^53 ps is 9007 s) come back exactly.
    const SimTime whole{static_cast<std::int64_t>(random() % 1'000'000'000'000'000U)};
    CAPTURE(whole.count());
    REQUIRE(to_sim_time(to_seconds(whole)) == whole);
    // An arbitrary time is reached, and one picosecond less would not do.
    const Seconds time{static_cast<double>(random() >> 11U) * 0x1p-53 * 1000};
    const SimTime rounded = to_sim_time(time);
    CAPTURE(time.count());
    REQUIRE(to_seconds(rounded) >= time);
    REQUIRE(to_seconds(rounded - SimTime{1}) < time);
  }
}

TEST_CASE("A time beyond 2^62 ps is refused, not wrapped") {
  // 2^62 ps = 4611686.018... s
  CHECK(to_sim_time(Seconds{4611686}).count() == 4'611'686'000'000'000'000);
  CHECK_THROWS_WITH_AS(static_cast<void>(to_sim_time(Seconds{4611687})),
                       "a time exceeds 2^62 ps (53 days)", std::overflow_error);
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(static_cast<void>(to_sim_time(Seconds{infinity})), std::overflow_error);
  CHECK_THROWS_AS(static_cast<void>(to_sim_time(Seconds{nan})), std::overflow_error);
}

TEST_CASE("Every unit has its size") {
  // decimal prefixes are powers of 1000, binary ones powers of 1024
  CHECK(value_of("3 B", Dimension::bytes) == 3);
  CHECK(value_of("3 kB", Dimension::bytes) == 3e3);
  CHECK(value_of("3 MB", Dimension::bytes) == 3e6);
  CHECK(value_of("3 GB", Dimension::bytes) == 3e9);
  CHECK(value_of("3 TB", Dimension::bytes) == 3e12);
  CHECK(value_of("3 PB", Dimension::bytes) == 3e15);
  CHECK(value_of("3 KiB", Dimension::bytes) == 3 * 0x1p10);
  CHECK(value_of("3 MiB", Dimension::bytes) == 3 * 0x1p20);
  CHECK(value_of("3 GiB", Dimension::bytes) == 3 * 0x1p30);
  CHECK(value_of("3 TiB", Dimension::bytes) == 3 * 0x1p40);
  CHECK(value_of("3 PiB", Dimension::bytes) == 3 * 0x1p50);
  CHECK(value_of("7 B/s", Dimension::byte_rate) == 7);
  CHECK(value_of("7 kB/s", Dimension::byte_rate) == 7e3);
  CHECK(value_of("7 MB/s", Dimension::byte_rate) == 7e6);
  CHECK(value_of("193 GB/s", Dimension::byte_rate) == 193e9);
  CHECK(value_of("7 TB/s", Dimension::byte_rate) == 7e12);
  CHECK(value_of("7 PB/s", Dimension::byte_rate) == 7e15);
  CHECK(value_of("7 KiB/s", Dimension::byte_rate) == 7 * 0x1p10);
  CHECK(value_of("7 MiB/s", Dimension::byte_rate) == 7 * 0x1p20);
  CHECK(value_of("7 GiB/s", Dimension::byte_rate) == 7 * 0x1p30);
  CHECK(value_of("7 TiB/s", Dimension::byte_rate) == 7 * 0x1p40);
  CHECK(value_of("7 PiB/s", Dimension::byte_rate) == 7 * 0x1p50);
  CHECK(value_of("5 FLOP/s", Dimension::flop_rate) == 5);
  CHECK(value_of("5 MFLOP/s", Dimension::flop_rate) == 5e6);
  CHECK(value_of("5 GFLOP/s", Dimension::flop_rate) == 5e9);
  CHECK(value_of("5 TFLOP/s", Dimension::flop_rate) == 5e12);
  CHECK(value_of("2.5 PFLOP/s", Dimension::flop_rate) == 2.5e15);
  CHECK(value_of("5 EFLOP/s", Dimension::flop_rate) == 5e18);
  CHECK(value_of("8 ps", Dimension::seconds) == 8e-12);
  CHECK(value_of("8 ns", Dimension::seconds) == 8e-9);
  CHECK(value_of("8 us", Dimension::seconds) == 8e-6);
  CHECK(value_of("8 ms", Dimension::seconds) == 8e-3);
  CHECK(value_of("8 s", Dimension::seconds) == 8);
  CHECK(value_of("8 min", Dimension::seconds) == 480);
  CHECK(value_of("8 h", Dimension::seconds) == 28800);
}

TEST_CASE("Numbers may have fractions and exponents, and white space is optional") {
  CHECK(value_of("1.5 GB", Dimension::bytes) == 1.5e9);
  CHECK(value_of("64GB/s", Dimension::byte_rate) == 64e9);
  CHECK(value_of("64 \t GB/s", Dimension::byte_rate) == 64e9);
  CHECK(value_of("1e3 B", Dimension::bytes) == 1000);
  CHECK(value_of("1.5E+2 kB", Dimension::bytes) == 150'000);
  CHECK(value_of("2500e-1 MB", Dimension::bytes) == 250e6);
  CHECK(value_of("0 GB", Dimension::bytes) == 0);
  CHECK(value_of("0.5 GiB", Dimension::bytes) == 0x1p29);
  // the E of the unit is no exponent
  CHECK(value_of("2EFLOP/s", Dimension::flop_rate) == 2e18);
  CHECK(value_of("0e99999999999 s", Dimension::seconds) == 0);
}

TEST_CASE("A decimal prefix moves the point before the number is rounded") {
  // 1.005 * 1000 in doubles is 1004.9999999999999; 1.005 kB is 1005 bytes
  CHECK(1.005 * 1000 != 1005);
  CHECK(value_of("1.005 kB", Dimension::bytes) == 1005);
  // 4.35 * 100 in doubles is 434.99999999999994
  CHECK(value_of("4.35e2 B", Dimension::bytes) == 435);
  CHECK(value_of("0.001 ms", Dimension::seconds) == 1e-6);
}

TEST_CASE("A text that is no quantity is refused with the right hint") {
  const Dimension rate = Dimension::byte_rate;
  CHECK(refusal("193", rate) == "'rate' needs a unit | write for example \"193 GB/s\"");
  CHECK(refusal("1e3", Dimension::bytes) == "'rate' needs a unit | write for example \"80 GiB\"");
  CHECK(refusal("5 ", Dimension::seconds) == "'rate' needs a unit | write for example \"8 us\"");
  CHECK(refusal("GB/s", rate) == "'rate' must be a number with a unit, not 'GB/s' | "
                                 "write for example \"193 GB/s\"");
  CHECK(refusal("", Dimension::flop_rate) == "'rate' must be a number with a unit, not '' | "
                                             "write for example \"2.5 PFLOP/s\"");
  for (const char* const text : {"inf GB/s", "nan GB/s", "nan(1) GB/s", "-inf GB/s", "+5 GB/s",
                                 " 5 GB/s", "010 GB/s", "00 GB/s", ".e1 GB/s", "- GB/s"}) {
    CHECK(refusal(text, rate) == "'rate' must be a number with a unit, not '" + std::string(text) +
                                     "' | write for example \"193 GB/s\"");
  }
  CHECK(refusal("-3 GB/s", rate) == "'rate' must not be negative");
  CHECK(refusal("-0 GB/s", rate) == "'rate' must not be negative");
}

TEST_CASE("An unknown unit is answered with the nearest one or an example") {
  const Dimension rate = Dimension::byte_rate;
  CHECK(refusal("193 GBs", rate) == "unknown unit 'GBs' in 'rate' | did you mean 'GB/s'?");
  CHECK(refusal("193 gb/s", rate) == "unknown unit 'gb/s' in 'rate' | did you mean 'GB/s'?");
  CHECK(refusal("193 GB", rate) == "unknown unit 'GB' in 'rate' | did you mean 'GB/s'?");
  CHECK(refusal("1 TFLOPS", Dimension::flop_rate) ==
        "unknown unit 'TFLOPS' in 'rate' | did you mean 'TFLOP/s'?");
  CHECK(refusal("1 EB", Dimension::bytes) == "unknown unit 'EB' in 'rate' | did you mean 'PB'?");
  CHECK(refusal("1 mb", Dimension::bytes) == "unknown unit 'mb' in 'rate' | did you mean 'MB'?");
  CHECK(refusal("1 kFLOP/s", Dimension::flop_rate) ==
        "unknown unit 'kFLOP/s' in 'rate' | did you mean 'FLOP/s'?");
  CHECK(refusal("5 furlong", rate) ==
        "unknown unit 'furlong' in 'rate' | write for example \"193 GB/s\"");
  // what follows the unit belongs to it
  CHECK(refusal("5 GB/s 7 GB/s", rate) ==
        "unknown unit 'GB/s 7 GB/s' in 'rate' | write for example \"193 GB/s\"");
  CHECK(refusal("1,5 GB/s", rate) ==
        "unknown unit ',5 GB/s' in 'rate' | write for example \"193 GB/s\"");
  CHECK(refusal("0x10 B/s", rate) == "unknown unit 'x10 B/s' in 'rate' | "
                                     "write for example \"193 GB/s\"");
}

TEST_CASE("A quantity outside of what can be held is refused") {
  // 1e308 x 1e9 exceeds the largest double, 1.8e308; so does 1e300 x 1024^5 = 1.1e315
  for (const char* const text : {"1e308 GB/s", "1e999 B/s", "1e300 PiB/s", "1e-999 B/s"}) {
    CHECK(refusal(text, Dimension::byte_rate) ==
          "'rate' is out of range: '" + std::string(text) + "' does not fit in a double");
  }
  // 2^63 = 9223372036854775808; the largest double below is 2^63 - 1024
  CHECK(value_of("9223372036854774784 B", Dimension::bytes) == 9223372036854774784.0);
  CHECK(refusal("9223372036854775808 B", Dimension::bytes) ==
        "'rate' must be below 2^63 bytes, not '9223372036854775808 B'");
  CHECK(refusal("9224 PB", Dimension::bytes) == "'rate' must be below 2^63 bytes, not '9224 PB'");
  CHECK(refusal("0.3 B", Dimension::bytes) ==
        "'rate' must be a whole number of bytes, not '0.3 B'");
  // 0.1 x 1024 = 102.4
  CHECK(refusal("0.1 KiB", Dimension::bytes) ==
        "'rate' must be a whole number of bytes, not '0.1 KiB'");
}

TEST_CASE("Without a name an error speaks of the quantity") {
  CHECK(parse_quantity("5", Dimension::bytes).error == "the quantity needs a unit");
}

TEST_CASE("Amounts print with at most four digits in the fitting unit") {
  CHECK(format_bytes(174.8e9) == "174.8 GB");
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(999) == "999 B");
  CHECK(format_bytes(1000) == "1 kB");
  CHECK(format_bytes(1536) == "1.536 kB");
  CHECK(format_byte_rate(193e9) == "193 GB/s");
  CHECK(format_flop_rate(908.2e12) == "908.2 TFLOP/s");
  CHECK(format_flop_rate(2e18) == "2 EFLOP/s");
  CHECK(format_seconds(12.4e-3) == "12.4 ms");
  CHECK(format_seconds(1e-6) == "1 us");
  CHECK(format_seconds(0) == "0 s");
  CHECK(format_seconds(59) == "59 s");
  CHECK(format_seconds(90) == "1.5 min");
  CHECK(format_seconds(7200) == "2 h");
  CHECK(format_seconds(-0.002) == "-2 ms");
}

TEST_CASE("Rounding to four digits comes before the choice of the unit") {
  // 999.96 GB rounds to 1000 GB, which is 1 TB; 999.94 GB stays below
  CHECK(format_bytes(999.96e9) == "1 TB");
  CHECK(format_bytes(999.94e9) == "999.9 GB");
  // 59.996 s rounds to 60.00 s
  CHECK(format_seconds(59.996) == "1 min");
}

TEST_CASE("Exact amounts print as the shortest whole number and read back without rounding") {
  CHECK(exact_bytes(0) == "0 B");
  CHECK(exact_bytes(80'000'000'000) == "80 GB");
  CHECK(exact_bytes(std::int64_t{80} << 30) == "80 GiB");
  CHECK(exact_bytes(1'234'567) == "1234567 B");
  CHECK(exact_bytes(1024) == "1 KiB");
  CHECK(full_bytes(1234) == "1234 B");
  CHECK(full_bytes(4'000'000'000) == "4 GB");
  CHECK(full_bytes(4'001'953'125) == "4.002 GB (4001953125 B)");
  CHECK(exact_time(SimTime{0}) == "0 s");
  CHECK(exact_time(SimTime{12'000'000}) == "12 us");
  CHECK(exact_time(SimTime{1'500'000'000'000}) == "1500 ms");
  CHECK(exact_time(SimTime{3'600'000'000'000'000}) == "1 h");
  for (const std::int64_t count : {std::int64_t{1}, (std::int64_t{1} << 53) + 1,
                                   std::int64_t{9223372036854775807}, std::int64_t{7} << 50}) {
    CHECK(parse_whole(exact_bytes(count), Dimension::bytes) == count);
    CHECK(parse_whole(exact_time(SimTime{count}), Dimension::seconds) == count);
  }
  for (const char* other : {"", "GB", "1", "1.5 GB", "1e3 GB", "-1 B", "010 B", "1 gb", "9224 PB",
                            "9223372036854775808 B", "1 ms"}) {
    INFO(other);
    CHECK(parse_whole(other, Dimension::bytes) == std::nullopt);
  }
}
