// Offload in the first layers only: what it moves and spares, and where it is no other
// policy at all.
#include "tests/support/run_text.hpp"
#include "tests/support/schedules.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace spillway::testing {
namespace {

const std::vector<std::string> schedules{"serialized", "loop_bound", "pipelined", "streamed"};

// `policy` with the fates that `fates` lists, in the first layers.
PolicySpec with_first(const Scenario& scenario, const std::string& policy, std::int64_t layers,
                      const std::string& fates) {
  PolicySpec deep = scenario.policy(policy);
  deep.first = {layers, scenario.policy(fates).tensors, scenario.policy(fates).by_kind};
  return deep;
}

double recompute_of(const Simulation& run) {
  return run.result.time[static_cast<std::size_t>(TimeBin::recompute)];
}

// N of L layers store and reload N/L of the bytes, all of which are in host memory when
// forward ends. Recompute: N layers spare the projection, L - N do not.
TEST_CASE("Offload in the first layers moves and holds their share, and spares their recompute") {
  for (const std::string& schedule : schedules) {
    CAPTURE(schedule);
    const Scenario scenario = with_schedule(schedule);
    const Simulation none = run(scenario, "recompute");
    const Simulation all = run(scenario, "offload");
    REQUIRE(all.result.d2h_bytes == layers * query_bytes);
    REQUIRE(recompute_of(all) < recompute_of(none));
    double before = 1e9;
    for (std::int64_t first = 0; first <= layers; ++first) {
      CAPTURE(first);
      RateCache cache;
      const Simulation deep =
          simulate(scenario, with_first(scenario, "recompute", first, "offload"), cache);
      CHECK(deep.result.d2h_bytes == first * query_bytes);
      CHECK(deep.result.h2d_bytes == first * query_bytes);
      CHECK(deep.result.peak_host_bytes == first * query_bytes);
      const double share = static_cast<double>(first) / layers;
      CHECK(recompute_of(deep) ==
            doctest::Approx(share * recompute_of(all) + (1 - share) * recompute_of(none)));
      CHECK(recompute_of(deep) < before);
      before = recompute_of(deep);
    }
  }
}

// A loop of its own stores the last of its layers, and reloads it, by kernels. Each of the
// two loops has tensors to copy here, so twice as many copies are exposed.
TEST_CASE("Each of two loops peels its first and last layer") {
  const Scenario scenario = with_schedule("pipelined");
  RateCache cache;
  PolicySpec deep = scenario.policy("offload");
  deep.first = {2, {{"mlpwi_0", Fate::offload}}, {}};
  const Simulation simulation = simulate(scenario, deep, cache, Folding::off);
  const StepView step(simulation);
  for (std::int32_t layer = first_layer; layer <= last_layer; ++layer) {
    CAPTURE(layer);
    const bool last_of_loop = layer == 2 || layer == last_layer;
    const LaneId out = last_of_loop ? step.lanes().compute : step.lanes().d2h;
    const LaneId back = last_of_loop ? step.lanes().compute : step.lanes().h2d;
    CHECK(step.lane(step.store("query_proj", layer)) == out);
    CHECK(step.lane(step.reload("query_proj", layer)) == back);
  }
}

// No layer, or all of them, is one loop and one policy.
TEST_CASE("Fates of no first layer, or of all layers, are those of a uniform policy") {
  for (const char* name :
       {"deepseek-v3-gb200", "llama-3.1-405b-gb200", "qwen3-30b-a3b-slice-gb200"}) {
    CAPTURE(name);
    const Scenario scenario = catalogue(name);
    const PolicySpec& offload = scenario.policy("offload");
    for (const std::int64_t first : {std::int64_t{0}, decoder_layers(scenario.trace)}) {
      CAPTURE(first);
      PolicySpec deep = with_first(scenario, "remat", first, "offload");
      PolicySpec uniform = first == 0 ? scenario.policy("remat") : offload;
      uniform.name = deep.name;
      RateCache cache;
      const Simulation one = simulate_with_band(scenario, deep, cache, 2, Folding::micro_batches);
      const Simulation other =
          simulate_with_band(scenario, uniform, cache, 2, Folding::micro_batches);
      CHECK(difference(run_text_of(one), run_text_of(other)) == "");
      CHECK(difference(explanation_text_of(scenario, one), explanation_text_of(scenario, other)) ==
            "");
    }
  }
}

// The deeper the three tensors are kept, the smaller the batch whose tensors fit.
TEST_CASE("The largest micro-batch that fits shrinks with the depth of what is kept") {
  const std::string micro = "batch.micro=16";
  std::vector<std::int64_t> fits;
  for (const char* first : {"0", "25 %", "50 %", "100 %"}) {
    const std::string policy =
        std::string("policies.deep={preset: full, first: {layers: ") + first +
        ", tensors: {query_proj: keep, moe_mlpwi_0: keep, moe_mlpwi_1: keep}}}";
    fits.push_back(
        largest_fitting_micro_batch(catalogue("deepseek-v3-gb200", {micro, policy}), "deep"));
  }
  const Scenario uniform = catalogue("deepseek-v3-gb200", {micro});
  CHECK(fits.front() == largest_fitting_micro_batch(uniform, "remat"));
  CHECK(std::adjacent_find(fits.begin(), fits.end(), std::less_equal<>{}) == fits.end());
  CHECK(fits.back() == largest_fitting_micro_batch(uniform, "save"));
}

TEST_CASE("A policy with first layers of its own has a band around its time") {
  const Scenario scenario = catalogue("deepseek-v3-gb200");
  RateCache cache;
  const RunResult band =
      simulate_with_band(scenario, with_first(scenario, "remat", 30, "offload"), cache, 2).result;
  CHECK(band.step_time_low_s < band.step_time_s);
  CHECK(band.step_time_s < band.step_time_high_s);
}

TEST_CASE("An explanation tells the first layers' fates before those of the others") {
  const Scenario scenario = catalogue("deepseek-v3-gb200");
  RateCache cache;
  const Simulation run =
      simulate(scenario, with_first(scenario, "remat", 10, "offload"), cache, Folding::off);
  const std::string text = explanation_text_of(scenario, run);
  const std::size_t dense = text.find("tensors of a dense layer, one micro-batch");
  const std::size_t first = text.find("tensors of a moe layer among the first 10, one micro-batch");
  const std::size_t others =
      text.find("tensors of a moe layer after the first 10, one micro-batch");
  REQUIRE(others != std::string::npos);
  CHECK(dense < first);
  CHECK(first < others);
  const auto offloads = [&](std::size_t from) {
    return text.substr(from, 2500).find(" offload ") < text.substr(from, 2500).find("\n\n");
  };
  CHECK(offloads(first));
  CHECK_FALSE(offloads(others));
}

} // namespace
} // namespace spillway::testing
