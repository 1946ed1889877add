// The graphs that the benchmark replays: steps of a training job, without and with
// contention for device memory.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <cstddef>

namespace spillway::bench {

inline constexpr std::size_t tasks_per_step = 6; // of a rank

enum class Contention {
  links, // compute takes fixed times; copies share a link and the host memory of two ranks
  hbm,   // compute and copies also share the memory of the device
};

[[nodiscard]] Machine make_machine(Contention contention, std::size_t ranks);

// At least `tasks` tasks: whole steps of all ranks.
[[nodiscard]] TaskGraphBuilder make_builder(Contention contention, std::size_t ranks,
                                            std::size_t tasks);

} // namespace spillway::bench
