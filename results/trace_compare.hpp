// One measured step, kernel by kernel, against its prediction: where a difference in
// step time comes from.
//
// Both sides are the same quantities (results/step_activity.hpp) of a profiler's
// trace and of the simulated timeline of a record of measured steps. Nothing here
// passes or misses: there is no tolerance.
#pragma once

#include "results/profiles.hpp"
#include "results/trace_format.hpp"

#include <optional>
#include <string>
#include <vector>

namespace spillway {

// The record of that id; without an id the only one. Throws InputError.
[[nodiscard]] const ProfileRecord& chosen_record(const std::vector<ProfileRecord>& records,
                                                 const std::string& id);

// Number of a step of the trace, from 1; the last one by default. Throws InputError.
[[nodiscard]] std::size_t chosen_step(const DeviceTrace& trace, std::optional<std::int64_t> step);

struct TraceComparison {
  std::string record, hardware, file, format, device;
  std::size_t step = 0, steps = 0;
  StepTotals trace, predicted;
  double matmul_flops = 0; // of the predicted step
  double clock_speed = 1;  // predicted, of matmul and attention
};

[[nodiscard]] TraceComparison compare_with_trace(const ProfileRecord& record, const Device& device,
                                                 const FrameworkSpec& framework,
                                                 const DeviceTrace& trace, std::size_t step);

[[nodiscard]] std::string trace_comparison_text(const TraceComparison& comparison);
[[nodiscard]] std::string trace_comparison_json(const TraceComparison& comparison);

} // namespace spillway
