// YAML trees and places as text.
#pragma once

#include "sim/base/yaml.hpp"

#include <string>

namespace spillway {

// The tree in one line of YAML flow style, quoted texts in double quotes.
[[nodiscard]] inline std::string flow(const YamlNode& node) {
  std::string text;
  switch (node.kind) {
  case YamlNode::Kind::null: return "null";
  case YamlNode::Kind::scalar: return node.quoted ? "\"" + node.text + "\"" : node.text;
  case YamlNode::Kind::sequence:
    for (const YamlNode& item : node.items) {
      text += (text.empty() ? "" : ", ") + flow(item);
    }
    return "[" + text + "]";
  case YamlNode::Kind::map:
    for (const YamlEntry& entry : node.entries) {
      text += (text.empty() ? "" : ", ") + entry.key + ": " + flow(entry.value);
    }
    return "{" + text + "}";
  }
  return text;
}

[[nodiscard]] inline std::string position_text(const Place& place) {
  return place.source->name + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

[[nodiscard]] inline std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

} // namespace spillway
