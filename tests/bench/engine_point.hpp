// One point of the benchmark: a graph of one size, replayed by the engine and, on
// request, by SimGrid. Each is measured in a process of its own, so that no point
// finds the heap of another.
#pragma once

#include "tests/bench/bench_graphs.hpp"

#include <cstddef>
#include <cstdint>

namespace spillway::bench {

struct PointSettings {
  Contention contention = Contention::links;
  std::size_t ranks = 1;
  std::size_t tasks = 1000; // at least; rounded up to whole steps
  int repetitions = 5;      // at least; the fastest counts
  double least_seconds = 0.2;
};

struct EnginePoint {
  std::size_t tasks = 0;
  // Of processor time.
  double build_seconds = 0;  // TaskGraphBuilder::build
  double replay_seconds = 0; // replay()
  std::uint64_t solver_calls = 0;
  double makespan = 0; // simulated seconds

  // Bytes. Graph and timeline from the sizes of their arrays; builder and working
  // state from what operator new handed out at most, less what stays.
  std::size_t graph_bytes = 0;
  std::size_t builder_bytes = 0; // while the graph is built, beside it
  std::size_t timeline_bytes = 0;
  std::size_t state_bytes = 0; // while it is replayed, beside the timeline
  // What the operating system says: growth of the resident memory in replay().
  std::size_t replay_rss_bytes = 0;
};

struct SimgridPoint {
  std::size_t activities = 0;
  double run_seconds = 0;
  double worst_difference = 0; // of the end of a task, relative to the engine's
};

[[nodiscard]] EnginePoint measure_engine(const PointSettings& settings);
[[nodiscard]] SimgridPoint measure_simgrid(const PointSettings& settings);

} // namespace spillway::bench
