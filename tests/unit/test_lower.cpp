// What holds for every lowered step, whatever the model, policy or schedule.
#include "sim/lower/lower.hpp"

#include "results/write.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr std::array<CopySchedule, 4> schedules{CopySchedule::serialized, CopySchedule::loop_bound,
                                                CopySchedule::pipelined, CopySchedule::streamed};

const std::string mixed = R"(kind: scenario
model: {extends: deepseek-v3-671b, layers: 5}
hardware: gb200-nvl72
gpus: 16
parallel: {fsdp: 4, expert: 4}
batch: {micro: 2, accumulation: 2, sequence: 4096}
precision: {weights: fp32, gradients: fp32, master: none, moment1: fp32, moment2: fp32}
runtime: {framework: maxtext}
policies:
  remat: {preset: full}
  keep: {preset: none}
  offload: {preset: full, tensors: {query_proj: offload, moe_mlpwi_0: offload, decoder_layer_input: offload}}
)";

// Every committed scenario under every schedule, with and without accumulation.
template <class Check>
void for_all_steps(const Check& check) {
  const Catalog catalog({"."});
  for (const std::string& name : catalog.names(CatalogKind::scenario)) {
    CAPTURE(name);
    for (const char* accumulation : {"1", "3"}) {
      CAPTURE(accumulation);
      Scenario scenario =
          load_scenario(catalog, name, {std::string("batch.accumulation=") + accumulation});
      for (const CopySchedule schedule : schedules) {
        CAPTURE(schedule_name(schedule));
        scenario.runtime.schedule = schedule;
        for (const PolicySpec& policy : scenario.policies) {
          CAPTURE(policy.name);
          check(scenario, policy);
        }
      }
    }
  }
}

std::vector<std::int64_t> held_at_the_start(const Lowered& lowered) {
  std::vector<std::int64_t> bytes(lowered.machine.pools.size(), 0);
  for (const MemoryChange& change : lowered.graph.initial) {
    bytes[change.pool] += change.bytes;
  }
  return bytes;
}

double sum_of_bins(const RunResult& result) {
  return std::accumulate(result.time.begin(), result.time.end(), 0.0);
}

} // namespace

// Every byte that a step takes it gives back: what is held at its end is what was
// held before it, in HBM and in host memory. The engine itself refuses to free
// more than an owner holds.
TEST_CASE("Every step gives back all memory that it takes") {
  for_all_steps([](const Scenario& scenario, const PolicySpec& policy) {
    RateCache cache; // tables differ between scenarios
    const Simulation simulation = simulate(scenario, policy, cache);
    CHECK(simulation.timeline.final_bytes == held_at_the_start(simulation.lowered));
    const RunResult& r = simulation.result;
    CHECK(r.d2h_bytes == r.h2d_bytes);
    std::int64_t owners = 0;
    for (const auto& [name, bytes] : r.hbm_owners) {
      owners += bytes;
    }
    CHECK(owners == r.peak_hbm_bytes);
    // Bins are integer picoseconds that sum exactly; converting each to seconds
    // rounds once per bin.
    CHECK(sum_of_bins(r) == doctest::Approx(r.step_time_s).epsilon(1e-12));
    CHECK(r.peak_host_bytes <= r.d2h_bytes);
  });
}

TEST_CASE("A small mixed model with casts, experts and accumulation balances as well") {
  Scenario scenario = scenario_from(mixed);
  for (const CopySchedule schedule : schedules) {
    for (const bool overlapped : {true, false}) {
      for (const bool last : {true, false}) {
        for (const std::int64_t ahead : {1, 2, 7}) {
          scenario.runtime.schedule = schedule;
          scenario.runtime.overlap_collectives = overlapped;
          scenario.runtime.offload_last_layer = last;
          scenario.runtime.prefetch_layers = ahead;
          scenario.runtime.in_flight_layers = ahead;
          for (const PolicySpec& policy : scenario.policies) {
            CAPTURE(schedule_name(schedule));
            CAPTURE(overlapped);
            CAPTURE(last);
            CAPTURE(ahead);
            CAPTURE(policy.name);
            RateCache cache;
            const Simulation simulation = simulate(scenario, policy, cache);
            CHECK(simulation.timeline.final_bytes == held_at_the_start(simulation.lowered));
            CHECK(simulation.result.d2h_bytes == simulation.result.h2d_bytes);
          }
        }
      }
    }
  }
}

