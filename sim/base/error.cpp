#include "sim/base/error.hpp"

#include "sim/base/source_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace spillway {

namespace {

constexpr std::size_t most_shown = 20;            // diagnostics of one InputError
constexpr std::size_t most_found = 1000;          // diagnostics that are collected
constexpr std::size_t most_candidates = 1000;     // that a wrong name is compared with
constexpr std::size_t most_names = 12;            // names of one suggestion
constexpr std::size_t most_columns = 160;         // of a source line
constexpr std::size_t most_message_columns = 500; // a key can be as long as a file

// Every UTF-8 byte but a continuation byte.
[[nodiscard]] bool starts_code_point(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

// Columns `first` to `first + count - 1`, counted from 1.
[[nodiscard]] std::string columns_of(std::string_view text, std::size_t first, std::size_t count) {
  std::string taken;
  std::size_t column = 0;
  for (const char byte : text) {
    column += starts_code_point(byte) ? 1U : 0U;
    if (column >= first + count) {
      break;
    }
    if (column >= first) {
      taken += byte;
    }
  }
  return taken;
}

struct Excerpt {
  std::string text;
  std::size_t caret = 1; // column in `text`
};

[[nodiscard]] Excerpt make_excerpt(const std::string& line, std::size_t column) {
  const std::size_t columns = count_columns(line);
  column = std::clamp<std::size_t>(column, 1, columns + 1);
  if (columns <= most_columns) {
    return {printable(line), column};
  }
  const std::size_t before = std::min(column - 1, most_columns / 2);
  const std::size_t first = std::min(column - before, columns - most_columns + 1);
  const bool cut_left = first > 1;
  const bool cut_right = first + most_columns <= columns;
  std::string text = cut_left ? "..." : "";
  text += columns_of(line, first + (cut_left ? 3 : 0),
                     most_columns - (cut_left ? 3 : 0) - (cut_right ? 3 : 0));
  text += cut_right ? "..." : "";
  return {printable(text), column - first + 1};
}

[[nodiscard]] std::string header_of(const Place& place) {
  if (!place.source) {
    return "error: ";
  }
  const std::string& name = place.source->name;
  if (place.line <= 0) {
    return fmt::format("{}: error: ", name);
  }
  return fmt::format("{}:{}:{}: error: ", name, place.line, place.column);
}

[[nodiscard]] std::string join_formatted(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  const std::size_t shown = std::min(diagnostics.size(), most_shown);
  for (std::size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? "" : "\n") + format_diagnostic(diagnostics[i]);
  }
  const std::size_t more = diagnostics.size() - shown;
  if (more > 0) {
    text +=
        fmt::format("\n... and {}{} more error{}",
                    diagnostics.size() < most_found ? "" : "at least ", more, more == 1 ? "" : "s");
  }
  return text;
}

[[nodiscard]] std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') {
      letter = static_cast<char>(letter - 'A' + 'a');
    }
  }
  return lower;
}

// Insertions, deletions, substitutions and swaps of neighbours that turn `a`
// into `b`; no letter is touched twice.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

} // namespace

std::size_t count_columns(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), starts_code_point));
}

std::string place_text(const Place& place) {
  return place.source ? fmt::format("{}:{}", place.source->name, place.line) : std::string();
}

std::string format_diagnostic(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  const std::string hint = printable(diagnostic.hint, most_message_columns);
  std::string text = header_of(place) + printable(diagnostic.message, most_message_columns);
  const bool has_line = place.source && place.line > 0 &&
                        static_cast<std::size_t>(place.line) <= place.source->lines.size();
  if (!has_line) {
    return hint.empty() ? text : fmt::format("{}\n      {}", text, hint);
  }
  const auto column = static_cast<std::size_t>(std::max(place.column, 1));
  const std::string& line = place.source->lines[static_cast<std::size_t>(place.line) - 1];
  const Excerpt excerpt = make_excerpt(line, column);
  const std::string gutter = fmt::format("{:5d} ", place.line);
  text += fmt::format("\n{}| {}\n{:{}}| {:>{}}", gutter, excerpt.text, "", gutter.size(), "^",
                      excerpt.caret);
  return hint.empty() ? text : fmt::format("{} {}", text, hint);
}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join_formatted(diagnostics)), diagnostics_(std::move(diagnostics)) {}

InputError::InputError(const std::string& message, const std::string& hint)
    : InputError(std::vector<Diagnostic>{{Place{}, message, hint}}) {}

void Diagnostics::add(Place place, std::string message, std::string hint) {
  add(Diagnostic{std::move(place), std::move(message), std::move(hint)});
}

void Diagnostics::add_missing(Place place, std::string key) {
  add(Diagnostic{std::move(place), "missing key " + key, {}, std::move(key)});
}

void Diagnostics::add(Diagnostic diagnostic) {
  found_.push_back(std::move(diagnostic));
  if (found_.size() == most_found) {
    throw_if_any();
  }
}

void Diagnostics::sort_by_place() {
  std::ranges::stable_sort(found_, {}, [](const Diagnostic& diagnostic) {
    return std::pair(diagnostic.place.line, diagnostic.place.column);
  });
}

void Diagnostics::throw_if_any() {
  if (!found_.empty()) {
    throw InputError(std::exchange(found_, {}));
  }
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const std::string lower = lower_case(name);
  std::size_t limit = std::max<std::size_t>(1, name.size() / 3);
  std::string nearest;
  for (const std::string& candidate :
       candidates.first(std::min(candidates.size(), most_candidates))) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (longer - shorter > limit) {
      continue; // also keeps a key as long as a file from being compared
    }
    const std::size_t distance = edit_distance(lower, lower_case(candidate));
    // Where nothing is left of the name, nothing speaks for a slip.
    if (distance <= limit && distance < longer) {
      nearest = candidate;
      if (distance == 0) {
        break;
      }
      limit = distance - 1; // ties: the first
    }
  }
  return nearest;
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(name, candidates);
  if (!nearest.empty()) {
    return fmt::format("did you mean '{}'?", nearest);
  }
  if (candidates.empty()) {
    return {};
  }
  const auto shown = candidates.first(std::min(candidates.size(), most_names));
  return fmt::format("known: {}{}", fmt::join(shown, ", "),
                     shown.size() < candidates.size() ? ", ..." : "");
}

} // namespace spillway
