#include "sim/cli/commands.hpp"

#include "results/write.hpp"

#include <fmt/format.h>

#include <array>

namespace spillway {
namespace {

const std::array<Command, 9> table{{
    {"run", "SCENARIO", "simulate one policy: does it fit, how fast is it, what holds memory",
     run_run},
    {"compare", "SCENARIO", "set policies side by side; --axis varies settings", run_compare},
    {"explain", "SCENARIO",
     "say what a step waits for and what would make it faster; --task: one task of it",
     run_explain},
    {"validate", "",
     "compare predictions with published figures, or with measured steps and traces", run_validate},
    {"calibrate", "MEASUREMENTS...", "turn micro-benchmark records into a hardware file",
     run_calibrate},
    {"replay", "FILE", "replay a task graph of your own, and say what decides its time",
     run_replay},
    {"infer", "QUESTION",
     "find the settings that agree with what a publication says of memory, and what they predict",
     run_infer},
    {"catalog", "[NAME]",
     "list models, hardware, frameworks, scenarios and trace formats, or show one's sources",
     run_catalog},
    {"fields", "", "list the fields of a result, with units", run_fields},
}};

std::string usage() {
  std::string text = "usage: spillway COMMAND [OPTIONS]\n\n"
                     "Predicts step time, memory and out-of-memory verdicts of training steps "
                     "that keep,\nrecompute or offload saved activations, and says why.\n\n";
  for (const Command& command : table) {
    text += fmt::format("  {:10}{}\n", command.name, command.summary);
  }
  return text +
         "\n`spillway COMMAND --help` shows a command's options. Exit status: 0 done, 1 the "
         "answer is no\n(does not fit, out of tolerance, a pool is too small), 2 bad usage or "
         "input, 3 internal\nerror.\n";
}

} // namespace

std::span<const Command> command_table() {
  return table;
}

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
    write_output("-", fmt::format("spillway {}\n", SPILLWAY_VERSION));
    return ExitCode::done;
  }
  std::vector<std::string> names;
  for (const Command& command : table) {
    if (name == command.name) {
      return command.run({arguments.begin() + 1, arguments.end()});
    }
    names.emplace_back(command.name);
  }
  throw InputError(fmt::format("unknown command '{}'", name), suggestion(name, names));
}

} // namespace spillway