// Both GPUs of a CPU do the same and share evenly.
// Groups of one rank: whole layers and whole experts, cast and folded matrix by matrix in
// a compiled loop, layer by layer elsewhere.
TEST_CASE("Groups that one rank holds balance under every framework and precision") {
  const std::vector<std::vector<std::string>> splits{{"gpus=1", "parallel={fsdp: 1, expert: 1}"},
                                                     {"gpus=8", "parallel={fsdp: 1, expert: 8}"}};
  for (const std::vector<std::string>& split : splits) {
    for (const char* weights : {"fp32", "bf16"}) {
      for (const char* framework : {"maxtext", "jax-scan", "pytorch",
                                    "{extends: maxtext, gradients_allocated_at_once: false}"}) {
        CAPTURE(split.front());
        CAPTURE(weights);
        CAPTURE(framework);
        std::vector<std::string> assignments = split;
        assignments.push_back(std::string("precision.weights=") + weights);
        assignments.push_back(std::string("runtime.framework=") + framework);
        assignments.emplace_back("policies.offload.tensors={moe_mlpwi_0: offload}");
        assignments.emplace_back("policies.unchecked={preset: none}");
        const Scenario scenario = scenario_from(mixed, assignments);
        for (const PolicySpec& policy : scenario.policies) {
          CAPTURE(policy.name);
          RateCache cache;
          const Simulation simulation = simulate(scenario, policy, cache);
          CHECK(simulation.timeline.final_bytes == held_at_the_start(simulation.lowered));
        }
      }
    }
  }
}

TEST_CASE("Two symmetric ranks have identical timelines") {
  const Scenario scenario = scenario_from(mixed);
  for (const PolicySpec& policy : scenario.policies) {
    CAPTURE(policy.name);
    RateCache cache;
    const Simulation simulation = simulate(scenario, policy, cache);
    const Lowered& lowered = simulation.lowered;
    REQUIRE(lowered.lanes.size() == 2);
    const auto lanes_of = [&](std::size_t rank) {
      const RankLanes& lanes = lowered.lanes[rank];
      return std::array<LaneId, 6>{lanes.compute, lanes.d2h,      lanes.h2d,
                                   lanes.weights, lanes.exchange, lanes.release};
    };
    for (std::size_t lane = 0; lane < lanes_of(0).size(); ++lane) {
      const auto first = lowered.graph.tasks_of(lanes_of(0)[lane]);
      const auto second = lowered.graph.tasks_of(lanes_of(1)[lane]);
      REQUIRE(first.size() == second.size());
      int different = 0;
      for (std::size_t i = 0; i < first.size(); ++i) {
        const bool same =
            simulation.timeline.tasks[first[i]].start ==
                simulation.timeline.tasks[second[i]].start &&
            simulation.timeline.tasks[first[i]].end == simulation.timeline.tasks[second[i]].end;
        different += same ? 0 : 1;
      }
      CHECK(different == 0);
    }
    CHECK(simulation.timeline.peaks[lowered.hbm_pool[0]].bytes ==
          simulation.timeline.peaks[lowered.hbm_pool[1]].bytes);
  }
}

TEST_CASE("The expected step time lies inside its band") {
  for (const std::string& name : Catalog({"."}).names(CatalogKind::scenario)) {
    CAPTURE(name);
    Scenario scenario = catalogue(name, {"batch.accumulation=1"});
    RateCache cache;
    const RunResult r = simulate_with_band(scenario, scenario.policy("offload"), cache, 2).result;
    CHECK(r.step_time_low_s < r.step_time_s);
    CHECK(r.step_time_s < r.step_time_high_s);
    CHECK(r.step_time_low_s > 0.3 * r.step_time_s);
    CHECK(r.step_time_high_s < 3.0 * r.step_time_s);
  }
}

