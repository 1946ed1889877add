// Two GPUs of one CPU share its memory: 360 GB/s for all of their copies, while a
// GPU alone gets its link, 193 GB/s out and 201 GB/s back. The loop is not rotated,
// so that no copy is peeled and all are alike; a test of its own rotates it.
#include "results/explanation.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr std::int64_t query_bytes = std::int64_t{4096} * 128 * 128 * 2;

Scenario scenario_on(int gpus, const std::vector<std::string>& more = {}) {
  std::vector<std::string> assignments{"gpus=" + std::to_string(gpus)};
  assignments.insert(assignments.end(), more.begin(), more.end());
  return scenario_from(R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 3}
hardware: gb200-nvl72
batch: {micro: 1, sequence: 4096}
gpus: 1
runtime: {schedule: serialized, pipelined_host_offloading: false}
policies:
  offload: {preset: full, tensors: {query_proj: offload}}
)",
                       assignments);
}

Simulation on_gpus(int gpus, const std::vector<std::string>& more = {}) {
  return run(scenario_on(gpus, more), "offload");
}

SimTime copy_time(double rate) {
  return to_sim_time(Seconds{5e-6}) + SimTime{static_cast<std::int64_t>(std::ceil(
                                          static_cast<double>(query_bytes) / rate * 1e12))};
}

// A rate that sharing splits may be a little off a whole number.
void check_took(const StepView& step, TaskId task, SimTime expected) {
  CHECK(std::abs((step.took(task) - expected).count()) <= 2);
}

} // namespace

TEST_CASE("A GPU that has its CPU to itself copies at the rate of its link") {
  const Simulation simulation = on_gpus(1);
  const StepView step(simulation);
  REQUIRE(simulation.lowered.lanes.size() == 1);
  for (std::int32_t layer = 1; layer <= 3; ++layer) {
    check_took(step, step.store("query_proj", layer), copy_time(193e9));
    check_took(step, step.reload("query_proj", layer), copy_time(201e9));
  }
  const Explanation explanation = explain(simulation);
  CHECK(explanation.sharing.empty());
  CHECK(explanation.sharing_gpus == 1);
}

// With rotation the last store and the first reload are kernels, which reach 180 GB/s
// where the link would allow more.
TEST_CASE("A peeled copy has a rate of its own, also without a neighbour") {
  const Simulation simulation = on_gpus(1, {"runtime.pipelined_host_offloading=true"});
  const StepView step(simulation);
  for (const std::int32_t layer : {1, 2}) {
    check_took(step, step.store("query_proj", layer), copy_time(193e9));
    check_took(step, step.reload("query_proj", layer), copy_time(201e9));
  }
  check_took(step, step.store("query_proj", 3), copy_time(180e9));
  check_took(step, step.reload("query_proj", 3), copy_time(180e9));
  CHECK(explain(simulation).sharing.empty());
}

// Both store at once: 360 / 2 = 180 GB/s each, below the link's 193; both reload
// at once: 180 each again, below 201.
TEST_CASE("Two GPUs of one CPU that copy at once get half of its memory rate each") {
  const Simulation simulation = on_gpus(2);
  REQUIRE(simulation.lowered.lanes.size() == 2);
  for (const std::uint16_t rank : {std::uint16_t{0}, std::uint16_t{1}}) {
    const StepView step(simulation, rank);
    for (std::int32_t layer = 1; layer <= 3; ++layer) {
      check_took(step, step.store("query_proj", layer), copy_time(180e9));
      check_took(step, step.reload("query_proj", layer), copy_time(180e9));
    }
  }
}

TEST_CASE("Four GPUs are two pairs, each on its own CPU") {
  const Simulation simulation = on_gpus(4);
  REQUIRE(simulation.lowered.lanes.size() == 2);
  const StepView step(simulation);
  check_took(step, step.store("query_proj", 2), copy_time(180e9));
}

// With a pool of 500 GB/s the links are narrower: 193 + 193 < 500.
TEST_CASE("A pool that is wider than both links costs nothing") {
  const Simulation simulation = on_gpus(2, {"hardware.host.pool_rate=500 GB/s"});
  const StepView step(simulation);
  check_took(step, step.store("query_proj", 2), copy_time(193e9));
  CHECK(explain(simulation).sharing.empty());
}

// 3 stores and 3 reloads; alone they would take their link's time.
TEST_CASE("The explanation says what sharing cost and which resource held it back") {
  const Simulation simulation = on_gpus(2);
  const Explanation explanation = explain(simulation);
  CHECK(explanation.sharing_gpus == 2);
  REQUIRE(explanation.sharing.size() == 2);
  // Most time lost first: reloads lose more, their link is faster.
  const SharingGroup& reloads = explanation.sharing[0];
  const SharingGroup& stores = explanation.sharing[1];
  CHECK(reloads.what == "reload query_proj");
  CHECK(stores.what == "store query_proj");
  for (const SharingGroup* group : {&reloads, &stores}) {
    CHECK(group->resource == "CPU memory");
    CHECK(group->count == 3);
    CHECK(to_seconds(group->time).count() ==
          doctest::Approx(3 * to_seconds(copy_time(180e9)).count()));
  }
  CHECK(to_seconds(stores.time_alone).count() ==
        doctest::Approx(3 * to_seconds(copy_time(193e9)).count()));
  CHECK(to_seconds(reloads.time_alone).count() ==
        doctest::Approx(3 * to_seconds(copy_time(201e9)).count()));
  // 5 us + 134217728 B / 180 GB/s = 750.7 us and so on.
  const std::string text = explanation_text(scenario_on(2), simulation, explanation, 10);
  CAPTURE(text);
  CHECK(text.find("What sharing costs (2 GPUs use one CPU's memory)\n"
                  "  3 x reload query_proj: 750.7 us each instead of 672.7 us alone, "
                  "held back by CPU memory\n"
                  "  3 x store query_proj: 750.7 us each instead of 700.4 us alone, "
                  "held back by CPU memory\n") != std::string::npos);
}
