#include "sim/base/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>
#include <utility>

namespace spillway {

namespace {

// What stands there, for "must be an integer, not ...".
[[nodiscard]] std::string describe(const YamlNode& node) {
  switch (node.kind) {
  case YamlNode::Kind::null: return "empty";
  case YamlNode::Kind::sequence: return "a list";
  case YamlNode::Kind::map: return "a map";
  case YamlNode::Kind::scalar: break;
  }
  return node.quoted ? "quoted text" : fmt::format("'{}'", node.text);
}

void add_wrong_kind(const YamlNode& node, std::string_view what, std::string_view wanted,
                    Diagnostics& diagnostics, std::string hint = {}) {
  diagnostics.add(node.place, fmt::format("'{}' must be {}, not {}", what, wanted, describe(node)),
                  std::move(hint));
}

// Numbers and booleans are plain words: "1" in quotes is text.
[[nodiscard]] bool is_plain_word(const YamlNode& node, std::string_view what,
                                 std::string_view wanted, Diagnostics& diagnostics) {
  if (node.is_scalar() && !node.quoted) {
    return true;
  }
  add_wrong_kind(node, what, wanted, diagnostics, node.is_scalar() ? "remove the quotes" : "");
  return false;
}

[[nodiscard]] bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

[[nodiscard]] std::string_view without_sign(std::string_view text) {
  return text.starts_with('-') ? text.substr(1) : text;
}

// 010 is eight to some YAML readers and ten to others, so it is neither here.
[[nodiscard]] bool has_leading_zero(std::string_view text) {
  const std::string_view digits = without_sign(text);
  return digits.size() > 1 && digits[0] == '0' && is_digit(digits[1]);
}

[[nodiscard]] std::string number_hint(std::string_view text) {
  return has_leading_zero(text) ? "remove the leading zeros" : "";
}

[[nodiscard]] bool is_integer_text(std::string_view text) {
  const std::string_view digits = without_sign(text);
  return !digits.empty() && std::all_of(digits.begin(), digits.end(), is_digit) &&
         !has_leading_zero(text);
}

// The bounds of a range in words; a bound that is missing is empty.
[[nodiscard]] std::string range_text(const std::string& min, bool min_excluded,
                                     const std::string& max) {
  if (min.empty()) {
    return fmt::format("at most {}", max);
  }
  const std::string low = fmt::format("{} {}", min_excluded ? "greater than" : "at least", min);
  if (max.empty()) {
    return low;
  }
  return min_excluded ? fmt::format("{} and at most {}", low, max)
                      : fmt::format("between {} and {}", min, max);
}

void add_out_of_range(const YamlNode& node, std::string_view what, const std::string& range,
                      Diagnostics& diagnostics) {
  diagnostics.add(node.place, fmt::format("'{}' must be {}, not {}", what, range, node.text));
}

// Whether `value` is in `range`; reports it if not. `show` writes a bound.
template <class Show>
[[nodiscard]] bool check_range(const YamlNode& node, double value, RealRange range,
                               std::string_view what, Diagnostics& diagnostics, Show show) {
  const bool above = range.min_excluded ? value > range.min : value >= range.min;
  if (above && value <= range.max) {
    return true;
  }
  constexpr RealRange all;
  add_out_of_range(node, what,
                   range_text(range.min == all.min ? "" : show(range.min), range.min_excluded,
                              range.max == all.max ? "" : show(range.max)),
                   diagnostics);
  return false;
}

[[nodiscard]] std::string format_quantity(double value, Dimension dimension) {
  switch (dimension) {
  case Dimension::bytes: return format_bytes(value);
  case Dimension::byte_rate: return format_byte_rate(value);
  case Dimension::flop_rate: return format_flop_rate(value);
  case Dimension::seconds: return format_seconds(value);
  }
  return {};
}

// What a reader goes on with after a mistake: 1 where the range allows it, so
// that nobody divides by zero.
[[nodiscard]] double fallback_in(RealRange range) {
  return range.min > range.max ? 1.0 : std::clamp(1.0, range.min, range.max);
}

} // namespace

std::optional<std::int64_t> read_integer(const YamlNode& node, IntegerRange range,
                                         std::string_view what, Diagnostics& diagnostics) {
  if (!is_plain_word(node, what, "an integer", diagnostics)) {
    return std::nullopt;
  }
  const std::string& text = node.text;
  if (!is_integer_text(text)) {
    add_wrong_kind(node, what, "an integer", diagnostics, number_hint(text));
    return std::nullopt;
  }
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{}) {
    diagnostics.add(node.place, fmt::format("'{}' does not fit in 64 bits: {}", what, text));
    return std::nullopt;
  }
  if (value < range.min || value > range.max) {
    constexpr IntegerRange all;
    add_out_of_range(node, what,
                     range_text(range.min == all.min ? "" : fmt::to_string(range.min), false,
                                range.max == all.max ? "" : fmt::to_string(range.max)),
                     diagnostics);
    return std::nullopt;
  }
  return value;
}

