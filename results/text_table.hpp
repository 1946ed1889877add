// A table as a value; rendering is separate from what is in it.
#pragma once

#include <string>
#include <vector>

namespace spillway {

class TextTable {
public:
  // Cells of one row; the first column is left-aligned, the others right.
  void add(std::vector<std::string> cells);
  void add_rule(); // a horizontal line
  // Columns separated by two spaces; no trailing blanks; ends with a newline.
  [[nodiscard]] std::string render(const std::string& indent = {}) const;
  std::size_t left_columns = 1;  // leading columns that are left-aligned
  bool last_column_left = false; // the last one holds text

private:
  std::vector<std::vector<std::string>> rows_; // an empty row is a rule
};

} // namespace spillway
