// Options that commands share, and where data is found.
#pragma once

#include "sim/lower/fold.hpp"
#include "sim/lower/scenario.hpp"

#include <boost/program_options.hpp>

#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct CommonOptions {
  std::vector<std::string> positional;
  std::vector<std::string> set;
  std::vector<std::string> policies; // empty: all, in the scenario's order
  std::vector<std::string> axes;
  std::string break_even;
  std::string json, csv;
  std::string base;
  std::string output, name, tables, source;
  std::string cases;
  std::string profiles, hardware, framework;
  std::string against, record, trace_format; // of validate --profiles
  std::optional<std::int64_t> step;
  std::string catalog;
  std::int64_t top = 15;
  std::int64_t faster = 10;              // percent, of explain
  std::string task;                      // of explain; empty: the whole step
  std::int64_t rank = 0, occurrence = 1; // of the task
  std::int64_t jobs = 0;                 // 0: one thread per processor
  bool no_band = false;
  bool no_fold = false;
  bool quiet = false;
  bool help = false;

  // Results go to stdout as text unless JSON or CSV does.
  [[nodiscard]] bool prints_text() const { return json != "-" && csv != "-"; }
  [[nodiscard]] Folding folding() const { return no_fold ? Folding::off : Folding::automatic; }
};

// Which options a command has, beside --help, --catalog.
struct OptionSet {
  bool scenario = false; // --set, --policy, --no-fold, --quiet
  bool graph = false;    // --quiet
  bool jobs = false;     // --jobs
  bool band = false;     // --jobs, --no-band
  bool json = false;
  bool csv = false;
  bool axis = false; // --axis, --hardware, --break-even, --base
  bool top = false;
  bool explanation = false; // --jobs, --faster, --task, --rank, --occurrence
  bool cases = false;
  bool calibration = false; // --output, --name, --base, --tables, --source, --quiet
  std::size_t max_positional = 0;
};

// Parses; throws InputError with the nearest option name. With --help the
// command's own help is printed and `help` is set.
[[nodiscard]] CommonOptions parse_options(const std::string& command,
                                          const std::vector<std::string>& arguments,
                                          const OptionSet& set);

// Folders with the committed data: --catalog first, then what belongs to this
// binary (its installed share/spillway, or the source tree that built it).
[[nodiscard]] std::vector<std::filesystem::path> data_roots(const std::string& catalog_option);

[[nodiscard]] Scenario load_from(const CommonOptions& options);
// The policies to run, in order.
[[nodiscard]] std::vector<const PolicySpec*> chosen_policies(const Scenario& scenario,
                                                             const CommonOptions& options);
[[nodiscard]] unsigned thread_count(const CommonOptions& options);

} // namespace spillway
