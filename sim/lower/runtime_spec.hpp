// Readers of the smaller parts of a scenario file.
#pragma once

#include "sim/lower/scenario.hpp"

namespace spillway {

[[nodiscard]] PrecisionSpec read_precision(const YamlNode& node, Diagnostics& diagnostics);

// `framework` decides what switches mean.
[[nodiscard]] RuntimeSpec read_runtime(const YamlNode& node, const FrameworkSpec& framework,
                                       BatchSpec& batch, Diagnostics& diagnostics);

// gpus and parallel; reports a product that does not match.
[[nodiscard]] ParallelPlan read_parallel(MapReader& scenario, Diagnostics& diagnostics);
[[nodiscard]] BatchSpec read_batch(const YamlNode& node, Diagnostics& diagnostics);

} // namespace spillway
