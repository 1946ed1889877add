#include "sim/lower/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace spillway {
namespace fs = std::filesystem;
namespace {

struct KindInfo {
  const char* name;
  const char* folder;
};
constexpr std::array<KindInfo, catalog_kind_count> kind_info{{
    {"model", "workloads/catalog"},
    {"hardware", "hw_models/catalog"},
    {"framework", "workloads/frameworks"},
    {"scenario", "workloads/scenarios"},
    {"trace_format", "results/trace_formats"},
}};
const KindInfo& info(CatalogKind kind) {
  return kind_info[static_cast<std::size_t>(kind)];
}

constexpr int max_extends = 16;

bool looks_like_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml");
}

void remove_key(YamlNode& map, std::string_view key) {
  std::erase_if(map.entries, [&](const YamlEntry& entry) { return entry.key == key; });
}

} // namespace

const char* catalog_kind_name(CatalogKind kind) {
  return info(kind).name;
}

Catalog::Catalog(std::vector<fs::path> roots) : roots_(std::move(roots)) {}

std::vector<std::string> Catalog::names(CatalogKind kind) const {
  std::vector<std::string> names;
  for (const fs::path& root : roots_) {
    std::error_code error;
    for (const fs::directory_entry& entry :
         fs::directory_iterator(root / info(kind).folder, error)) {
      if (entry.path().extension() == ".yaml") {
        names.push_back(entry.path().stem().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

fs::path Catalog::find(CatalogKind kind, const std::string& text, const Place& place) const {
  if (looks_like_path(text)) {
    return text;
  }
  for (const fs::path& root : roots_) {
    const fs::path candidate = root / info(kind).folder / (text + ".yaml");
    std::error_code error;
    if (fs::exists(candidate, error)) {
      return candidate;
    }
  }
  throw InputError({{place, fmt::format("unknown {} '{}'", info(kind).name, text),
                     suggestion(text, names(kind))}});
}

fs::path Catalog::table_folder() const {
  for (const fs::path& root : roots_) {
    std::error_code error;
    if (fs::is_directory(root / "hw_models/tables", error)) {
      return root / "hw_models/tables";
    }
  }
  return roots_.empty() ? fs::path{} : roots_.front() / "hw_models/tables";
}

YamlNode Catalog::load_file(CatalogKind kind, const fs::path& path) const {
  return resolve(kind, load_yaml(path), path.parent_path(), 0);
}

YamlNode Catalog::load(CatalogKind kind, const YamlNode& name_or_map) const {
  // A relative path is relative to the file that says it; one of --set to the
  // working directory.
  fs::path folder;
  const std::shared_ptr<const SourceText>& source = name_or_map.place.source;
  if (source && looks_like_path(source->name)) {
    folder = fs::path(source->name).parent_path();
  }
  if (!name_or_map.is_scalar()) {
    return resolve(kind, name_or_map, folder, 0);
  }
  fs::path path = find(kind, name_or_map.text, name_or_map.place);
  if (looks_like_path(name_or_map.text) && path.is_relative()) {
    path = folder / path;
  }
  return load_file(kind, path);
}

std::vector<fs::path> Catalog::places_of(CatalogKind kind, const std::string& text) const {
  std::vector<fs::path> places;
  std::string next = text;
  fs::path folder;
  for (int depth = 0; depth <= max_extends; ++depth) {
    const fs::path path = looks_like_path(next) ? folder / next : find(kind, next);
    for (const fs::path& root : roots_) {
      const fs::path earlier = root / info(kind).folder / (next + ".yaml");
      if (looks_like_path(next) || earlier == path) {
        break;
      }
      places.push_back(earlier);
    }
    places.push_back(path);
    const YamlNode node = load_yaml(path);
    const YamlNode* extends = node.find("extends");
    if (extends == nullptr) {
      break;
    }
    next = extends->text;
    folder = path.parent_path();
  }
  return places;
}

YamlNode Catalog::resolve(CatalogKind kind, YamlNode node, const fs::path& folder,
                          int depth) const {
  const YamlNode* extends = node.find("extends");
  if (extends == nullptr) {
    return node;
  }
  if (!extends->is_scalar() || extends->text.empty()) {
    throw InputError({{extends->place, "'extends' must be a name or a file", ""}});
  }
  if (depth == max_extends) {
    throw InputError({{extends->place, "'extends' goes round in a circle",
                       "a file cannot extend itself, directly or through others"}});
  }
  // A path is relative to the file that says it.
  const bool relative = looks_like_path(extends->text) && fs::path(extends->text).is_relative();
  const fs::path path =
      relative ? folder / extends->text : find(kind, extends->text, extends->place);
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw InputError({{extends->place, fmt::format("no file '{}' to extend", path.string()), ""}});
  }
  YamlNode base = resolve(kind, load_yaml(path), path.parent_path(), depth + 1);
  remove_key(node, "extends");
  merge_over(base, node);
  return base;
}

} // namespace spillway
