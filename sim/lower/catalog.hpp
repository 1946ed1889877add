// Where models, hardware, frameworks, scenarios and trace formats are found by name.
#pragma once

#include "sim/base/yaml.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace spillway {

enum class CatalogKind : std::uint8_t { model, hardware, framework, scenario, trace_format };
inline constexpr std::size_t catalog_kind_count = 5;
[[nodiscard]] const char* catalog_kind_name(CatalogKind kind);

class Catalog {
public:
  // Folders laid out like the source tree; earlier ones win.
  explicit Catalog(std::vector<std::filesystem::path> roots);

  [[nodiscard]] std::vector<std::string> names(CatalogKind kind) const; // sorted, unique
  // A file of that name or, if `text` looks like a path, that path. Throws
  // InputError at `place` with the nearest known name.
  [[nodiscard]] std::filesystem::path find(CatalogKind kind, const std::string& text,
                                           const Place& place = {}) const;
  // Loads a named file, or a map with `extends`: the named file with the map's
  // other keys laid over it. Follows `extends` inside files as well.
  [[nodiscard]] YamlNode load(CatalogKind kind, const YamlNode& name_or_map) const;
  [[nodiscard]] YamlNode load_file(CatalogKind kind, const std::filesystem::path& path) const;
  // What loading `text` reads, the file itself and what it extends, and places without
  // a file where one would be read instead: those of a name in earlier roots. The
  // files must load.
  [[nodiscard]] std::vector<std::filesystem::path> places_of(CatalogKind kind,
                                                             const std::string& text) const;
  // The kernel tables of the first root that has any.
  [[nodiscard]] std::filesystem::path table_folder() const;

private:
  [[nodiscard]] YamlNode resolve(CatalogKind kind, YamlNode node,
                                 const std::filesystem::path& folder, int depth) const;
  std::vector<std::filesystem::path> roots_;
};

} // namespace spillway
