// A calibration as the YAML text of a hardware file, and of its kernel tables.
#pragma once

#include "hw_models/calibration/calibration.hpp"

#include <string>
#include <vector>

namespace spillway {

struct HardwareFile {
  std::string name;
  std::string title;
  std::string extends;            // as the file says it; empty: nothing
  std::string source_tag = "own"; // must not be one of the file that is extended
  std::string source_title;
  // Where the tables are, as the file says it, one per table of the calibration;
  // empty: they stand in the file itself.
  std::vector<std::string> table_files;
};

[[nodiscard]] std::string hardware_yaml(const Calibration& calibration, const HardwareFile& file);
[[nodiscard]] std::string table_yaml(const Calibration& calibration, const MeasuredTable& table,
                                     const std::string& source_title);

} // namespace spillway
