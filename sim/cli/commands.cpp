#include "sim/cli/commands.hpp"

#include "results/write.hpp"
#include "sim/cli/complete.hpp"
#include "sim/cli/version.hpp"

#include <fmt/format.h>

namespace spillway {

const char* const about_program =
    "Predicts step time, memory and out-of-memory verdicts of training steps that keep,\n"
    "recompute or offload saved activations, and says why.\n";

const char* const about_exit_status =
    "Exit status: 0 done, 1 the answer is no\n"
    "(does not fit, out of tolerance, a pool is too small, no setting agrees), 2 bad usage or\n"
    "input, 3 internal error.\n";

namespace {

std::string usage() {
  std::string text = fmt::format("usage: spillway COMMAND [OPTIONS]\n\n{}\n", about_program);
  for (const Command& command : command_table()) {
    text += fmt::format("  {:12}{}\n", command.name, command.summary);
  }
  return text + "\n`spillway COMMAND --help` shows a command's options. " + about_exit_status;
}

const Command& named(const std::string& name) {
  if (const Command* command = find_command(name)) {
    return *command;
  }
  std::vector<std::string> names;
  for (const Command& command : command_table()) {
    names.emplace_back(command.name);
  }
  throw InputError(fmt::format("unknown command '{}'", name), suggestion(name, names));
}

} // namespace

ExitCode run_command(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    fmt::print(stderr, "{}", usage());
    return ExitCode::bad_input;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    write_output("-", usage());
    return ExitCode::done;
  }
  if (name == "--version") {
    write_output("-", fmt::format("spillway {} (commit {})\n", SPILLWAY_VERSION, source_commit));
    return ExitCode::done;
  }
  if (name == "--complete") { // of the shells' scripts only
    write_output("-", complete({arguments.begin() + 1, arguments.end()}));
    return ExitCode::done;
  }
  const Command& command = named(name);
  const CommonOptions options = parse_options(command, {arguments.begin() + 1, arguments.end()});
  return options.help ? ExitCode::done : command.run(options);
}

} // namespace spillway
