// JSON and CSV of results; both walk the field table.
#pragma once

#include "results/run_result.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace spillway {

// Key order is the field table's.
[[nodiscard]] std::string run_json(const RunResult& result);

// A result and the settings under which it was found, path and value; none when
// nothing was varied.
struct ResultRow {
  std::vector<std::pair<std::string, std::string>> settings;
  RunResult result;
};

// Settings come first in each object, as `settings`, where there are any.
[[nodiscard]] std::string compare_json(const std::vector<ResultRow>& rows);

// One row per result. A map becomes one column per key ("time.forward_s"), a
// list is left out; settings are leading columns, the same for all rows.
[[nodiscard]] std::string results_csv(const std::vector<ResultRow>& rows);

// A cell of a CSV row, quoted where it must be.
[[nodiscard]] std::string csv_cell(const std::string& cell);

// Writes all of `text` or throws InputError and leaves what was there before:
// the file is written beside its final name and then renamed. "-" is stdout. Where the
// path is a symbolic link, what it points to is written.
void write_output(const std::string& path, const std::string& text);

// The same for files that belong together: all are written beside their final names
// before the first one is renamed, in the order given. With "-" as the last one, nothing
// is renamed where that cannot be printed.
struct OutputFile {
  std::string path;
  std::string text;
};
void write_outputs(const std::vector<OutputFile>& files);

// Throws InputError when writing `output` would replace one of `inputs`, whatever
// links lead to it; asked before there is anything to write. Standard output ("-") and
// an empty name replace nothing.
void check_output_is_no_input(const std::string& output,
                              const std::vector<std::filesystem::path>& inputs);

// Where a file of that name is written: behind symbolic links, even if nothing is there.
[[nodiscard]] std::filesystem::path written_path(std::filesystem::path path);

} // namespace spillway
