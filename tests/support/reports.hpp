// What reading a piece of YAML complains about, as text that a test can compare.
#pragma once

#include "sim/base/yaml.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace spillway {

// "line:column: message | hint" per diagnostic, in the order of their discovery.
[[nodiscard]] inline std::string report_text(Diagnostics& diagnostics) {
  std::string all;
  try {
    diagnostics.throw_if_any();
  } catch (const InputError& error) {
    for (const Diagnostic& found : error.diagnostics()) {
      const std::string hint = found.hint.empty() ? "" : " | " + found.hint;
      all += (all.empty() ? "" : "\n") + std::to_string(found.place.line) + ":" +
             std::to_string(found.place.column) + ": " + found.message + hint;
    }
  }
  return all;
}

// What `action` reports, as "message | hint" lines; empty where it reports nothing.
[[nodiscard]] inline std::string messages_of(const std::function<void()>& action) {
  std::string all;
  try {
    action();
  } catch (const InputError& error) {
    for (const Diagnostic& found : error.diagnostics()) {
      all += (all.empty() ? "" : "\n") + found.message +
             (found.hint.empty() ? "" : " | " + found.hint);
    }
  }
  return all;
}

// `text` with its one occurrence of `from` replaced.
[[nodiscard]] inline std::string replaced(std::string text, const std::string& from,
                                          const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos || text.find(from, at + 1) != std::string::npos) {
    throw std::logic_error("'" + from + "' must occur once in the text of the test");
  }
  return text.replace(at, from.size(), to);
}

} // namespace spillway

// Lists of names in messages of failed checks.
template <>
struct doctest::StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
      text += (text.empty() ? "" : ", ") + name;
    }
    return ("[" + text + "]").c_str();
  }
};
