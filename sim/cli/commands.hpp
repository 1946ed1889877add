// The command table. Adding a command is one file and one line in commands.cpp.
#pragma once

#include "sim/base/error.hpp"

#include <span>
#include <string>
#include <vector>

namespace spillway {

struct Command {
  const char* name;
  const char* arguments; // as in the usage line
  const char* summary;   // one line
  ExitCode (*run)(const std::vector<std::string>& arguments);
};
[[nodiscard]] std::span<const Command> command_table();

// Dispatches `arguments` (without the program's name).
[[nodiscard]] ExitCode run_command(const std::vector<std::string>& arguments);

[[nodiscard]] ExitCode run_run(const std::vector<std::string>& arguments);
[[nodiscard]] ExitCode run_compare(const std::vector<std::string>& arguments);
[[nodiscard]] ExitCode run_explain(const std::vector<std::string>& arguments);
[[nodiscard]] ExitCode run_validate(const std::vector<std::string>& arguments);
[[nodiscard]] ExitCode run_calibrate(const std::vector<std::string>& arguments);
[[nodiscard]] ExitCode run_replay(const std::vector<std::string>& arguments);
[[nodiscard]] ExitCode run_infer(const std::vector<std::string>& arguments);
[[nodiscard]] ExitCode run_catalog(const std::vector<std::string>& arguments);
[[nodiscard]] ExitCode run_fields(const std::vector<std::string>& arguments);

} // namespace spillway
