// JSON and CSV of results; both walk the field table.
#pragma once

#include "results/run_result.hpp"

#include <string>
#include <vector>

namespace spillway {

// Key order is the field table's.
[[nodiscard]] std::string run_json(const RunResult& result);
[[nodiscard]] std::string compare_json(const std::vector<RunResult>& results);

// One row per result. A map becomes one column per key ("time.forward_s"), a
// list is left out. `settings`: leading columns, by name, the same for all rows.
struct CsvRow {
  std::vector<std::pair<std::string, std::string>> settings;
  const RunResult* result = nullptr;
};
[[nodiscard]] std::string results_csv(const std::vector<CsvRow>& rows);

// Writes all of `text` or throws InputError and leaves what was there before:
// the file is written beside its final name and then renamed. "-" is stdout.
void write_output(const std::string& path, const std::string& text);

} // namespace spillway
