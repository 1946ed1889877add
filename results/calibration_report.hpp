// What a calibration found, as text and as JSON: each fit with its interval and
// residuals, what was dropped and why, and fit against measurement.
#pragma once

#include "hw_models/calibration/calibration.hpp"

#include <string>
#include <vector>

namespace spillway {

// What became of a calibration beside its numbers.
struct CalibrationUse {
  std::vector<std::string> written;    // files
  std::string base;                    // what the hardware file extends; empty: nothing
  std::vector<std::string> from_base;  // coefficients that stay the base's
  std::vector<std::string> replaced;   // lists of kernel tables of the base
  std::vector<std::string> missing;    // what a scenario still needs, without a base
  std::vector<std::string> base_names; // that would supply it
};

[[nodiscard]] std::string calibration_text(const Calibration& calibration,
                                           const CalibrationUse& use);
[[nodiscard]] std::string calibration_json(const Calibration& calibration,
                                           const CalibrationUse& use);

} // namespace spillway
