// Lines of JSON that may hold anything: what the strict reader of records needs beside
// the parser.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace spillway {

struct JsonLine {
  nlohmann::json value;
  std::optional<std::string> repeated; // a key that one object has twice; the last value won
};

// Throws nlohmann::json::exception.
[[nodiscard]] JsonLine parse_json_line(const std::string& line);

// A value in a message, clipped; of a list or map only that it is one, since printing
// it would take as many nested calls as it is deep.
[[nodiscard]] std::string shown(const nlohmann::json& value);

} // namespace spillway
