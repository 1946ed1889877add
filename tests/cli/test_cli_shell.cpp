// What the built program says of itself to shells and to man: its version, completion
// and the manual page.
#include "tests/cli/cli.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

using namespace spillway;

namespace {

const std::vector<std::string> commands{"run",      "compare",   "plan",       "explain",
                                        "validate", "calibrate", "replay",     "infer",
                                        "catalog",  "fields",    "completion", "man"};

// The options that --help of a command lists.
std::vector<std::string> options_of(const std::string& command) {
  std::vector<std::string> options;
  const std::regex option("^  (?:-[a-z] \\[ )?(--[a-z-]+)");
  for (const std::string& line : lines_of(ask({command, "--help"}).out)) {
    std::smatch match;
    if (std::regex_search(line, match, option)) {
      options.push_back(match[1]);
    }
  }
  return options;
}

// The answer to a shell, without descriptions.
std::vector<std::string> completed(const Arguments& words) {
  const ProgramResult result = ask(Arguments{"--complete"} + words);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  std::vector<std::string> lines = lines_of(result.out);
  for (std::string& line : lines) {
    line = line.substr(0, line.find('\t'));
  }
  return lines;
}

using Lines = std::vector<std::string>;
const Lines nothing{"words"};

bool offers(const Lines& lines, const std::string& word) {
  return std::find(lines.begin() + 1, lines.end(), word) != lines.end();
}

// What bash would offer for these words, the last one at the cursor.
Lines completed_by_bash(const TemporaryFolder& folder, const Lines& words) {
  const std::string file = folder.write("spillway.bash", ask({"completion", "bash"}).out);
  std::string script = "set -u; cd '" + folder.path() + "'; source '" + file + "'\nCOMP_WORDS=(";
  for (const std::string& word : words) {
    script += " '" + word + "'";
  }
  script += ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_spillway\n"
            "[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"\n";
  const ProgramResult result = run_program({"/bin/bash", "--norc", "-c", script});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  return lines_of(result.out);
}

// The example lines of the manual page, as arguments.
std::vector<Arguments> examples(const std::string& page) {
  std::vector<Arguments> found;
  const std::string head = "\\fBspillway ";
  for (std::string line : lines_of(page.substr(page.find(".SH EXAMPLES")))) {
    if (line.starts_with(head)) {
      line = std::regex_replace(line.substr(head.size()), std::regex("\\\\fR|\\\\(?=-)"), "");
      Arguments words;
      for (std::size_t begin = 0; begin <= line.size();) {
        const std::size_t end = std::min(line.find(' ', begin), line.size());
        words.push_back(line.substr(begin, end - begin));
        begin = end + 1;
      }
      found.push_back(words);
    }
  }
  return found;
}

} // namespace

// ---- Version ----

TEST_CASE("--version prints the name, a version of three numbers and the commit") {
  const ProgramResult result = ask({"--version"});
  CHECK(result.exit_code == 0);
  CHECK(std::regex_match(result.out,
                         std::regex("spillway [0-9]+\\.[0-9]+\\.[0-9]+ "
                                    "\\(commit (unknown|[0-9a-f]{12,}(, modified)?)\\)\n")));
}

// ---- The catalogue beside the program ----

TEST_CASE("A program without its catalogue says where that belongs, unless --catalog names one") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("bin"));
  const std::string alone = folder.path("bin/spillway");
  std::filesystem::copy_file(SPILLWAY_BINARY, alone);
  const ProgramResult refused = run_program({alone, "run", gb200});
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
  CHECK(refused.err ==
        "error: no catalogue: '" + folder.path("share/spillway") +
            "' is not a folder\n"
            "      bin/spillway and share/spillway move together; or name a --catalog\n");
  // The tests run in the root of the sources, which is a catalogue.
  CHECK(run_program({alone, "run", gb200, "--policy", "remat", "--catalog", "."}).exit_code == 0);
  CHECK(run_program({alone, "replay", "tests/graphs/equal-ends.yaml"}).exit_code == 0);
  CHECK(run_program({alone, "--complete", "run", "dee"}).out == "words\n");
}

// ---- Manual page ----

