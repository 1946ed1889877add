// The figures of the benchmark as a table for people and as JSON for programs.
#pragma once

#include "tests/bench/engine_point.hpp"

#include <optional>
#include <string>
#include <vector>

namespace spillway::bench {

struct Row {
  PointSettings settings;
  EnginePoint engine;
  std::optional<SimgridPoint> simgrid;
  // Time a task over that of the row with a tenth of the tasks; 1 is linear growth.
  std::optional<double> growth;
};

// One line a row, as it comes; the heading explains the columns.
[[nodiscard]] std::string heading();
[[nodiscard]] std::string line_of(const Row& row);

[[nodiscard]] std::string json_of(const std::vector<Row>& rows);

} // namespace spillway::bench
