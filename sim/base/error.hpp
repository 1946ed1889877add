// What went wrong, for the person who wrote the input.
//
// An InputError carries one or more diagnostics; each prints as
//
//   scenarios/demo.yaml:5:9: error: unknown key 'micr' in 'batch'
//       5 | batch: {micr: 1, sequence: 4096}
//         |         ^ did you mean 'micro'?
//
// Only main() prints errors. Our own mistakes are assertions and end in exit
// code 3; nothing a file contains may reach one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

enum class ExitCode : int {
  done = 0,      // the question was answered
  no = 1,        // the honest answer is no: does not fit, out of tolerance
  bad_input = 2, // usage or input is wrong
  internal = 3,  // our mistake
};

// The text that a diagnostic points into: a file, or a command-line argument.
struct SourceText {
  std::string name; // as the user wrote it, e.g. "demo.yaml" or "--set"
  std::vector<std::string> lines;
};

// A position in a SourceText; line and column count from 1, line 0 = whole file.
// Columns are code points.
struct Place {
  std::shared_ptr<const SourceText> source;
  int line = 0;
  int column = 0;
};

[[nodiscard]] std::size_t count_columns(std::string_view utf8);

// "demo.yaml:5", to name one place in a message about another; empty without a source.
[[nodiscard]] std::string place_text(const Place& place);

struct Diagnostic {
  Place place;
  std::string message; // lower case, what is wrong
  std::string hint;    // what would be right; may be empty
  // A key that must be there and is not, "'context' in 'gpu'": whoever reads a part
  // of something can tell that from a mistake. Empty for anything else.
  std::string missing = {};
};

[[nodiscard]] std::string format_diagnostic(const Diagnostic& diagnostic);

class InputError : public std::runtime_error {
public:
  explicit InputError(std::vector<Diagnostic> diagnostics);
  // Without a place: bad command line or a file that cannot be read.
  explicit InputError(const std::string& message, const std::string& hint = {});
  [[nodiscard]] const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

private:
  std::vector<Diagnostic> diagnostics_;
};

// Collects diagnostics so that one run reports several mistakes. Not any number: add()
// itself throws the InputError once there are 1000, since a file of nothing but mistakes
// would take minutes and gigabytes.
class Diagnostics {
public:
  void add(Place place, std::string message, std::string hint = {});
  void add_missing(Place place, std::string key); // "missing key " and the key
  [[nodiscard]] bool empty() const { return found_.empty(); }
  [[nodiscard]] std::size_t count() const { return found_.size(); }
  [[nodiscard]] const std::vector<Diagnostic>& found() const { return found_; }
  void sort_by_place(); // where all are of one source
  void throw_if_any();  // throws InputError with everything collected, at most 20 entries shown

private:
  void add(Diagnostic diagnostic);

  std::vector<Diagnostic> found_;
};

// The candidate nearest to `name` in edit distance (ties: the first), or empty
// when none is near enough to be a plausible slip. Of many candidates only the first
// 1000 are looked at.
[[nodiscard]] std::string nearest_name(std::string_view name,
                                       std::span<const std::string> candidates);

// "did you mean 'micro'?" or, when nothing is near, "known: a, b, c" (at most 12 names).
[[nodiscard]] std::string suggestion(std::string_view name,
                                     std::span<const std::string> candidates);

} // namespace spillway