// The band of one uncertain coefficient is the step time at its ends.
TEST_CASE("A band of a single coefficient is what the step takes at its ends") {
  Scenario scenario = scenario_from(mixed);
  for (Coefficient* c : scenario.device.coefficients()) {
    if (c != &scenario.device.matmul_derate) {
      c->low = c->high = c->value;
    }
  }
  RateCache cache;
  const RunResult r = simulate_with_band(scenario, scenario.policy("remat"), cache, 1).result;
  REQUIRE(r.sensitivities.size() == 1);
  CHECK(r.sensitivities[0].coefficient == "hardware.gpu.matmul_derate");
  const auto at = [&](double value) {
    Scenario varied = scenario;
    varied.device.matmul_derate.value = value;
    return run(varied, "remat").result.step_time_s;
  };
  CHECK(r.sensitivities[0].at_low_s == at(scenario.device.matmul_derate.low));
  CHECK(r.sensitivities[0].at_high_s == at(scenario.device.matmul_derate.high));
  // Slower products take longer: the low end of the rate is the high end of time.
  CHECK(r.step_time_high_s == doctest::Approx(at(scenario.device.matmul_derate.low)));
  CHECK(r.step_time_low_s == doctest::Approx(at(scenario.device.matmul_derate.high)));
}

TEST_CASE("Equal inputs give equal bytes, with any number of threads") {
  const auto json = [](unsigned threads) {
    const Scenario scenario = scenario_from(mixed);
    RateCache cache;
    return run_json(
        simulate_with_band(scenario, scenario.policy("offload"), cache, threads).result);
  };
  const std::string once = json(1);
  CHECK(json(1) == once);
  CHECK(json(4) == once);
  CHECK(json(3) == once);
}

TEST_CASE("A simulation leaves the prices that it started with") {
  const Scenario scenario = scenario_from(mixed);
  RateCache cache;
  const Simulation banded = simulate_with_band(scenario, scenario.policy("offload"), cache, 2);
  const Simulation plain = simulate(scenario, scenario.policy("offload"), cache);
  CHECK(banded.lowered.graph.tasks == plain.lowered.graph.tasks);
  CHECK(banded.timeline.tasks == plain.timeline.tasks);
}

// ---- shape of a step ----

// Embedding, 3 dense layers, 2 with experts, head.
TEST_CASE("Layers are numbered from zero and named after their kind") {
  const Simulation simulation = run(scenario_from(mixed), "remat");
  CHECK(simulation.lowered.layer_names ==
        std::vector<std::string>{"embedding", "layer 0 (dense)", "layer 1 (dense)",
                                 "layer 2 (dense)", "layer 3 (moe)", "layer 4 (moe)", "head"});
  const StepView step(simulation);
  CHECK(simulation.lowered.describe(step.find("attention", 4, Phase::forward),
                                    simulation.timeline) == "attention in layer 3 (moe)");
  CHECK(simulation.lowered.describe(step.find("attention", 4, Phase::recompute),
                                    simulation.timeline) == "re-run of attention in layer 3 (moe)");
}

// Two loops: 3 dense layers and 2 with experts. Each has its own last store and
// first reload.
TEST_CASE("Each loop of a pipelined step peels its own ends") {
  Scenario scenario = scenario_from(mixed, {"batch.accumulation=1"});
  scenario.runtime.schedule = CopySchedule::pipelined;
  const Simulation simulation = run(scenario, "offload");
  const StepView step(simulation);
  for (std::int32_t layer = 1; layer <= 5; ++layer) {
    CAPTURE(layer);
    const bool peeled = layer == 3 || layer == 5;
    const LaneId out = peeled ? step.lanes().compute : step.lanes().d2h;
    const LaneId back = peeled ? step.lanes().compute : step.lanes().h2d;
    CHECK(step.lane(step.store("query_proj", layer)) == out);
    CHECK(step.lane(step.reload("query_proj", layer)) == back);
  }
}

double flops_of(const Simulation& run) {
  return sums_of(run.lowered, run.timeline).hardware_flops;
}

