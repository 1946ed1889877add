#include "sim/base/yaml.hpp"

#include "tests/support/reports.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace spillway;

namespace {

using Names = std::vector<std::string>;
using Use = std::function<void(MapReader&)>;

// Everything that reading `text` reports, as "line:column: message | hint" lines.
std::string reports(const std::string& text, const Use& use) {
  const YamlNode root = parse_yaml(text, "t.yaml");
  Diagnostics diagnostics;
  MapReader in(root, "batch", diagnostics);
  use(in);
  return report_text(diagnostics);
}

std::string integer_report(const std::string& value, IntegerRange range = {}) {
  return reports("micro: " + value,
                 [&](MapReader& in) { static_cast<void>(in.integer("micro", range)); });
}

std::string number_report(const std::string& value, RealRange range = {}) {
  return reports("x: " + value, [&](MapReader& in) { static_cast<void>(in.number("x", range)); });
}

std::string boolean_report(const std::string& value) {
  return reports("on: " + value, [](MapReader& in) { CHECK(in.boolean_or("on", true)); });
}

std::string rate_report(const std::string& value, RealRange range = {}) {
  return reports("rate: " + value, [&](MapReader& in) {
    static_cast<void>(in.quantity("rate", Dimension::byte_rate, range));
  });
}

} // namespace

TEST_CASE("A correct map is read without a report") {
  const std::string text = "name: demo\n"
                           "micro: 2\n"
                           "low: -3\n"
                           "share: 0.25\n"
                           "on: false\n"
                           "memory: 80 GiB\n"
                           "rate: \"193 GB/s\"\n"
                           "schedule: eager\n"
                           "files: [a.yaml, \"7\", 8]\n"
                           "inner: {a: 1}\n"
                           "data: {x: 1}\n";
  CHECK(reports(text, [](MapReader& in) {
          CHECK(in.what() == "batch");
          CHECK(in.text("name") == "demo");
          CHECK(in.integer("micro", {1, 8}) == 2);
          CHECK(in.integer_or("low", {}, 7) == -3);
          CHECK(in.number("share", {0, 1}) == 0.25);
          CHECK_FALSE(in.boolean_or("on", true));
          CHECK(in.quantity("memory", Dimension::bytes, {}) == 80 * 0x1p30);
          CHECK(in.quantity_or("rate", Dimension::byte_rate, {}, 1) == 193e9);
          CHECK(in.choice("schedule", Names{"lazy", "eager"}) == 1);
          CHECK(in.text_list_or_empty("files") == Names{"a.yaml", "7", "8"});
          REQUIRE(in.child("inner") != nullptr);
          CHECK(in.required_child("inner")->find("a")->text == "1");
          in.accept("data");
          in.finish();
        }) == "");
}

TEST_CASE("Absent optional keys give their fallbacks without a report") {
  CHECK(reports("{}", [](MapReader& in) {
          CHECK(in.text_or("a", "x") == "x");
          CHECK(in.integer_or("b", {1, 2}, 9) == 9);
          CHECK(in.number_or("c", {}, 0.5) == 0.5);
          CHECK(in.boolean_or("d", true));
          CHECK(in.quantity_or("e", Dimension::seconds, {}, 3) == 3);
          CHECK(in.choice_or("f", Names{"p", "q"}, 1) == 1);
          CHECK(in.text_list_or_empty("g").empty());
          CHECK(in.child("h") == nullptr);
          CHECK_FALSE(in.has("i"));
          in.finish();
        }) == "");
}

TEST_CASE("A missing key is reported at the map and reading goes on with something harmless") {
  // 1 where the range allows it, else the nearest bound; the first choice; empty text
  CHECK(reports("{z: 1}",
                [](MapReader& in) {
                  CHECK(in.text("name") == "");
                  CHECK(in.integer("micro", {}) == 1);
                  CHECK(in.integer("deep", {5, 9}) == 5);
                  CHECK(in.integer("low", {-9, -5}) == -5);
                  CHECK(in.number("share", {0, 0.5}) == 0.5);
                  CHECK(in.quantity("rate", Dimension::byte_rate, {0, 1e300, true}) == 1);
                  CHECK(in.choice("schedule", Names{"p", "q"}) == 0);
                  CHECK(in.required_child("gpu") == nullptr);
                }) == "1:1: missing key 'name' in 'batch'\n"
                      "1:1: missing key 'micro' in 'batch'\n"
                      "1:1: missing key 'deep' in 'batch'\n"
                      "1:1: missing key 'low' in 'batch'\n"
                      "1:1: missing key 'share' in 'batch'\n"
                      "1:1: missing key 'rate' in 'batch'\n"
                      "1:1: missing key 'schedule' in 'batch'\n"
                      "1:1: missing key 'gpu' in 'batch'");
}