std::optional<double> read_number(const YamlNode& node, RealRange range, std::string_view what,
                                  Diagnostics& diagnostics) {
  if (!is_plain_word(node, what, "a number", diagnostics)) {
    return std::nullopt;
  }
  const std::string& text = node.text;
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto read = std::from_chars(text.data(), end, value);
  const bool only_digits = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (read.ptr != end || !only_digits || has_leading_zero(text)) {
    add_wrong_kind(node, what, "a number", diagnostics, number_hint(text));
    return std::nullopt;
  }
  if (read.ec != std::errc{}) {
    diagnostics.add(node.place, fmt::format("'{}' does not fit in a double: {}", what, text));
    return std::nullopt;
  }
  const auto show = [](double bound) { return fmt::format("{}", bound); };
  if (!check_range(node, value, range, what, diagnostics, show)) {
    return std::nullopt;
  }
  return value == 0 ? 0 : value; // -0 would print as such
}

std::optional<double> read_quantity(const YamlNode& node, Dimension dimension, RealRange range,
                                    std::string_view what, Diagnostics& diagnostics) {
  if (!node.is_scalar()) {
    add_wrong_kind(node, what, "a number with a unit", diagnostics);
    return std::nullopt;
  }
  ParsedQuantity parsed = parse_quantity(node.text, dimension, fmt::format("'{}'", what));
  if (!parsed.error.empty()) {
    diagnostics.add(node.place, std::move(parsed.error), std::move(parsed.hint));
    return std::nullopt;
  }
  const auto show = [dimension](double bound) { return format_quantity(bound, dimension); };
  if (!check_range(node, parsed.value, range, what, diagnostics, show)) {
    return std::nullopt;
  }
  return parsed.value;
}

MapReader::MapReader(const YamlNode& node, std::string what, Diagnostics& diagnostics)
    : node_(&node), what_(std::move(what)), diagnostics_(&diagnostics) {
  if (!node.is_map()) {
    add_wrong_kind(node, what_, "a map", diagnostics);
  }
}

const YamlNode* MapReader::look_up(std::string_view key, bool required) {
  read_.emplace(key);
  const YamlNode* const found = node_->find(key);
  if (found == nullptr && required && node_->is_map()) {
    diagnostics_->add_missing(node_->place, fmt::format("'{}' in '{}'", key, what_));
  }
  return found;
}

bool MapReader::has(std::string_view key) const {
  asked_.emplace(key);
  return node_->find(key) != nullptr;
}

const YamlNode* MapReader::child(std::string_view key) {
  return look_up(key, false);
}

const YamlNode* MapReader::required_child(std::string_view key) {
  return look_up(key, true);
}

std::optional<std::string> MapReader::read_text(std::string_view key, bool required) {
  const YamlNode* const node = look_up(key, required);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (!node->is_scalar()) {
    add_wrong_kind(*node, key, "text", *diagnostics_);
    return std::nullopt;
  }
  return node->text;
}

std::string MapReader::text(std::string_view key) {
  return read_text(key, true).value_or(std::string());
}

std::string MapReader::text_or(std::string_view key, std::string fallback) {
  return read_text(key, false).value_or(std::move(fallback));
}

std::int64_t MapReader::integer(std::string_view key, IntegerRange range) {
  const std::int64_t fallback =
      range.min > range.max ? 1 : std::clamp<std::int64_t>(1, range.min, range.max);
  const YamlNode* const node = look_up(key, true);
  return node ? read_integer(*node, range, key, *diagnostics_).value_or(fallback) : fallback;
}

std::int64_t MapReader::integer_or(std::string_view key, IntegerRange range,
                                   std::int64_t fallback) {
  const YamlNode* const node = look_up(key, false);
  return node ? read_integer(*node, range, key, *diagnostics_).value_or(fallback) : fallback;
}

