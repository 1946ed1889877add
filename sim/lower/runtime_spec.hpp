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

// Rows of the busiest GPU over the mean; whether the split allows it is not checked here.
[[nodiscard]] double read_routing_imbalance(const YamlNode& node, Diagnostics& diagnostics);

} // namespace spillway
