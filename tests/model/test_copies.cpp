// Limits and places of single copies, beside what test_schedules.cpp derives of whole steps.
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr std::int32_t first_layer = 1; // 0 is the embedding
// Query of one layer: 4096 tokens x 128 heads x 128 x 2 bytes.
constexpr double query_bytes = 4096.0 * 128 * 128 * 2;

const std::string model = R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 4}
hardware:
  extends: gb200-nvl72
  host:
    pool_rate: "1000 GB/s"
    d2h: {rate: "100 GB/s", latency: "7 us"}
    h2d: {rate: "125 GB/s", latency: "9 us"}
    loop_store_share: 0.4
gpus: 1
batch: {micro: 1, sequence: 4096}
precision: {weights: bf16, gradients: bf16, master: none, moment1: bf16, moment2: bf16}
policies:
  offload: {preset: full, tensors: {query_proj: offload}}
  four: {preset: full, tensors: {query_proj: offload, key_proj: offload, value_proj: offload, mlpwi_0: offload}}
  both: {preset: full, tensors: {query_proj: offload, key_proj: offload, mlpwi_0: offload, mlpwi_1: offload}}
)";

Simulation simulated(const std::string& schedule, const std::string& policy,
                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> assignments{"runtime.schedule=" + schedule};
  assignments.insert(assignments.end(), more.begin(), more.end());
  return run(scenario_from(model, assignments), policy);
}

// Latency, then bytes over rate, in whole picoseconds.
SimTime copy_time(double rate, double latency) {
  return to_sim_time(Seconds{latency}) +
         SimTime{static_cast<std::int64_t>(std::ceil(query_bytes / rate * 1e12))};
}

} // namespace

// 128 MiB at 0.4 of the link's 100 GB/s where a compiled loop stores on a stream of its own;
// in a graph, and in an eager framework, at all of it. A faster link is a faster store.
TEST_CASE("A loop's share of the link limits its own stores and nothing else") {
  for (const char* schedule : {"loop_bound", "pipelined"}) {
    CAPTURE(schedule);
    const Simulation simulation = simulated(schedule, "offload");
    const StepView step(simulation);
    CHECK(step.took(step.store("query_proj", first_layer)) == copy_time(40e9, 7e-6));
    CHECK(step.took(step.reload("query_proj", first_layer)) == copy_time(125e9, 9e-6));
    const Simulation faster = simulated(schedule, "offload", {"hardware.host.d2h.rate=200 GB/s"});
    const StepView other(faster);
    CHECK(other.took(other.store("query_proj", first_layer)) == copy_time(80e9, 7e-6));
  }
  for (const char* schedule : {"serialized", "streamed"}) {
    CAPTURE(schedule);
    const Simulation simulation = simulated(schedule, "offload");
    const StepView step(simulation);
    CHECK(step.took(step.store("query_proj", first_layer)) == copy_time(100e9, 7e-6));
  }
}

// Gate and up are used up before the backward of attention, so that their buffers are free
// for those of the next layer, which come after the others. Alone, the gate is also read by
// the product's re-run for the last weight gradients.
TEST_CASE("A tensor that is used up early is reloaded into its own buffer") {
  const Simulation simulation = simulated("pipelined", "both");
  const StepView step(simulation);
  const TaskId user = step.find("d mlp activation", first_layer + 1, Phase::backward);
  for (const char* early : {"mlpwi_0", "mlpwi_1"}) {
    const TaskId reload = step.reload(early, first_layer);
    CHECK(step.start(reload) >= step.end(user));
    CHECK(step.start(reload) >= step.end(step.reload("key_proj", first_layer)));
  }
  CHECK(step.start(step.reload("query_proj", first_layer)) < step.start(user));
  const Simulation alone = simulated("pipelined", "four");
  const StepView other(alone);
  CHECK(other.start(other.reload("mlpwi_0", first_layer)) <
        other.start(other.find("d mlp activation", first_layer + 1, Phase::backward)));
}
