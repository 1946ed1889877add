// Lines of JSON that may hold anything: what the strict readers of records need beside
// the parser.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <stdexcept>
#include <string>

namespace spillway {

struct JsonLine {
  nlohmann::json value;
  std::optional<std::string> repeated; // a key that one object has twice; the last value won
};

// What is wrong with a line as a whole: it is no JSON, or nested too deeply.
class JsonLineError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws JsonLineError.
[[nodiscard]] JsonLine parse_json_line(const std::string& line);

// Whether a list or object that starts there is one level more than any file may have;
// both as the parser tells its callback.
[[nodiscard]] bool starts_too_deep(int depth, nlohmann::json::parse_event_t event);

// A value in a message, clipped; of a list or map only that it is one, since printing
// it would take as many nested calls as it is deep.
[[nodiscard]] std::string shown(const nlohmann::json& value);

} // namespace spillway
