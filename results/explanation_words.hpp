// Words and numbers that the parts of an explanation share.
#pragma once

#include "results/simulate.hpp"

#include <string>

namespace spillway {

// What kind of time an operation is: its phase for kernels ("backward"), "copy",
// "collective", "collective, re-run", "gap between steps".
[[nodiscard]] std::string class_of(const TaskInfo& info);

[[nodiscard]] const char* cause_name(Cause cause); // "lane", "dependency" and so on

[[nodiscard]] std::string time_text(SimTime time);                 // "12.4 ms"
[[nodiscard]] std::string share_text(SimTime part, SimTime whole); // "4.5 %"
[[nodiscard]] std::string moment_text(SimTime time);               // "4566.123 ms", to 1 us

} // namespace spillway
