// Folded and unfolded replays of whole scenarios give the same bytes.
#include "tests/support/run_text.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace spillway::testing {
namespace {

// Layers and micro-batches that the graph leaves out.
struct Skipped {
  bool layers = false;
  bool micro_batches = false;
};

Skipped skipped_by(const Simulation& run) {
  Skipped skipped;
  for (const Repeat& repeat : run.timeline.repeats) {
    const bool outer = run.lowered.loops_of[repeat.loop].micro_batches;
    (outer ? skipped.micro_batches : skipped.layers) = true;
  }
  return skipped;
}

const std::vector<std::string> scenarios{"deepseek-v3-gb200", "deepseek-v3-h200",
                                         "llama-3.1-405b-gb200", "qwen3-30b-a3b-slice-gb200"};

// An eager framework streams its copies, and says how far ahead.
std::vector<std::string> schedules_of(const std::string& scenario) {
  return scenario.starts_with("qwen3")
             ? std::vector<std::string>{"streamed"}
             : std::vector<std::string>{"serialized", "loop_bound", "pipelined", "streamed"};
}

TEST_CASE("Folding changes no byte of any scenario, whatever the schedule") {
  std::size_t runs = 0;
  std::size_t with_layers = 0;
  std::size_t with_micro_batches = 0;
  for (const std::string& name : scenarios) {
    for (const std::string& schedule : schedules_of(name)) {
      for (const char* accumulation : {"1", "11"}) {
        const Scenario scenario =
            catalogue(name, {"runtime.schedule=" + schedule,
                             std::string("batch.accumulation=") + accumulation});
        for (const PolicySpec& policy : scenario.policies) {
          CAPTURE(name);
          CAPTURE(schedule);
          CAPTURE(accumulation);
          CAPTURE(policy.name);
          RateCache cache;
          const Simulation full = simulate(scenario, policy, cache, Folding::off);
          const Simulation folded = simulate(scenario, policy, cache);
          const Simulation layered = simulate(scenario, policy, cache, Folding::micro_batches);
          REQUIRE(full.timeline.repeats.empty());
          CHECK(difference(run_text_of(folded), run_text_of(full)) == "");
          CHECK(difference(run_text_of(layered), run_text_of(full)) == "");
          CHECK(difference(explanation_text_of(scenario, layered),
                           explanation_text_of(scenario, full)) == "");
          const Skipped skipped = skipped_by(folded);
          ++runs;
          with_layers += skipped.layers ? 1U : 0U;
          with_micro_batches += skipped.micro_batches ? 1U : 0U;
        }
      }
    }
  }
  // Where copies and collectives share a link, a layer's delay decays from layer to layer
  // and never quite recurs; two of the H200 cases are such. Eight layers are too few.
  CHECK(with_layers >= runs / 2);
  CHECK(with_micro_batches == runs / 2);
}

// Two and three kinds of layer that take turns, in a number of layers that is no multiple
// of them; a whole number of rounds is left out.
TEST_CASE("Folding changes no byte where windowed and full layers take turns") {
  for (const char* every : {"2", "3"}) {
    for (const char* policy_name : {"remat", "offload"}) {
      CAPTURE(every);
      CAPTURE(policy_name);
      const Scenario scenario = catalogue(
          "llama-3.1-405b-gb200",
          {std::string("model.attention.window={tokens: 1024, full_every: ") + every + "}",
           "batch.accumulation=8"});
      const PolicySpec& policy = scenario.policy(policy_name);
      RateCache cache;
      const Simulation folded = simulate(scenario, policy, cache);
      CHECK(skipped_by(folded).layers);
      CHECK(difference(run_text_of(folded),
                       run_text_of(simulate(scenario, policy, cache, Folding::off))) == "");
    }
  }
}

// Copies from the host at the low end of this range delay each layer by less than the one
// before it, without end: layers do not repeat, micro-batches do.
TEST_CASE("A band whose ends do not fold by layers costs no more with thousands of micro-batches") {
  const auto banded = [](const std::string& accumulation, Folding folding) {
    const Scenario scenario =
        catalogue("deepseek-v3-h200",
                  {"model.layers=35", "runtime.schedule=pipelined", "runtime.loss_chunks=1",
                   "hardware.host.h2d.rate={value: 11.7 GB/s, low: 9.4 GB/s, high: 15.2 GB/s}",
                   "batch.accumulation=" + accumulation});
    RateCache cache;
    return simulate_with_band(scenario, scenario.policy("offload"), cache, 2, folding);
  };
  CHECK(run_json(banded("7", Folding::automatic).result) ==
        run_json(banded("7", Folding::off).result));
  const Simulation many = banded("4000", Folding::automatic);
  CHECK(many.result.step_time_low_s < many.result.step_time_s);
}

TEST_CASE("A step that is too long to replay one by one says so") {
  const Scenario scenario = catalogue("deepseek-v3-gb200", {"batch.accumulation=4000"});
  RateCache cache;
  CHECK_THROWS_WITH_AS(
      static_cast<void>(simulate(scenario, scenario.policy("remat"), cache, Folding::off)),
      doctest::Contains("a step of about 59 million tasks is too long to replay one by one"),
      InputError);
  CHECK(simulate(scenario, scenario.policy("remat"), cache).result.step_time_s > 0);
}

TEST_CASE("Folding changes no byte with other switches") {
  for (const std::vector<std::string>& set : std::vector<std::vector<std::string>>{
           {"batch.accumulation=7", "runtime.collectives=exposed"},
           {"batch.accumulation=8", "runtime.async_compute_limit=1"},
           {"batch.accumulation=13", "runtime.schedule=streamed", "runtime.prefetch_layers=4",
            "runtime.in_flight_layers=3", "model.layers=40"}}) {
    CAPTURE(set.back());
    const Scenario scenario = catalogue("llama-3.1-405b-gb200", set);
    RateCache cache;
    const PolicySpec& policy = scenario.policy("offload");
    CHECK(difference(run_text_of(simulate(scenario, policy, cache)),
                     run_text_of(simulate(scenario, policy, cache, Folding::off))) == "");
  }
}

struct Deep {
  const char* scenario;
  std::vector<std::string> set;
  std::int64_t first; // layers
};

// A loop that is cut is two: each repeats itself, and leaves layers out, on its own. The
// first loop has 3 dense layers; a cut at 3 is between loops, one at 2 inside the first.
TEST_CASE("Folding changes no byte where the first layers have fates of their own") {
  const std::vector<std::string> eager{"model.layers=48", "batch.micro=2"};
  const std::vector<std::string> windowed{"model.attention.window={tokens: 1024, full_every: 3}",
                                          "batch.accumulation=8"};
  for (const Deep& deep :
       std::vector<Deep>{{"deepseek-v3-gb200", {}, 2},
                         {"deepseek-v3-gb200", {}, 3},
                         {"deepseek-v3-gb200", {}, 10},
                         {"deepseek-v3-gb200", {"batch.accumulation=11"}, 30},
                         {"deepseek-v3-gb200", {"runtime.schedule=streamed"}, 30},
                         {"llama-3.1-405b-gb200", windowed, 50},
                         {"qwen3-30b-a3b-slice-gb200", eager, 20}}) {
    CAPTURE(deep.scenario);
    CAPTURE(deep.first);
    const Scenario scenario = catalogue(deep.scenario, deep.set);
    PolicySpec offload_first = scenario.policy("remat");
    offload_first.first = {deep.first, scenario.policy("offload").tensors, {}};
    PolicySpec remat_first = scenario.policy("offload");
    remat_first.first = {deep.first, {{"query_proj", Fate::recompute}}, {}};
    for (const PolicySpec& policy : {offload_first, remat_first}) {
      RateCache cache;
      const Simulation folded = simulate(scenario, policy, cache);
      const Simulation full = simulate(scenario, policy, cache, Folding::off);
      CHECK(skipped_by(folded).layers);
      CHECK(difference(run_text_of(folded), run_text_of(full)) == "");
      const Simulation layered = simulate(scenario, policy, cache, Folding::micro_batches);
      CHECK(difference(explanation_text_of(scenario, layered),
                       explanation_text_of(scenario, full)) == "");
    }
  }
}

} // namespace
} // namespace spillway::testing
