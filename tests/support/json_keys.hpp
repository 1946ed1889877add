// The keys of a JSON object, in their order.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace spillway {

[[nodiscard]] inline std::vector<std::string> keys_of(const nlohmann::ordered_json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  return keys;
}

} // namespace spillway
