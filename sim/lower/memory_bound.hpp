// What a step holds in HBM at least, whatever its times are. See step_bound.hpp.
#pragma once

#include "sim/lower/program.hpp"
#include "sim/lower/scenario.hpp"

#include <cstdint>

namespace spillway {

// Bytes from before the backward of the last decoder layer until the optimizer: states, and
// gradients where they are allocated at once, the logits' gradient or the embedding's table
// where a compiled loop holds it. `offloads`: whether the policy does.
[[nodiscard]] std::int64_t least_fixed_bytes(const Scenario& scenario, bool offloads);

// Bytes that the backward of one layer takes beside those, and beside what was saved for
// it, at its fullest. `reloads`: whether buffers of reloaded tensors count; without them
// the program of a set of offloaded tensors bounds every way to keep or offload them.
[[nodiscard]] std::int64_t least_peak(const Scenario& scenario, const LayerKind& kind,
                                      const LayerProgram& program, bool reloads);

} // namespace spillway
