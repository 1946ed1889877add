// What a step waits for, in the words of training: the critical sequence grouped by
// operation and by what started it, the waits of the compute lane by cause, what copies
// and collectives leave exposed, what has room, and what sharing cost.
//
// Times are sums of whole picoseconds; they turn into seconds where they are printed.
#pragma once

#include "results/exposure.hpp"
#include "results/room.hpp"
#include "results/simulate.hpp"
#include "results/what_if.hpp"

#include <optional>
#include <string>
#include <vector>

namespace spillway {

// By what tasks were started (Cause in sim/engine/timeline.hpp), counted.
struct StartCounts {
  std::int64_t beginning = 0; // nothing held them
  std::int64_t lane = 0;      // the task before them on their lane ended
  std::int64_t dependency = 0;
  std::int64_t memory = 0; // room was freed
};

// Equal operations of all layers on the critical sequence.
struct CriticalGroup {
  std::string what;  // "d attention"
  std::string phase; // "backward", or "copy", "collective"
  std::int64_t count = 0;
  SimTime time{0};
  StartCounts started;
  SimTime lost{0}; // of the time, to sharing a resource
};

// Time that the critical sequence lost to one shared resource.
struct LostGroup {
  std::string resource;
  SimTime time{0};
};

// Waits of the reported GPU's compute lane with the same cause.
struct WaitGroup {
  std::string before; // operation that had to wait
  std::string cause;  // operation it waited for
  TimeBin bin = TimeBin::other;
  std::int64_t count = 0;
  SimTime time{0};
};

// Copies or collectives that ran below the rate they have alone.
struct SharingGroup {
  std::string what;
  std::string resource; // that bound them
  std::int64_t count = 0;
  SimTime time{0};       // as they ran
  SimTime time_alone{0}; // as they would have run
};

struct Explanation {
  std::vector<CriticalGroup> critical; // most time first
  std::vector<LostGroup> lost;         // most time first
  StartCounts started;                 // all of the critical sequence
  std::vector<WaitGroup> waits;        // most time first
  std::vector<ExposureGroup> exposure; // most exposed time first
  std::vector<RoomGroup> room;         // least room first
  std::vector<SharingGroup> sharing;   // most time lost first
  std::size_t critical_tasks = 0;
  std::int64_t sharing_gpus = 1; // GPUs of one CPU
  std::optional<WhatIf> faster;  // when it was asked for
};

// All but `faster`. The graph of `run` holds every layer (Folding::micro_batches or off).
[[nodiscard]] Explanation explain(const Simulation& run);

// Time of the critical sequence by class, most first.
[[nodiscard]] std::vector<std::pair<std::string, SimTime>> time_by_class(
    const Explanation& explanation);

// The report of `explain`, at most `top` lines per section.
[[nodiscard]] std::string explanation_text(const Scenario& scenario, const Simulation& run,
                                           const Explanation& explanation, std::size_t top);
[[nodiscard]] std::string explanation_json(const Simulation& run, const Explanation& explanation);

} // namespace spillway