TEST_CASE("A missing key can be told from a mistake that reads alike") {
  const YamlNode root = parse_yaml("{}", "t.yaml");
  Diagnostics diagnostics;
  MapReader in(root, "gpu", diagnostics);
  static_cast<void>(in.required_child("context"));
  in.error("", "missing key 'context' in 'gpu'");
  REQUIRE(diagnostics.count() == 2);
  CHECK(diagnostics.found()[0].message == diagnostics.found()[1].message);
  CHECK(diagnostics.found()[0].missing == "'context' in 'gpu'");
  CHECK(diagnostics.found()[1].missing.empty());
}

TEST_CASE("A key that a block map lacks is missing at the key of the map, or in the file") {
  const YamlNode root = parse_yaml("a: 1\nbatch:\n  sequence: 2\n", "t.yaml");
  Diagnostics diagnostics;
  static_cast<void>(MapReader(*root.find("batch"), "batch", diagnostics).required_child("micro"));
  static_cast<void>(MapReader(root, "scenario", diagnostics).required_child("model"));
  CHECK_THROWS_WITH_AS(diagnostics.throw_if_any(),
                       "t.yaml:2:1: error: missing key 'micro' in 'batch'\n"
                       "    2 | batch:\n"
                       "      | ^\n"
                       "t.yaml: error: missing key 'model' in 'scenario'",
                       InputError);
}

TEST_CASE("An unknown key is reported with the nearest key that was asked for") {
  const auto use = [](MapReader& in) {
    static_cast<void>(in.integer_or("micro", {}, 1));
    static_cast<void>(in.child("sequence"));
    in.finish();
  };
  CHECK(reports("{micr: 1, sequence: 2}", use) ==
        "1:2: unknown key 'micr' in 'batch' | did you mean 'micro'?");
  CHECK(reports("Micro: 1", use) == "1:1: unknown key 'Micro' in 'batch' | did you mean 'micro'?");
  CHECK(reports("a: 1\nbbbb: 2", use) ==
        "1:1: unknown key 'a' in 'batch' | known: micro, sequence\n"
        "2:1: unknown key 'bbbb' in 'batch' | known: micro, sequence");
  CHECK(reports("a: 1", [](MapReader& in) { in.finish(); }) == "1:1: unknown key 'a' in 'batch'");
}

TEST_CASE("Asking whether a key is there does not count as reading it, but suggests it") {
  CHECK(reports("micro: 1\nmacro: 2",
                [](MapReader& in) {
                  CHECK(in.has("micro"));
                  in.finish();
                }) == "1:1: unknown key 'micro' in 'batch' | did you mean 'micro'?\n"
                      "2:1: unknown key 'macro' in 'batch' | did you mean 'micro'?");
}

TEST_CASE("Something that is no map is reported once and reads as an empty map") {
  const auto use = [](MapReader& in) {
    CHECK(in.integer("micro", {}) == 1);
    CHECK_FALSE(in.has("micro"));
    in.error("micro", "more");
    in.finish();
  };
  CHECK(reports("[1]", use) == "1:1: 'batch' must be a map, not a list\n1:1: more");
  CHECK(reports("5", use) == "1:1: 'batch' must be a map, not '5'\n1:1: more");
  CHECK(reports("\"5\"", use) == "1:1: 'batch' must be a map, not quoted text\n1:1: more");
}

TEST_CASE("An integer is decimal digits and nothing else") {
  CHECK(integer_report("0") == "");
  CHECK(integer_report("-0") == "");
  CHECK(integer_report("9223372036854775807") == "");  // 2^63 - 1
  CHECK(integer_report("-9223372036854775808") == ""); // -2^63
  for (const char* const text :
       {"two", "1.0", "1e3", "+5", "0x10", "0o10", "1_000", "1,000", ".inf", ".nan", "inf", "nan",
        "--", "5 5", "true", "10%", "\xD9\xA3"}) {
    CHECK(integer_report(text) ==
          "1:8: 'micro' must be an integer, not '" + std::string(text) + "'");
  }
  for (const char* const text : {"010", "-010", "00", "08"}) {
    CHECK(integer_report(text) == "1:8: 'micro' must be an integer, not '" + std::string(text) +
                                      "' | remove the leading zeros");
  }
}

