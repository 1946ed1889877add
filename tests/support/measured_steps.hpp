// The committed measured steps, and the system that they were measured on.
#pragma once

#include "results/profiles.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace spillway {

inline const char* const committed_profiles = "results/reference/h200/profiles.jsonl";

[[nodiscard]] inline std::vector<nlohmann::json> committed_lines() {
  std::vector<nlohmann::json> lines;
  std::ifstream file(committed_profiles);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

struct H200 {
  Device device;
  FrameworkSpec framework;
};

[[nodiscard]] inline H200 h200() {
  const Catalog catalog({"."});
  Diagnostics diagnostics;
  H200 read{read_device(catalog.load_file(CatalogKind::hardware,
                                          catalog.find(CatalogKind::hardware, "h200")),
                        catalog.table_folder(), diagnostics),
            read_framework(catalog.load_file(CatalogKind::framework,
                                             catalog.find(CatalogKind::framework, "jax-scan")),
                           diagnostics)};
  diagnostics.throw_if_any();
  return read;
}

[[nodiscard]] inline const std::vector<ProfileRecord>& measured() {
  static const std::vector<ProfileRecord> records = load_profiles(committed_profiles);
  return records;
}

} // namespace spillway
