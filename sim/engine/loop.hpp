// Parts of a schedule that repeat, and how a graph leaves iterations of them out.
//
// A training step runs equal layers and equal micro-batches. A graph may hold a few
// iterations of such a loop and say how many it leaves out; the replay then shows
// that the state of the machine recurs from one iteration to a later one and goes
// on as if the missing ones had run (recurrence.hpp). The promise of whoever makes
// the graph: the iterations left out are like those beside them.
#pragma once

#include "sim/engine/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace spillway {

// `ends` are tasks whose end completes an iteration, one after the other: only of iterations
// that are like those left out, not of first and last ones that do something special. All
// ends of all loops stand on one lane. Loops may nest.
struct Loop {
  std::vector<TaskId> ends;
  std::vector<std::uint32_t> tasks; // by lane: of one iteration in the middle of the loop
  std::uint64_t left_out = 0;       // iterations
};

// The state of a loop did not recur, or a pool could be full before the iterations
// left out are over: the graph cannot stand for the whole schedule.
class NoRecurrence : public std::runtime_error {
public:
  NoRecurrence(std::size_t loop, std::uint64_t possible)
      : std::runtime_error("the schedule does not repeat"), loop_(loop), possible_(possible) {}
  [[nodiscard]] std::size_t loop() const { return loop_; } // index into the loops given
  // How many iterations may be left out at most, as far as was seen.
  [[nodiscard]] std::uint64_t possible() const { return possible_; }

private:
  std::size_t loop_;
  std::uint64_t possible_;
};

} // namespace spillway