TEST_CASE("A value of the wrong kind is named") {
  CHECK(integer_report("{a: 1}") == "1:8: 'micro' must be an integer, not a map");
  CHECK(integer_report("[1]") == "1:8: 'micro' must be an integer, not a list");
  CHECK(integer_report("~") == "1:1: 'micro' must be an integer, not empty");
  CHECK(integer_report("") == "1:1: 'micro' must be an integer, not empty");
  CHECK(integer_report("\n  a: 1") == "1:1: 'micro' must be an integer, not a map");
  CHECK(integer_report("\"1\"") ==
        "1:8: 'micro' must be an integer, not quoted text | remove the quotes");
  CHECK(number_report("'1.5'") == "1:4: 'x' must be a number, not quoted text | remove the quotes");
  CHECK(number_report("[]") == "1:4: 'x' must be a number, not a list");
  CHECK(boolean_report("\"true\"") ==
        "1:5: 'on' must be true or false, not quoted text | remove the quotes");
  CHECK(boolean_report("{}") == "1:5: 'on' must be true or false, not a map");
  CHECK(rate_report("{}") == "1:7: 'rate' must be a number with a unit, not a map");
  CHECK(rate_report("") == "1:1: 'rate' must be a number with a unit, not empty");
  const auto text = [](MapReader& in) { CHECK(in.text("name") == ""); };
  CHECK(reports("name: [1]", text) == "1:7: 'name' must be text, not a list");
  CHECK(reports("name:", text) == "1:1: 'name' must be text, not empty");
  CHECK(reports("name: \"\"", text) == "");
}

TEST_CASE("An integer that 64 bits cannot hold is said to be so") {
  // 2^63 and -2^63 - 1
  CHECK(integer_report("9223372036854775808") ==
        "1:8: 'micro' does not fit in 64 bits: 9223372036854775808");
  CHECK(integer_report("-9223372036854775809") ==
        "1:8: 'micro' does not fit in 64 bits: -9223372036854775809");
}

TEST_CASE("A number outside of its range is answered with the range") {
  constexpr std::int64_t no_max = IntegerRange{}.max;
  CHECK(integer_report("0", {1, no_max}) == "1:8: 'micro' must be at least 1, not 0");
  CHECK(integer_report("3", {0, 1}) == "1:8: 'micro' must be between 0 and 1, not 3");
  CHECK(integer_report("3", {IntegerRange{}.min, 2}) == "1:8: 'micro' must be at most 2, not 3");
  CHECK(integer_report("2", {2, 2}) == "");
  constexpr double infinite = RealRange{}.max;
  CHECK(number_report("3", {0, 1}) == "1:4: 'x' must be between 0 and 1, not 3");
  CHECK(number_report("-0.5", {0, infinite}) == "1:4: 'x' must be at least 0, not -0.5");
  CHECK(number_report("1.5", {-infinite, 0.75}) == "1:4: 'x' must be at most 0.75, not 1.5");
  CHECK(number_report("0", {0, infinite, true}) == "1:4: 'x' must be greater than 0, not 0");
  CHECK(number_report("0", {0, 1, true}) == "1:4: 'x' must be greater than 0 and at most 1, not 0");
  CHECK(number_report("1", {0, 1, true}) == "");
  CHECK(rate_report("0 GB/s", {0, infinite, true}) ==
        "1:7: 'rate' must be greater than 0 B/s, not 0 GB/s");
  CHECK(rate_report("9 TB/s", {1e9, 5e12}) ==
        "1:7: 'rate' must be between 1 GB/s and 5 TB/s, not 9 TB/s");
}

TEST_CASE("A number is finite and decimal") {
  const auto read = [](const std::string& text) {
    double value = 0;
    CHECK(reports("x: " + text, [&](MapReader& in) { value = in.number("x", {}); }) == "");
    return value;
  };
  CHECK(read("1") == 1);
  CHECK(read("-2.5e-3") == -2.5e-3);
  CHECK(read("1E+3") == 1000);
  CHECK(read(".5") == 0.5);
  CHECK(read("5.") == 5);
  CHECK(read("0.1") == 0.1);
  CHECK_FALSE(std::signbit(read("-0")));
  for (const char* const text : {"inf", ".inf", "-.inf", "nan", ".nan", "infinity", "0x1p3", "+1",
                                 "1e", "e5", ".", "--", "1.2.3", "1 2", "50%", "1_0"}) {
    CHECK(number_report(text) == "1:4: 'x' must be a number, not '" + std::string(text) + "'");
  }
  CHECK(number_report("010.5") ==
        "1:4: 'x' must be a number, not '010.5' | remove the leading zeros");
  CHECK(number_report("1e999") == "1:4: 'x' does not fit in a double: 1e999");
  CHECK(number_report("-1e999") == "1:4: 'x' does not fit in a double: -1e999");
}

