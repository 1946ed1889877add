// Limits and places of single copies, beside what test_schedules.cpp derives of whole steps.
#include "tests/support/schedules.hpp"

#include <doctest/doctest.h>

using namespace spillway;
using namespace spillway::testing;

namespace {

// One store or reload of the query of a layer.
SimTime query_copy(double rate, double latency) {
  return copy_time(query_bytes, rate, latency);
}

Simulation simulated(const std::string& schedule, const std::string& policy,
                     const std::vector<std::string>& more = {}) {
  return run(with_schedule(schedule, more), policy);
}

} // namespace

// 128 MiB at 0.4 of the link's 100 GB/s where a compiled loop stores on a stream of its own;
// in a graph, and in an eager framework, at all of it. A faster link is a faster store.
TEST_CASE("A loop's share of the link limits its own stores and nothing else") {
  const std::string share = "hardware.host.loop_store_share=0.4";
  for (const char* schedule : {"loop_bound", "pipelined"}) {
    CAPTURE(schedule);
    const Simulation simulation = simulated(schedule, "offload", {share});
    const StepView step(simulation);
    CHECK(step.took(step.store("query_proj", first_layer)) == query_copy(40e9, 7e-6));
    CHECK(step.took(step.reload("query_proj", first_layer)) == query_copy(125e9, 9e-6));
    const Simulation faster =
        simulated(schedule, "offload", {share, "hardware.host.d2h.rate=200 GB/s"});
    const StepView other(faster);
    CHECK(other.took(other.store("query_proj", first_layer)) == query_copy(80e9, 7e-6));
  }
  for (const char* schedule : {"serialized", "streamed"}) {
    CAPTURE(schedule);
    const Simulation simulation = simulated(schedule, "offload", {share});
    const StepView step(simulation);
    CHECK(step.took(step.store("query_proj", first_layer)) == query_copy(100e9, 7e-6));
  }
}

// Gate and up are used up before the backward of attention, so that their buffers are free
// for those of the next layer, which come after the others. Alone, the gate is also read by
// the product's re-run for the last weight gradients.
TEST_CASE("A tensor that is used up early is reloaded into its own buffer") {
  const Simulation simulation =
      simulated("pipelined", "both",
                {"policies.both={preset: full, tensors: {query_proj: offload, key_proj: offload, "
                 "mlpwi_0: offload, mlpwi_1: offload}}"});
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