TEST_CASE("The manual page names every command and every option") {
  const ProgramResult result = ask({"man"});
  CHECK(result.exit_code == 0);
  for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS",
                              "EXIT STATUS", "FILES", "EXAMPLES"}) {
    CHECK(contains(result.out, std::string("\n.SH ") + section + "\n"));
  }
  for (const std::string& command : commands) {
    INFO(command);
    CHECK(contains(result.out, "\n.TP\n\\fB" + command + "\\fR"));
    const std::string of_command = "\n.SS \"spillway \\fB" + command + "\\fR";
    const std::size_t begin = result.out.find(of_command);
    for (const std::string& option : options_of(command)) {
      INFO(option);
      const std::string shown =
          "\\fB" + std::regex_replace(option, std::regex("-"), "\\-") + "\\fR";
      const bool shared = option == "--help" || option == "--catalog";
      const std::size_t from = shared ? result.out.find("All commands") : begin;
      REQUIRE(from != std::string::npos);
      CHECK(result.out.find(shown, from) < result.out.find("\n.S", from + 1));
    }
  }
}

TEST_CASE("The examples of the manual page can be run as they stand") {
  const std::vector<Arguments> all = examples(ask({"man"}).out);
  CHECK(all.size() == 5);
  for (const Arguments& words : all) {
    CHECK(ask(words).exit_code <= 1);
  }
}

TEST_CASE("The manual page renders without warnings") {
  const TemporaryFolder folder;
  const std::string page = folder.write("spillway.1", ask({"man"}).out);
  const ProgramResult result =
      run_program({"/bin/sh", "-c",
                   "command -v groff >/dev/null || { echo 'groff is missing' >&2; exit 1; }\n"
                   "exec groff -man -ww -z -Tutf8 '" +
                       page + "'"});
  CHECK(result.err.empty());
  CHECK(result.exit_code == 0);
}

// ---- Completion ----

TEST_CASE("The first word is a command") {
  Lines all{"words"};
  all.insert(all.end(), commands.begin(), commands.end());
  all.insert(all.end(), {"--help", "--version"});
  CHECK(completed({""}) == all);
  CHECK(completed({}) == all);
  CHECK(completed({"ca"}) == Lines{"words", "calibrate", "catalog"});
  CHECK(completed({"--v"}) == Lines{"words", "--version"});
  CHECK(completed({"nonsense", ""}) == nothing);
  CHECK(contains(ask({"--complete", "fi"}).out, "\nfields\tlist the fields of a result"));
}

TEST_CASE("Options are offered as --help lists them") {
  for (const std::string& command : commands) {
    INFO(command);
    CHECK(completed({command, "--"}) == Lines{"words"} + options_of(command));
  }
  CHECK(completed({"run", gb200, "--no"}) == Lines{"words", "--no-fold", "--no-band"});
  CHECK(completed({"run", gb200, ""}) == Lines{"words"} + options_of("run"));
  CHECK(completed({"run", "--no-band", "dee"}) == completed({"run", "dee"}));
}

TEST_CASE("Names are those of the catalogue") {
  CHECK(offers(completed({"run", ""}), gb200));
  CHECK(completed({"explain", "deepseek-v3-gb2"}) == Lines{"words", gb200});
  CHECK(offers(completed({"catalog", ""}), "maxtext"));
  CHECK(offers(completed({"catalog", ""}), gb200));
  CHECK(completed({"validate", "--framework", "max"}) == Lines{"words", "maxtext"});
  CHECK(completed({"validate", "--hardware", "h2"}) == Lines{"words", "h200"});
  CHECK(completed({"validate", "--trace-format", ""}).size() > 1);
  CHECK(completed({"completion", ""}) == Lines{"words", "bash", "zsh", "fish"});
  CHECK(completed({"fields", ""}) == Lines{"words", "--help", "--catalog"});
}

TEST_CASE("Policies are those of the scenario") {
  // The scenario's own policies, then the framework's presets.
  const Lines policies = completed({"run", gb200, "--policy", ""});
  REQUIRE(policies.size() > 7);
  CHECK(Lines(policies.begin(), policies.begin() + 7) ==
        Lines{"words", "save", "remat", "offload", "none", "full", "minimal"});
  CHECK(completed({"compare", gb200, "--set", "batch.micro=2", "--base", "re"}) ==
        Lines{"words", "remat"});
  CHECK(completed({"run", "--policy", ""}) == nothing);
  CHECK(completed({"run", "no-such-scenario", "--policy", ""}) == nothing);
}

