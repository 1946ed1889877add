// The memory that a step of a program takes and gives back, as text.
#pragma once

#include "sim/lower/program.hpp"

#include <string>
#include <vector>

namespace spillway {

// "+32 workspace -16 saved_activations"
[[nodiscard]] inline std::string memory(const ProgramStep& step) {
  std::string text;
  const auto add = [&](const char* sign, const std::vector<OwnerBytes>& list) {
    for (const OwnerBytes& entry : list) {
      text += (text.empty() ? "" : " ") + std::string(sign) + std::to_string(entry.bytes) + " " +
              hbm_owner_name(entry.owner);
    }
  };
  add("+", step.allocate);
  add("-", step.release);
  return text;
}

} // namespace spillway
