// What the options of a command line say, and where data is found.
#pragma once

#include "sim/lower/fold.hpp"
#include "sim/lower/scenario.hpp"

#include <cstdint>
#include <filesystem>
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
  std::vector<std::string> pins; // of plan
  std::string micro_batch, hbm_limit, host_limit, time_limit;
  std::string gap = "0.5"; // percent
  std::int64_t replays = 3000;
  bool free_batch = false, brief = false;
  std::string catalog;
  std::int64_t top = 15;
  std::int64_t faster = 10;              // percent, of explain
  std::string task;                      // of explain; empty: the whole step
  std::int64_t rank = 0, occurrence = 1; // of the task
  std::optional<std::int64_t> jobs;      // none: one thread per processor
  bool no_band = false;
  bool no_fold = false;
  bool quiet = false;
  bool help = false;

  // Results go to stdout as text unless JSON or CSV does.
  [[nodiscard]] bool prints_text() const { return json != "-" && csv != "-"; }
  [[nodiscard]] Folding folding() const { return no_fold ? Folding::off : Folding::automatic; }
};

// Folders with the committed data: --catalog first, then what belongs to this
// binary (its installed share/spillway, or the source tree that built it).
[[nodiscard]] std::vector<std::filesystem::path> data_roots(const std::string& catalog_option);

// "a, b" at ',' to "a" and "b", each without blanks around it.
[[nodiscard]] std::vector<std::string> split(const std::string& text, char at);

[[nodiscard]] Scenario load_from(const CommonOptions& options);
// The policies to run, in order.
[[nodiscard]] std::vector<const PolicySpec*> chosen_policies(const Scenario& scenario,
                                                             const CommonOptions& options);
[[nodiscard]] unsigned thread_count(const CommonOptions& options);

} // namespace spillway
