// Folding of a step: the graph holds a few layers of each block and a few micro-batches,
// the engine shows that the rest repeats them (engine/recurrence.hpp). The result is that
// of the whole step, to the byte; what it costs does not grow with layers or micro-batches.
#pragma once

#include "sim/lower/clock.hpp"
#include "sim/lower/lower.hpp"

#include <cstdint>

namespace spillway {

enum class Folding : std::uint8_t {
  automatic,     // fold what repeats, replay in full what does not
  micro_batches, // the same, but the graph holds every layer
  off,           // the graph holds every layer of every micro-batch
};

// A step as it ran.
struct StepRun {
  Lowered lowered;
  Timeline timeline;
  double clock_speed = 1;
};

// Lowers and replays with the prices of `cost`; a clock rule is solved from `speed` on.
// Throws InputError when a step that must be replayed in full is too long for that.
[[nodiscard]] StepRun run_step(const Scenario& scenario, const Plan& plan, CostModel& cost,
                               RateCache& cache, Folding folding, double speed = 1);

// What a graph may leave out of this step: enough is kept for copies that run layers ahead
// and for the state to settle, and recurrences of up to two iterations are found.
[[nodiscard]] LeftOut foldable(const Scenario& scenario, const Plan& plan, Folding folding);

// The layer of a task's first run, over all layers of the model; -1 = none.
[[nodiscard]] std::int32_t layer_of(const Lowered& lowered, const Timeline& timeline, TaskId task);

// Sums over all runs of the tasks of the reported GPU.
struct StepSums {
  std::int64_t d2h_bytes = 0;
  std::int64_t h2d_bytes = 0;
  double hardware_flops = 0; // recompute counted
  SimTime copying{0};        // stores and reloads, one after the other
};
[[nodiscard]] StepSums sums_of(const Lowered& lowered, const Timeline& timeline);

} // namespace spillway