TEST_CASE("A list is completed behind its last comma") {
  CHECK(completed({"compare", gb200, "--hardware", "h200,h1"}) == Lines{"words", "h200,h100"});
  CHECK(completed({"compare", gb200, "--hardware", "h200,./own"}) == nothing);
}

TEST_CASE("Files and folders are left to the shell") {
  CHECK(completed({"run", gb200, "--json", ""}) == Lines{"files"});
  CHECK(completed({"run", gb200, "--catalog", "x"}) == Lines{"folders"});
  CHECK(completed({"calibrate", "-o", ""}) == Lines{"files"});
  CHECK(completed({"calibrate", "a.jsonl", "b"}) == Lines{"files"});
  CHECK(completed({"run", "./own"}) == Lines{"files"}); // no name begins like this
  CHECK(completed({"run", gb200, "--set", ""}) == nothing);
  CHECK(completed({"run", gb200, "--jobs", ""}) == nothing);
}

TEST_CASE("A value behind = is completed whether the shell breaks the word or not") {
  CHECK(completed({"run", gb200, "--policy=off"}) == Lines{"words", "--policy=offload"});
  CHECK(completed({"run", gb200, "--policy", "=", "off"}) == Lines{"words", "offload"});
  CHECK(completed({"run", gb200, "--policy", "="}) == completed({"run", gb200, "--policy", ""}));
  CHECK(completed({"run", "--set", "batch.micro", "=", "2", gb200, "--policy", "off"}) ==
        Lines{"words", "offload"});
  CHECK(completed({"run", gb200, "--json="}) == Lines{"files"});
  CHECK(completed({"run", gb200, "--no-band="}) == nothing);
  CHECK(completed({"run", gb200, "--nonsense=x"}) == nothing);
}

TEST_CASE("Completion looks where --catalog says") {
  const TemporaryFolder folder;
  (void)folder.write("workloads/scenarios/zebra.yaml", "extends: deepseek-v3-gb200\n");
  CHECK(completed({"run", "--catalog", folder.path(), "ze"}) == Lines{"words", "zebra"});
  CHECK(completed({"run", "--catalog=" + folder.path(), "ze"}) == Lines{"words", "zebra"});
  CHECK(completed({"run", "--catalog", "/nonexistent", "ze"}) == nothing);
}

TEST_CASE("bash completes commands, options, names and files") {
  const TemporaryFolder folder;
  (void)folder.write("measured/one.jsonl", "");
  (void)folder.write("measured.txt", "");
  const std::string program = SPILLWAY_BINARY;
  const auto bash = [&](const Lines& words) {
    return completed_by_bash(folder, Lines{program} + words);
  };
  CHECK(bash({"ex"}) == Lines{"explain"});
  CHECK(bash({"run", "deepseek-v3-gb2"}) == Lines{gb200});
  CHECK(bash({"run", gb200, "--no-b"}) == Lines{"--no-band"});
  CHECK(bash({"run", gb200, "--policy", "=", "off"}) == Lines{"offload"});
  CHECK(bash({"run", gb200, "--jobs", ""}).empty());
  Lines files = bash({"replay", "mea"});
  std::sort(files.begin(), files.end());
  CHECK(files == Lines{"measured", "measured.txt"});
  CHECK(bash({"run", gb200, "--json", "=", "measured."}) == Lines{"measured.txt"});
  CHECK(bash({"run", gb200, "--catalog", "mea"}) == Lines{"measured"});
}

TEST_CASE("The completion scripts are correct for the shells that are here") {
  const TemporaryFolder folder;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    INFO(shell);
    const ProgramResult script = ask({"completion", shell});
    CHECK(script.exit_code == 0);
    const std::string file = folder.write(shell, script.out);
    const ProgramResult checked = run_program(
        {"/bin/sh", "-c",
         "! command -v " + shell + " >/dev/null || exec " + shell + " -n '" + file + "'"});
    CHECK(checked.err.empty());
    CHECK(checked.exit_code == 0);
  }
}

TEST_CASE("A shell that is missing or unknown is refused") {
  check_refused({"completion"},
                "error: 'completion' needs a shell\n      known: bash, zsh, fish\n");
  check_refused({"completion", "zhs"},
                "error: no completion for shell 'zhs'\n      did you mean 'zsh'?\n");
}
