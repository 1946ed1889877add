// A small dense model under the schedules of copies, and the windows that they leave.
#pragma once

#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace spillway::testing {

inline constexpr std::int32_t layers = 4;
inline constexpr std::int32_t first_layer = 1; // 0 is the embedding
inline constexpr std::int32_t last_layer = layers;
// Query of one layer: 4096 tokens x 128 heads x 128 x 2 bytes.
inline constexpr std::int64_t query_bytes = std::int64_t{4096} * 128 * 128 * 2;

inline const std::string dense_model = R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 4}
hardware:
  extends: gb200-nvl72
  host:
    pool_rate: "1000 GB/s"
    d2h: {rate: "100 GB/s", latency: "7 us"}
    h2d: {rate: "125 GB/s", latency: "9 us"}
    peeled_copy_rate: "50 GB/s"
gpus: 1
batch: {micro: 1, sequence: 4096}
precision: {weights: bf16, gradients: bf16, master: none, moment1: bf16, moment2: bf16}
policies:
  recompute: {preset: full}
  none: {preset: none}
  keep: {preset: full, tensors: {query_proj: keep}}
  offload: {preset: full, tensors: {query_proj: offload}}
  two: {preset: full, tensors: {query_proj: offload, mlpwi_0: offload}}
  four: {preset: full, tensors: {query_proj: offload, key_proj: offload, value_proj: offload, mlpwi_0: offload}}
  input: {preset: full, tensors: {decoder_layer_input: offload}}
)";

[[nodiscard]] inline Scenario with_schedule(const std::string& schedule,
                                            const std::vector<std::string>& more = {}) {
  std::vector<std::string> assignments{"runtime.schedule=" + schedule};
  assignments.insert(assignments.end(), more.begin(), more.end());
  return scenario_from(dense_model, assignments);
}

// A copy of `bytes`: latency, then bytes over rate, in whole picoseconds.
[[nodiscard]] inline SimTime copy_time(std::int64_t bytes, double rate, double latency) {
  return to_sim_time(Seconds{latency}) +
         SimTime{static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) / rate * 1e12))};
}

[[nodiscard]] inline SimTime positive(SimTime time) {
  return std::max(SimTime{0}, time);
}

// Makes a copy of `bytes` take `time`, by its rate. Latencies are set to zero.
inline void set_store_time(Scenario& scenario, std::int64_t bytes, SimTime time) {
  scenario.device.d2h_rate.value = static_cast<double>(bytes) / to_seconds(time).count();
  scenario.device.d2h_latency.value = 0;
}
inline void set_reload_time(Scenario& scenario, std::int64_t bytes, SimTime time) {
  scenario.device.h2d_rate.value = static_cast<double>(bytes) / to_seconds(time).count();
  scenario.device.h2d_latency.value = 0;
}
inline void set_peeled_rate(Scenario& scenario, double rate) {
  scenario.device.peeled_copy_rate.value = rate;
}

// Kernels of a layer from the one that produces the query (included) to its end.
[[nodiscard]] inline SimTime from_producer_to_end(const StepView& step, std::int32_t layer) {
  return step.work_between(step.find("query_proj rotary", layer, Phase::forward),
                           step.first_forward(layer + 1));
}
[[nodiscard]] inline SimTime forward_of(const StepView& step, std::int32_t layer) {
  return step.work_between(step.first_forward(layer), step.first_forward(layer + 1));
}
[[nodiscard]] inline SimTime backward_of(const StepView& step, std::int32_t layer) {
  return step.work_between(step.first_backward(layer), step.first_backward(layer - 1));
}
[[nodiscard]] inline SimTime from_top_to_producer(const StepView& step, std::int32_t layer) {
  return forward_of(step, layer) - from_producer_to_end(step, layer);
}
// Under `full` attention runs again in backward, and that reads the query first.
[[nodiscard]] inline SimTime from_top_to_reader(const StepView& step, std::int32_t layer) {
  const TaskId top = step.backward_top(layer);
  return step.work_between(top, step.find("attention", layer, Phase::recompute)) - step.took(top);
}
[[nodiscard]] inline SimTime from_attention_backward_to_end(const StepView& step,
                                                            std::int32_t layer) {
  return step.work_between(step.find("d attention", layer, Phase::backward),
                           step.first_backward(layer - 1));
}

// Times that hold to the picosecond when rates divide evenly; a rate that was
// computed from a time may round each copy by one.
inline void check_close(SimTime got, SimTime expected, std::int64_t copies = 4 * layers) {
  CHECK(std::abs((got - expected).count()) <= copies);
}

} // namespace spillway::testing
