#include "sim/base/source_text.hpp"

#include "sim/base/input_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace spillway {

namespace {

[[noreturn]] void refuse_at(SourceText source, std::size_t column, std::string message) {
  const auto line = static_cast<int>(source.lines.size());
  throw InputError({Diagnostic{
      Place{std::make_shared<const SourceText>(std::move(source)), line, static_cast<int>(column)},
      std::move(message),
      {}}});
}

struct CodePoint {
  std::size_t length = 0; // 0: malformed, overlong, a surrogate or beyond U+10FFFF
  char32_t value = 0;
};

[[nodiscard]] CodePoint decode_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80U) {
    return {1, lead};
  }
  const std::size_t length = lead >= 0xF0U ? 4 : lead >= 0xE0U ? 3 : 2;
  if (lead < 0xC0U || lead >= 0xF8U || length > text.size() - at) {
    return {};
  }
  char32_t value = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0U) != 0x80U) {
      return {};
    }
    value = (value << 6U) | (next & 0x3FU);
  }
  constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  const bool valid = value >= least[length] && !surrogate && value <= 0x10FFFF;
  return valid ? CodePoint{length, value} : CodePoint{};
}

[[nodiscard]] bool is_control(char32_t value) {
  return (value < 0x20 && value != '\t' && value != '\n') || (value >= 0x7F && value < 0xA0);
}

// What is wrong at this place; empty when nothing is.
[[nodiscard]] std::string mistake_of(const CodePoint& point) {
  if (point.length == 0) {
    return "not valid UTF-8";
  }
  if (point.value == 0) {
    return "NUL byte";
  }
  return is_control(point.value)
             ? fmt::format("control character U+{:04X}", static_cast<std::uint32_t>(point.value))
             : std::string();
}

void check_last_line(const SourceText& source) {
  const std::string& line = source.lines.back();
  if (source.lines.size() > most_lines) {
    refuse_at(source, 1, fmt::format("more than {} lines", most_lines));
  }
  if (line.size() > most_line_bytes) {
    refuse_at(source, 1, fmt::format("a line longer than {} KiB", most_line_bytes >> 10U));
  }
  std::size_t column = 1;
  for (std::size_t at = 0; at < line.size(); ++column) {
    const CodePoint point = decode_at(line, at);
    if (std::string mistake = mistake_of(point); !mistake.empty()) {
      refuse_at(source, column, std::move(mistake));
    }
    at += point.length;
  }
}

} // namespace

std::shared_ptr<const SourceText> make_source(std::string_view text, const std::string& name,
                                              std::size_t most_bytes) {
  if (text.size() > most_bytes) {
    refuse_larger(name, most_bytes);
  }
  SourceText source{name, {}};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (end != std::string_view::npos && line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    source.lines.emplace_back(line);
    check_last_line(source);
  }
  return std::make_shared<const SourceText>(std::move(source));
}

std::optional<char32_t> find_control_character(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_at(text, at);
    if (is_control(point.value)) {
      return point.value;
    }
    at += std::max<std::size_t>(point.length, 1);
  }
  return std::nullopt;
}

std::string printable(std::string_view text, std::size_t most_columns) {
  constexpr std::string_view dots = "...";
  std::string out;
  std::size_t before_dots = 0; // bytes of `out`
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size(); ++columns) {
    if (columns == most_columns) {
      out.resize(before_dots);
      return out.append(dots);
    }
    if (columns + dots.size() == most_columns) {
      before_dots = out.size();
    }
    const CodePoint point = decode_at(text, at);
    if (point.length == 0) {
      out += "\uFFFD";
    } else if (is_control(point.value) || point.value == '\t' || point.value == '\n') {
      out += ' ';
    } else {
      out += text.substr(at, point.length);
    }
    at += std::max<std::size_t>(point.length, 1);
  }
  return out;
}

bool is_plain_line(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_at(text, at);
    if (point.length == 0 || point.value == '\t' || point.value == '\n' ||
        is_control(point.value)) {
      return false;
    }
    at += point.length;
  }
  return true;
}

} // namespace spillway