double MapReader::number(std::string_view key, RealRange range) {
  const double fallback = fallback_in(range);
  const YamlNode* const node = look_up(key, true);
  return node ? read_number(*node, range, key, *diagnostics_).value_or(fallback) : fallback;
}

double MapReader::number_or(std::string_view key, RealRange range, double fallback) {
  const YamlNode* const node = look_up(key, false);
  return node ? read_number(*node, range, key, *diagnostics_).value_or(fallback) : fallback;
}

bool MapReader::boolean_or(std::string_view key, bool fallback) {
  constexpr std::string_view wanted = "true or false";
  const YamlNode* const node = look_up(key, false);
  if (node == nullptr || !is_plain_word(*node, key, wanted, *diagnostics_)) {
    return fallback;
  }
  if (node->text != "true" && node->text != "false") {
    add_wrong_kind(*node, key, wanted, *diagnostics_);
    return fallback;
  }
  return node->text == "true";
}

double MapReader::quantity(std::string_view key, Dimension dimension, RealRange range) {
  const double fallback = fallback_in(range);
  const YamlNode* const node = look_up(key, true);
  return node ? read_quantity(*node, dimension, range, key, *diagnostics_).value_or(fallback)
              : fallback;
}

double MapReader::quantity_or(std::string_view key, Dimension dimension, RealRange range,
                              double fallback) {
  const YamlNode* const node = look_up(key, false);
  return node ? read_quantity(*node, dimension, range, key, *diagnostics_).value_or(fallback)
              : fallback;
}

std::vector<std::string> MapReader::text_list_or_empty(std::string_view key) {
  std::vector<std::string> texts;
  const YamlNode* const node = look_up(key, false);
  if (node == nullptr) {
    return texts;
  }
  if (!node->is_sequence()) {
    add_wrong_kind(*node, key, "a list", *diagnostics_,
                   node->is_scalar() ? fmt::format("write [{}]", node->text) : "");
    return texts;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    const YamlNode& item = node->items[i];
    if (item.is_scalar()) {
      texts.push_back(item.text);
    } else {
      add_wrong_kind(item, fmt::format("{}[{}]", key, i), "text", *diagnostics_);
    }
  }
  return texts;
}

std::size_t MapReader::read_choice(std::string_view key, std::span<const std::string> names,
                                   bool required, std::size_t fallback) {
  const YamlNode* const node = look_up(key, required);
  if (node == nullptr) {
    return fallback;
  }
  if (!node->is_scalar()) {
    add_wrong_kind(*node, key, "a word", *diagnostics_, suggestion("", names));
    return fallback;
  }
  const auto found = std::find(names.begin(), names.end(), node->text);
  if (found == names.end()) {
    diagnostics_->add(node->place, fmt::format("unknown value '{}' for '{}'", node->text, key),
                      suggestion(node->text, names));
    return fallback;
  }
  return static_cast<std::size_t>(found - names.begin());
}

std::size_t MapReader::choice(std::string_view key, std::span<const std::string> names) {
  return read_choice(key, names, true, 0);
}

std::size_t MapReader::choice_or(std::string_view key, std::span<const std::string> names,
                                 std::size_t fallback) {
  return read_choice(key, names, false, fallback);
}

void MapReader::accept(std::string_view key) {
  read_.emplace(key);
}

void MapReader::finish() {
  std::set<std::string, std::less<>> names = read_;
  names.insert(asked_.begin(), asked_.end());
  const std::vector<std::string> known(names.begin(), names.end());
  for (const YamlEntry& entry : node_->entries) {
    if (read_.count(entry.key) == 0) {
      diagnostics_->add(entry.key_place, fmt::format("unknown key '{}' in '{}'", entry.key, what_),
                        suggestion(entry.key, known));
    }
  }
}

Place MapReader::place_of(std::string_view key) const {
  const auto found = std::find_if(node_->entries.begin(), node_->entries.end(),
                                  [&](const YamlEntry& entry) { return entry.key == key; });
  return found == node_->entries.end() ? node_->place : found->key_place;
}

void MapReader::error(std::string_view key, std::string message, std::string hint) {
  const YamlNode* const node = node_->find(key);
  diagnostics_->add(node ? node->place : node_->place, std::move(message), std::move(hint));
}

} // namespace spillway
