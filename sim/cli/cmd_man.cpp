// The manual page, made of the command table. It says no date, so that the same sources
// give the same page.
#include "results/write.hpp"
#include "sim/cli/commands.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <variant>

namespace spillway {
namespace {

// A text as roff shows it unchanged: dashes and quotes stay what they are, so that they
// can be copied, and no line is a request.
std::string plain(std::string_view text) {
  std::string escaped;
  bool line_begins = true;
  for (const char c : text) {
    switch (c) {
    case '\\': escaped += "\\e"; break;
    case '-': escaped += "\\-"; break;
    case '\'': escaped += "\\(aq"; break;
    case '`': escaped += "\\(ga"; break;
    case '.': escaped += line_begins ? "\\&." : "."; break;
    default: escaped += c;
    }
    line_begins = c == '\n';
  }
  return escaped;
}

std::string bold(std::string_view text) {
  return "\\fB" + plain(text) + "\\fR";
}

std::string italic(std::string_view text) {
  return "\\fI" + plain(text) + "\\fR";
}

std::string item(const std::string& head, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", head, plain(text));
}

std::string default_of(const Option& option) {
  const auto* number = std::get_if<std::int64_t CommonOptions::*>(&option.member);
  return number == nullptr ? "" : fmt::format(" (default: {})", CommonOptions{}.**number);
}

std::string option_text(const Option& option) {
  std::string head = option.letter().empty() ? "" : bold(option.letter()) + ", ";
  head += bold(option.long_name());
  if (option.takes_value()) {
    head += " " + italic(option.value);
  }
  return item(head, option.description + default_of(option));
}

std::string heading(const Command& command) {
  const std::string argument =
      *command.argument.shown == '\0' ? "" : " " + italic(command.argument.shown);
  return bold(command.name) + argument;
}

std::string commands_section() {
  std::string text = ".SH COMMANDS\n";
  for (const Command& command : command_table()) {
    text += item(heading(command), command.summary);
  }
  return text;
}

std::string options_section() {
  std::string text = ".SH OPTIONS\n" + item(bold("--version"), "print version and commit");
  text += ".SS \"All commands\"\n";
  const std::size_t shared = common_options().size();
  for (const Option& option : common_options()) {
    text += option_text(option);
  }
  for (const Command& command : command_table()) {
    if (command.options.size() > shared) {
      text += fmt::format(".SS \"spillway {}\"\n", heading(command));
    }
    for (std::size_t i = shared; i < command.options.size(); ++i) {
      text += option_text(command.options[i]);
    }
  }
  return text;
}

std::string files_section() {
  return ".SH FILES\n" +
         item(italic("../share/spillway"),
              "The catalogue of models, hardware, frameworks, scenarios and published cases, "
              "beside the folder of the program; a tree of both may be moved as a whole.") +
         item(italic("DIR") + " of " + bold("--catalog"),
              "Folders of the same names with files of your own, which win: hw_models/catalog, "
              "workloads/catalog, workloads/frameworks, workloads/scenarios, "
              "results/trace_formats.");
}

// Names come from the catalogue: no product is named in the sources.
std::string examples_section(const Catalog& catalog) {
  const std::vector<std::string> scenarios = catalog.names(CatalogKind::scenario);
  const std::string scenario = scenarios.empty() ? "SCENARIO" : scenarios.front();
  std::string text = ".SH EXAMPLES\n";
  for (const auto& [arguments, meaning] :
       {std::pair("compare {}", "Keep, recompute or offload?"),
        std::pair("run {} --set batch.micro=4", "One policy, with a smaller micro-batch."),
        std::pair("explain {} --top 5", "What the step waits for, and what would help."),
        std::pair("compare {} --axis batch.micro=1,2,4 --csv -", "A table for other programs."),
        std::pair("catalog {}", "What a scenario says, and what it assumes.")}) {
    text += item(bold("spillway " + fmt::format(fmt::runtime(arguments), scenario)), meaning);
  }
  return text;
}

} // namespace

ExitCode run_man(const CommonOptions& options) {
  const Catalog catalog(data_roots(options.catalog));
  write_output(
      "-",
      fmt::format(".TH SPILLWAY 1 \"\" \"Spillway {}\" \"User Commands\"\n", SPILLWAY_VERSION) +
          ".SH NAME\nspillway \\- predict what keeping, recomputing or offloading activations "
          "costs a training step\n"
          ".SH SYNOPSIS\n.B spillway\n.I COMMAND\n.RI [ OPTIONS ]\n" +
          ".SH DESCRIPTION\n" + plain(about_program) + commands_section() + options_section() +
          ".SH EXIT STATUS\n" + plain(about_exit_status) + files_section() +
          examples_section(catalog));
  return ExitCode::done;
}

} // namespace spillway
