// What the tests of the built program share: starting it, and the rules that
// every answer obeys, whatever was asked.
#pragma once

#include "tests/support/run_program.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

namespace spillway {

using Arguments = std::vector<std::string>;

constexpr const char* gb200 = "deepseek-v3-gb200";

inline Arguments operator+(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// No question may end in a crash, an internal error, a hang, more than 2 GB, or
// numbers that are none.
[[nodiscard]] inline ProgramResult ask(const Arguments& arguments,
                                       const ProgramLimits& limits = {}) {
  ProgramResult result = run_program(Arguments{SPILLWAY_BINARY} + arguments, limits);
  std::string shown;
  for (const std::string& argument : arguments) {
    shown += " " + argument.substr(0, 200);
  }
  INFO("spillway", shown, "\n", result.err);
  CHECK_FALSE(result.too_slow);
  CHECK_FALSE(result.too_large);
  CHECK(result.signal == 0);
  CHECK(result.exit_code >= 0);
  CHECK(result.exit_code <= 2);
  CHECK(result.peak_bytes < 2'000'000'000);
  static const std::regex no_number("(^|[^A-Za-z0-9_])-?(nan|inf)([^A-Za-z0-9_]|$)");
  CHECK_FALSE(std::regex_search(result.out, no_number));
  return result;
}

// The input is refused with exactly this text on standard error, nothing else.
inline void check_refused(const Arguments& arguments, const std::string& text) {
  const ProgramResult result = ask(arguments);
  CHECK(result.exit_code == 2);
  CHECK(result.err == text);
  CHECK(result.out.empty());
}

// The same where more than this text is said.
inline void check_refused_with(const Arguments& arguments, const std::string& part) {
  const ProgramResult result = ask(arguments);
  INFO(result.err);
  CHECK(result.exit_code == 2);
  CHECK(result.err.find(part) != std::string::npos);
  CHECK(result.out.empty());
}

[[nodiscard]] inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

[[nodiscard]] inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// First words of the rows of `spillway fields`.
[[nodiscard]] inline std::vector<std::string> field_names() {
  std::vector<std::string> names;
  const std::vector<std::string> lines = lines_of(ask({"fields"}).out);
  for (std::size_t i = 2; i < lines.size(); ++i) { // below the head and its rule
    names.push_back(lines[i].substr(0, lines[i].find(' ')));
  }
  return names;
}

} // namespace spillway
