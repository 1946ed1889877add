// `compare --break-even`: a part of compare with a report of its own.
#pragma once

#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

namespace spillway {

[[nodiscard]] ExitCode run_break_even(const CommonOptions& options);

} // namespace spillway
