// The command table: what is parsed, shown by --help, completed by shells and told by
// the manual page. Adding a command is one file and one row in command_table.cpp.
#pragma once

#include "sim/base/error.hpp"
#include "sim/cli/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace spillway {

// What a value names; that decides what a shell offers for it.
enum class ValueKind : std::uint8_t {
  text, // also numbers: nothing to offer
  file,
  folder,
  model,
  hardware,
  framework,
  scenario,
  trace_format,
  entry,  // anything in the catalogue
  policy, // of the scenario that the command is about
  shell,
};

// Switches are bool, repeatable options vectors. A number shows its default in --help
// unless it is optional.
using OptionMember =
    std::variant<bool CommonOptions::*, std::string CommonOptions::*,
                 std::vector<std::string> CommonOptions::*, std::int64_t CommonOptions::*,
                 std::optional<std::int64_t> CommonOptions::*>;

struct Option {
  const char* name; // "quiet", or "quiet,q" if it has a letter, too
  OptionMember member;
  const char* description;
  const char* value = ""; // what --help calls the value; "" of a switch
  ValueKind kind = ValueKind::text;
  bool list = false; // several values with commas between them

  [[nodiscard]] std::string long_name() const; // "--quiet"
  [[nodiscard]] std::string letter() const;    // "-q" or ""
  [[nodiscard]] bool takes_value() const { return *value != '\0'; }
};

struct Argument {
  const char* shown = ""; // as in the usage line
  ValueKind kind = ValueKind::text;
  std::size_t most = 0;
};

struct Command {
  const char* name;
  Argument argument;
  const char* summary; // one line
  ExitCode (*run)(const CommonOptions& options);
  std::vector<Option> options;

  [[nodiscard]] std::string usage() const; // "spillway run SCENARIO [OPTIONS]"
};
[[nodiscard]] const std::vector<Command>& command_table();
[[nodiscard]] const Command* find_command(std::string_view name); // nullptr: there is none
// What every command has.
[[nodiscard]] const std::vector<Option>& common_options();

// Parses; throws InputError with the nearest option name. With --help the
// command's own help is printed and `help` is set.
[[nodiscard]] CommonOptions parse_options(const Command& command,
                                          const std::vector<std::string>& arguments);

// Dispatches `arguments` (without the program's name).
[[nodiscard]] ExitCode run_command(const std::vector<std::string>& arguments);

// The shells that `spillway completion` knows.
[[nodiscard]] std::vector<std::string> shells();

// What the program is and what its exit status means, for --help and the manual page.
extern const char* const about_program;
extern const char* const about_exit_status;

[[nodiscard]] ExitCode run_run(const CommonOptions& options);
[[nodiscard]] ExitCode run_compare(const CommonOptions& options);
[[nodiscard]] ExitCode run_explain(const CommonOptions& options);
[[nodiscard]] ExitCode run_validate(const CommonOptions& options);
[[nodiscard]] ExitCode run_calibrate(const CommonOptions& options);
[[nodiscard]] ExitCode run_replay(const CommonOptions& options);
[[nodiscard]] ExitCode run_plan(const CommonOptions& options);
[[nodiscard]] ExitCode run_infer(const CommonOptions& options);
[[nodiscard]] ExitCode run_catalog(const CommonOptions& options);
[[nodiscard]] ExitCode run_fields(const CommonOptions& options);
[[nodiscard]] ExitCode run_completion(const CommonOptions& options);
[[nodiscard]] ExitCode run_man(const CommonOptions& options);

} // namespace spillway
