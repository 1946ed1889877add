#include "results/text_table.hpp"

#include <algorithm>
#include <utility>

namespace spillway {
namespace {

// Width in code points: every cell of ours is one column per code point.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

} // namespace

void TextTable::add(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}
void TextTable::add_rule() {
  rows_.emplace_back();
}

std::string TextTable::render(const std::string& indent) const {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width_of(row[column]));
    }
  }
  std::size_t total = widths.empty() ? 0 : 2 * (widths.size() - 1);
  for (const std::size_t width : widths) {
    total += width;
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    if (row.empty()) {
      text += indent + std::string(total, '-') + '\n';
      continue;
    }
    std::string line = indent;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string pad(widths[column] - width_of(row[column]), ' ');
      line += column == 0 ? "" : "  ";
      const bool left = column < left_columns || (last_column_left && column + 1 == widths.size());
      line += left ? row[column] + pad : pad + row[column];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

} // namespace spillway
