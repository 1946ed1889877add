// What a step waits for, in the words of training: the critical sequence grouped
// by operation, the waits of the compute lane by cause, and what sharing cost.
#pragma once

#include "results/simulate.hpp"

#include <string>
#include <vector>

namespace spillway {

// Equal operations of all layers on the critical sequence.
struct CriticalGroup {
  std::string what;  // "d attention"
  std::string phase; // "backward", or "copy", "collective"
  std::int64_t count = 0;
  double seconds = 0;
};

// Waits of the reported GPU's compute lane with the same cause.
struct WaitGroup {
  std::string before; // operation that had to wait
  std::string cause;  // operation it waited for
  TimeBin bin = TimeBin::other;
  std::int64_t count = 0;
  double seconds = 0;
};

// Copies or collectives that ran below the rate they have alone.
struct SharingGroup {
  std::string what;
  std::string resource; // that bound them
  std::int64_t count = 0;
  double seconds = 0;       // as they ran
  double seconds_alone = 0; // as they would have run
};

struct Explanation {
  std::vector<CriticalGroup> critical; // most time first
  std::vector<WaitGroup> waits;        // most time first
  std::vector<SharingGroup> sharing;   // most time lost first
  std::size_t critical_tasks = 0;
  std::int64_t sharing_gpus = 1; // GPUs of one CPU
};

[[nodiscard]] Explanation explain(const Simulation& run);

// The report of `explain`, at most `top` lines per section.
[[nodiscard]] std::string explanation_text(const Scenario& scenario, const Simulation& run,
                                           const Explanation& explanation, std::size_t top);
[[nodiscard]] std::string explanation_json(const Simulation& run, const Explanation& explanation);

} // namespace spillway