// Accumulation runs forward and backward again, the optimizer and the gap once:
// flops and copies are those of one micro-batch times their number.
TEST_CASE("Accumulated micro-batches multiply work and copies") {
  const Simulation one = run(scenario_from(mixed, {"batch.accumulation=1"}), "offload");
  const Simulation three = run(scenario_from(mixed, {"batch.accumulation=3"}), "offload");
  CHECK(three.result.d2h_bytes == 3 * one.result.d2h_bytes);
  CHECK(flops_of(three) == doctest::Approx(3 * flops_of(one)));
  CHECK(three.result.time[static_cast<std::size_t>(TimeBin::optimizer)] ==
        one.result.time[static_cast<std::size_t>(TimeBin::optimizer)]);
  // Each micro-batch's copies are gone before the next one's.
  CHECK(three.result.peak_host_bytes == one.result.peak_host_bytes);
}

// Exposed collectives run on the compute lane and can only add time.
TEST_CASE("Exposed collectives run where kernels run") {
  const Simulation hidden = run(scenario_from(mixed), "remat");
  const Simulation exposed = run(scenario_from(mixed, {"runtime.collectives=exposed"}), "remat");
  const StepView step(exposed);
  const StepView overlapped(hidden);
  CHECK(exposed.lowered.graph.tasks_of(step.lanes().weights).empty());
  CHECK(exposed.lowered.graph.tasks_of(step.lanes().exchange).empty());
  CHECK_FALSE(hidden.lowered.graph.tasks_of(overlapped.lanes().weights).empty());
  CHECK_FALSE(hidden.lowered.graph.tasks_of(overlapped.lanes().exchange).empty());
  CHECK(exposed.result.step_time_s > hidden.result.step_time_s);
}

// Recomputing everything executes forward's needed part again; keeping what
// backward reads executes only what the model counts three times.
TEST_CASE("Executed flops are model flops plus what is run again") {
  const Simulation keep = run(scenario_from(mixed), "keep");
  const Simulation remat = run(scenario_from(mixed), "remat");
  const StepTrace trace = scenario_from(mixed).trace;
  const auto run_again = [&](const Plan& plan) {
    double flops = 0;
    for (const LayerBlock& block : trace.blocks) {
      for (const OpIndex op : plan.kinds[block.kinds.front()].rerun) {
        flops += trace.kinds[block.kinds.front()].ops[op].work.flops().value() *
                 static_cast<double>(block.layers);
      }
    }
    return flops;
  };
  const double again = run_again(remat.plan) - run_again(keep.plan);
  CHECK(again > 0);
  CHECK(flops_of(remat) - flops_of(keep) == doctest::Approx(2 * again)); // two micro-batches
}

// A table of the static memory of one GPU: parameters over shards, by precision.
TEST_CASE("Weights and optimizer state are held from the start, over their shards") {
  const Scenario scenario = scenario_from(mixed);
  const Simulation simulation = run(scenario, "remat");
  const double parameters =
      scenario.trace.sharded_parameters[0] + scenario.trace.sharded_parameters[1];
  std::int64_t weights = 0;
  std::int64_t states = 0;
  for (const MemoryChange& change : simulation.lowered.graph.initial) {
    if (change.pool == simulation.lowered.hbm_pool[0]) {
      weights += change.owner == static_cast<OwnerId>(HbmOwner::weights) ? change.bytes : 0;
      states += change.owner == static_cast<OwnerId>(HbmOwner::optimizer_state) ? change.bytes : 0;
    }
  }
  CHECK(weights == std::llround(4 * parameters)); // fp32
  CHECK(states == std::llround(8 * parameters));  // two fp32 moments
}

// What does not fit into the part of the memory that the framework leaves free:
// 3 GiB of context against 2 % of 100 GiB.
TEST_CASE("The framework's context counts where its fraction leaves no room") {
  const auto context = [](const std::string& fraction) {
    const Scenario scenario = scenario_from(
        mixed, {"hardware.gpu.memory=100 GiB", "runtime.memory_fraction=" + fraction});
    for (const auto& [name, bytes] : run(scenario, "remat").result.hbm_owners) {
      if (name == "framework_context") {
        return bytes;
      }
    }
    return std::int64_t{0};
  };
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  CHECK(context("1.0") == 3 * gib);
  CHECK(context("0.98") == gib);
  CHECK(context("0.9") == 0);
}
