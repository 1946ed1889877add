// Committed hardware files, changed for a test, and what is reported about them.
#pragma once

#include "hw_models/device.hpp"
#include "sim/lower/catalog.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

inline const Catalog& catalog() {
  static const Catalog own({"."});
  return own;
}

inline YamlNode hardware_file(const std::string& name) {
  return catalog().load_file(CatalogKind::hardware, catalog().find(CatalogKind::hardware, name));
}

inline Device read(const YamlNode& node, Diagnostics& diagnostics) {
  return read_device(node, catalog().table_folder(), diagnostics);
}

// The first committed file with changes, in the way of --set.
inline YamlNode changed(const std::vector<std::string>& assignments) {
  YamlNode node = hardware_file(catalog().names(CatalogKind::hardware).front());
  for (const std::string& assignment : assignments) {
    set_path(node, assignment);
  }
  return node;
}

// Reported messages and hints, without places.
inline std::string complaints(const std::vector<std::string>& assignments) {
  Diagnostics diagnostics;
  static_cast<void>(read(changed(assignments), diagnostics));
  std::string all;
  try {
    diagnostics.throw_if_any();
  } catch (const InputError& error) {
    for (const Diagnostic& found : error.diagnostics()) {
      all += (all.empty() ? "" : "\n") + found.message +
             (found.hint.empty() ? "" : " | " + found.hint);
    }
  }
  return all;
}

inline void remove(YamlNode& map, std::string_view key) {
  std::erase_if(map.entries, [&](const YamlEntry& entry) { return entry.key == key; });
}

inline YamlNode& entry_of(YamlNode& map, std::string_view key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                  [&](const YamlEntry& entry) { return entry.key == key; });
  REQUIRE(found != map.entries.end());
  return found->value;
}

} // namespace spillway
