// Runs the engine, and says where it and the naive engine differ.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/engine/graph_checks.hpp"
#include "tests/support/reference_engine.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace spillway::test {

struct Outcome {
  std::optional<Timeline> timeline; // none after a deadlock
  bool out_of_memory = false;
};

[[nodiscard]] inline Outcome run(const TaskGraph& graph, const Machine& machine) {
  Outcome outcome;
  try {
    outcome.timeline = replay(graph, machine);
  } catch (const Deadlock& deadlock) {
    outcome.out_of_memory = deadlock.out_of_memory();
  }
  return outcome;
}

template <class Item>
void compare(const char* name, const std::vector<Item>& a, const std::vector<Item>& b,
             std::string& difference) {
  if (difference.empty() && a != b) {
    std::size_t at = 0;
    while (at < a.size() && at < b.size() && a[at] == b[at]) {
      ++at;
    }
    difference = fmt::format("{} [{}] differs", name, at);
  }
}

// Empty when everything but the number of solver calls is the same.
[[nodiscard]] inline std::string difference_between(const Timeline& a, const Timeline& b) {
  std::string difference = a.makespan == b.makespan ? "" : "makespan differs";
  compare("task", a.tasks, b.tasks, difference);
  compare("final_bytes", a.final_bytes, b.final_bytes, difference);
  for (std::size_t pool = 0; pool < a.peaks.size() && difference.empty(); ++pool) {
    const Timeline::PoolPeak& x = a.peaks[pool];
    const Timeline::PoolPeak& y = b.peaks[pool];
    if (x.bytes != y.bytes || x.time != y.time || x.task != y.task || x.owners != y.owners) {
      difference = fmt::format("peak of pool {} differs", pool);
    }
  }
  return difference;
}

// Empty when the naive engine comes to the same.
[[nodiscard]] inline std::string difference_to_reference(const Outcome& outcome,
                                                         const TaskGraph& graph,
                                                         const Machine& machine) {
  ReferenceEngine reference(graph, machine);
  const bool finished = reference.run();
  if (finished != outcome.timeline.has_value()) {
    return finished ? "only the engine stops" : "only the naive engine stops";
  }
  if (finished) {
    return difference_between(*outcome.timeline, reference.result);
  }
  const bool circle = TaskOrder(graph).sorted().empty();
  const bool out_of_memory = reference.anything_waits_for_memory() && !circle;
  return outcome.out_of_memory == out_of_memory ? "" : "the reason to stop differs";
}

// The same for a graph that may be broken in itself, which says nothing then.
[[nodiscard]] inline std::string engine_difference(const TaskGraph& graph, const Machine& machine) {
  try {
    return difference_to_reference(run(graph, machine), graph, machine);
  } catch (const std::logic_error&) { // frees what nobody holds
  } catch (const std::overflow_error&) {}
  return "";
}

// FNV-1a over 64-bit words.
inline void mix(std::uint64_t& hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x100000001b3U;
}

} // namespace spillway::test
