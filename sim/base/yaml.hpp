// Strict YAML: the only door through which files enter the program.
//
// A file is parsed once into a tree of YamlNode values that remember where each
// key and value stood. `extends` and `--set` are operations on such trees; the
// typed reading is done by MapReader, which reports every mistake it meets and
// goes on, so that one run shows several errors.
//
// Refused on loading: duplicate keys, anchors and aliases, tags, several
// documents, nesting beyond 64 levels, files above their limit, NUL bytes and other
// control characters, invalid UTF-8, directories, FIFOs and other things that are
// not regular files, an empty document. A number written 010 is refused too.
#pragma once

#include "sim/base/error.hpp"
#include "sim/base/input_file.hpp"
#include "sim/base/units.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };

  Kind kind = Kind::null;
  std::string text;    // scalar only
  bool quoted = false; // scalar only: "1" is text, 1 is a number
  Place place; // of the value; a block map or list stands at its key, the outermost at line 0
  std::vector<YamlNode> items;    // sequence only
  std::vector<YamlEntry> entries; // map only, in file order

  [[nodiscard]] const YamlNode* find(
      std::string_view key) const; // nullptr when absent or not a map
  [[nodiscard]] bool is_map() const { return kind == Kind::map; }
  [[nodiscard]] bool is_scalar() const { return kind == Kind::scalar; }
  [[nodiscard]] bool is_sequence() const { return kind == Kind::sequence; }
};

struct YamlEntry {
  std::string key;
  Place key_place;
  YamlNode value;
};

// Both throw InputError. `name` is what messages call the text.
[[nodiscard]] YamlNode load_yaml(const std::filesystem::path& path,
                                 std::size_t most_bytes = most_yaml_bytes);
[[nodiscard]] YamlNode parse_yaml(const std::string& text, const std::string& name,
                                  std::size_t most_bytes = most_yaml_bytes);

// Lays `over` over `base`: maps are merged key by key, anything else replaces.
// Places stay those of the file that said the value; a merged map has those of
// `over`. The order is that of `base`; keys that only `over` has come last.
void merge_over(YamlNode& base, const YamlNode& over);

// Applies one `--set path=value`; `assignment` is the whole text after --set.
// The path descends through map keys separated by dots and creates maps that
// are missing; the value is YAML ("2", "180 GB", "{a: 1}"). A scalar on the way
// to a deeper key becomes {extends: scalar}, so that
// `hardware.host_link.d2h=64 GB/s` refines the named hardware. Throws InputError
// that points into the assignment.
void set_path(YamlNode& root, const std::string& assignment);

struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};
struct RealRange {
  double min = -std::numeric_limits<double>::max();
  double max = std::numeric_limits<double>::max();
  bool min_excluded = false;
};

// Reads one map. Each key is asked for once; finish() reports the keys that
// nobody asked for. A wrong or missing value adds a diagnostic and yields a
// harmless fallback, so the caller simply reads on and checks at the end.
class MapReader {
public:
  // `what` names the map in messages: "scenario", "batch". A node that is not a
  // map is reported here and then reads as an empty map without further noise.
  MapReader(const YamlNode& node, std::string what, Diagnostics& diagnostics);

  [[nodiscard]] bool has(std::string_view key) const;                 // does not mark it as read
  [[nodiscard]] const YamlNode* child(std::string_view key);          // nullptr when absent
  [[nodiscard]] const YamlNode* required_child(std::string_view key); // nullptr after reporting

  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string text_or(std::string_view key, std::string fallback);
  [[nodiscard]] std::int64_t integer(std::string_view key, IntegerRange range);
  [[nodiscard]] std::int64_t integer_or(std::string_view key, IntegerRange range,
                                        std::int64_t fallback);
  [[nodiscard]] double number(std::string_view key, RealRange range); // dimensionless
  [[nodiscard]] double number_or(std::string_view key, RealRange range, double fallback);
  [[nodiscard]] bool boolean_or(std::string_view key, bool fallback);
  [[nodiscard]] double quantity(std::string_view key, Dimension dimension, RealRange range);
  [[nodiscard]] double quantity_or(std::string_view key, Dimension dimension, RealRange range,
                                   double fallback);
  [[nodiscard]] std::vector<std::string> text_list_or_empty(std::string_view key);
  // Index into `names`; an unknown word is reported with the nearest one.
  [[nodiscard]] std::size_t choice(std::string_view key, std::span<const std::string> names);
  [[nodiscard]] std::size_t choice_or(std::string_view key, std::span<const std::string> names,
                                      std::size_t fallback);

  // Marks keys as read without looking at them (a map whose keys are data).
  void accept(std::string_view key);
  void finish(); // reports unknown keys, each with the nearest known one

  [[nodiscard]] Place place_of(std::string_view key) const; // the key's place, or the map's
  [[nodiscard]] const std::string& what() const { return what_; }
  // Points at the key's value, or at the map.
  void error(std::string_view key, std::string message, std::string hint = {});

private:
  const YamlNode* look_up(std::string_view key, bool required); // marks it as read
  std::optional<std::string> read_text(std::string_view key, bool required);
  std::size_t read_choice(std::string_view key, std::span<const std::string> names, bool required,
                          std::size_t fallback);

  const YamlNode* node_;
  std::string what_;
  Diagnostics* diagnostics_;
  std::set<std::string, std::less<>> read_;
  mutable std::set<std::string, std::less<>> asked_; // by has(): known, but not yet read
};

// Single values, for sequences and maps whose keys are data. Same rules.
[[nodiscard]] std::optional<std::int64_t> read_integer(const YamlNode& node, IntegerRange range,
                                                       std::string_view what,
                                                       Diagnostics& diagnostics);
[[nodiscard]] std::optional<double> read_number(const YamlNode& node, RealRange range,
                                                std::string_view what, Diagnostics& diagnostics);
[[nodiscard]] std::optional<double> read_quantity(const YamlNode& node, Dimension dimension,
                                                  RealRange range, std::string_view what,
                                                  Diagnostics& diagnostics);

} // namespace spillway