TEST_CASE("A boolean is true or false") {
  CHECK(boolean_report("true") == "");
  for (const char* const text : {"yes", "no", "on", "True", "TRUE", "1", "t"}) {
    CHECK(boolean_report(text) ==
          "1:5: 'on' must be true or false, not '" + std::string(text) + "'");
  }
}

TEST_CASE("A quantity that cannot be read is reported at its value") {
  CHECK(rate_report("193") == "1:7: 'rate' needs a unit | write for example \"193 GB/s\"");
  CHECK(rate_report("193 GBs") == "1:7: unknown unit 'GBs' in 'rate' | did you mean 'GB/s'?");
  CHECK(rate_report("-1 GB/s") == "1:7: 'rate' must not be negative");
}

TEST_CASE("An unknown choice is answered with the nearest one") {
  const Names names{"pipelined", "serial"};
  const auto use = [&](MapReader& in) { CHECK(in.choice("schedule", names) == 0); };
  CHECK(reports("schedule: pipelind", use) ==
        "1:11: unknown value 'pipelind' for 'schedule' | did you mean 'pipelined'?");
  CHECK(reports("schedule: 7", use) ==
        "1:11: unknown value '7' for 'schedule' | known: pipelined, serial");
  CHECK(reports("schedule: {}", use) ==
        "1:11: 'schedule' must be a word, not a map | known: pipelined, serial");
  CHECK(reports("schedule: x", [&](MapReader& in) {
          CHECK(in.choice_or("schedule", names, 1) == 1);
        }) == "1:11: unknown value 'x' for 'schedule' | known: pipelined, serial");
}

TEST_CASE("A list of texts reports each item that is none") {
  CHECK(reports("files: [a, {b: 1}, c, ]\nmore: a.yaml\nnone: {}",
                [](MapReader& in) {
                  CHECK(in.text_list_or_empty("files") == Names{"a", "c"});
                  CHECK(in.text_list_or_empty("more").empty());
                  CHECK(in.text_list_or_empty("none").empty());
                }) == "1:12: 'files[1]' must be text, not a map\n"
                      "2:7: 'more' must be a list, not 'a.yaml' | write [a.yaml]\n"
                      "3:7: 'none' must be a list, not a map");
}

TEST_CASE("One run reports several mistakes") {
  CHECK(reports("micro: 0\nrate: 5\nsequenc: 4\n",
                [](MapReader& in) {
                  static_cast<void>(in.integer("micro", {1, 9}));
                  static_cast<void>(in.quantity("rate", Dimension::byte_rate, {}));
                  static_cast<void>(in.integer("sequence", {}));
                  in.finish();
                }) == "1:8: 'micro' must be between 1 and 9, not 0\n"
                      "2:7: 'rate' needs a unit | write for example \"193 GB/s\"\n"
                      "0:0: missing key 'sequence' in 'batch'\n"
                      "3:1: unknown key 'sequenc' in 'batch' | did you mean 'sequence'?");
}

TEST_CASE("The caller's own errors point at the value, places at the key") {
  CHECK(reports("a: 1\nb:\n  c: 2", [](MapReader& in) {
          CHECK(in.place_of("a").line == 1);
          CHECK(in.place_of("a").column == 1);
          CHECK(in.place_of("b").line == 2);
          CHECK(in.place_of("nowhere").line == 0);
          in.error("a", "too small", "make it larger");
          in.error("b", "too deep");
          in.error("nowhere", "not there");
        }) == "1:4: too small | make it larger\n2:1: too deep\n0:0: not there");
}

TEST_CASE("Single values are read by the same rules") {
  const YamlNode root = parse_yaml("[3, 0.5, 8 us, x]", "t.yaml");
  Diagnostics diagnostics;
  CHECK(read_integer(root.items[0], {}, "rows[0]", diagnostics) == 3);
  CHECK(read_number(root.items[1], {}, "rows[1]", diagnostics) == 0.5);
  CHECK(read_quantity(root.items[2], Dimension::seconds, {}, "rows[2]", diagnostics) == 8e-6);
  CHECK(diagnostics.empty());
  CHECK_FALSE(read_integer(root.items[3], {}, "rows[3]", diagnostics).has_value());
  CHECK_THROWS_WITH_AS(diagnostics.throw_if_any(),
                       "t.yaml:1:16: error: 'rows[3]' must be an integer, not 'x'\n"
                       "    1 | [3, 0.5, 8 us, x]\n"
                       "      |                ^",
                       InputError);
}
