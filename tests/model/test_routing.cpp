// Imbalanced routing: the simulated GPU is the busiest of its expert-parallel group. What it
// receives and works on grows by the imbalance, what it sends and gets back does not.
#include "tests/support/step.hpp"
#include "tests/support/traces.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;
using namespace spillway::testing;

namespace {

// 2 x 64 tokens, 4 rows each: 512 rows on the mean, 128 for each of 16 / 4 experts of a rank.
LayerKind small_layer(double imbalance) {
  BatchSpec batch{2, 1, 64, 1};
  batch.routing_imbalance = imbalance;
  return named(build(small_moe(), {8, 2, 4}, batch).kinds, "moe");
}

// 4096 tokens, 8 rows each: 32 768 rows, 1024 for each of 128 / 4 experts of a GPU.
Scenario scenario_at(const std::string& imbalance) {
  return scenario_from(R"(kind: scenario
model: {extends: qwen3-30b-a3b, layers: 2}
hardware: gb200-nvl72
gpus: 8
parallel: {fsdp: 2, expert: 4}
batch: {micro: 1, sequence: 4096}
runtime: {collectives: exposed, loss_chunks: 64}
policies:
  remat: {preset: full}
  offload: {preset: full, tensors: {moe_mlpwi_0: offload}}
)",
                       {"routing.imbalance=" + imbalance});
}

constexpr std::int64_t mean_rows = 32'768;
constexpr double expert_product_flops = 2.0 * mean_rows * 2048 * 768;

double flops_of(double tflops, const RunResult& r) {
  return tflops * 1e12 * r.step_time_s;
}

} // namespace

TEST_CASE("Tensors between the exchanges grow by the imbalance exactly, all others not") {
  const LayerKind even = small_layer(1);
  const LayerKind busy = small_layer(1.5);
  const std::vector<std::string> grow{"dispatched rows", "rows by expert", "expert gate",
                                      "expert up",       "expert product", "expert down",
                                      "rows by sender"};
  REQUIRE(even.tensors.size() == busy.tensors.size());
  std::size_t grown = 0;
  for (std::size_t i = 0; i < even.tensors.size(); ++i) {
    CAPTURE(even.tensors[i].name);
    const bool grows = std::count(grow.begin(), grow.end(), even.tensors[i].name) == 1;
    grown += grows ? 1 : 0;
    const auto check = [&](Bytes before, Bytes after) {
      CHECK(after.count() == (grows ? before.count() * 3 / 2 : before.count()));
    };
    check(even.tensors[i].bytes, busy.tensors[i].bytes);
    check(even.tensors[i].gradient_bytes, busy.tensors[i].gradient_bytes);
  }
  CHECK(grown == grow.size());
  CHECK(shape_text(named(busy.tensors, "expert gate")) == "[768, 40]");
  CHECK(even.parameters == busy.parameters);
}

TEST_CASE("Work on received rows grows by the imbalance exactly, all other not") {
  const LayerKind even = small_layer(1);
  const LayerKind busy = small_layer(1.5);
  const auto check = [](const std::string& name, const Work& before, const Work& after) {
    CAPTURE(name);
    const bool product = name.find("expert ") != std::string::npos &&
                         name.find("shared expert ") == std::string::npos &&
                         before.kind == WorkKind::matmul;
    const bool traffic = before.kind == WorkKind::all_to_all ||
                         name.ends_with("expert activation") || name.ends_with("sort by expert") ||
                         name.ends_with("unsort");
    const bool shared = name.find("shared expert ") != std::string::npos;
    const double factor = (product || traffic) && !shared ? 1.5 : 1;
    CHECK(after.flops().value() == factor * before.flops().value());
    CHECK(static_cast<double>(after.bytes.count()) ==
          factor * static_cast<double>(before.bytes.count()));
    CHECK(after.groups == before.groups);
  };
  for (std::size_t i = 0; i < even.ops.size(); ++i) {
    check(even.ops[i].name, even.ops[i].work, busy.ops[i].work);
  }
  for (std::size_t i = 0; i < even.backward.size(); ++i) {
    check(even.backward[i].name, even.backward[i].work, busy.backward[i].work);
    check(even.backward[i].name, even.backward[i].work_after_rerun,
          busy.backward[i].work_after_rerun);
  }
  CHECK(named(busy.ops, "expert gate").work.m == 192);
  CHECK(named(busy.backward, "d expert gate weight").work.k == 192);
}

// 2 x 64 tokens x 4 rows x 64 wide x 2 bytes = 65536 bytes on the mean.
TEST_CASE("Both exchanges move what the busiest rank receives and sends back") {
  const LayerKind busy = small_layer(4); // all rows of the group
  for (const char* name : {"dispatch", "combine"}) {
    CAPTURE(name);
    CHECK(named(busy.ops, name).work.bytes.count() == 4 * 65536);
    CHECK(named(busy.backward, std::string("d ") + name).work.bytes.count() == 4 * 65536);
  }
}

// 128 rows for an expert on the mean: x 1.503 = 192.4, x 1.504 = 192.5, x 1.001 = 128.1.
TEST_CASE("Every expert of the busiest rank gets the nearest whole number of rows") {
  for (const auto& [imbalance, rows] : std::vector<std::pair<double, std::int64_t>>{
           {1, 128}, {1.001, 128}, {1.004, 129}, {1.503, 192}, {1.504, 193}, {4, 512}}) {
    CAPTURE(imbalance);
    const LayerKind layer = small_layer(imbalance);
    CHECK(named(layer.ops, "expert gate").work.m == rows);
    CHECK(named(layer.tensors, "expert down").axes.front().size == 4 * rows);
    CHECK(named(layer.tensors, "dispatched rows").axes.front().size == 4 * rows);
  }
}

// latency + bytes x weight: without the latency the time is 1.5 times as long.
TEST_CASE("Exchanges of the simulated step take 1.5 times as long, but for their latency") {
  const Scenario scenario = scenario_at("1.5");
  const Simulation even = run(scenario_at("1"), "remat");
  const Simulation busy = run(scenario, "remat");
  const StepView before(even);
  const StepView after(busy);
  const double latency = scenario.device.scale_up_latency.value * 1e12;
  for (const auto& [label, phase] :
       std::vector<std::pair<std::string, Phase>>{{"dispatch", Phase::forward},
                                                  {"combine", Phase::forward},
                                                  {"dispatch", Phase::recompute},
                                                  {"d combine", Phase::backward},
                                                  {"d dispatch", Phase::backward}}) {
    CAPTURE(label);
    const auto moving = [&](const StepView& step) {
      return static_cast<double>(step.took(step.find(label, 1, phase)).count()) - latency;
    };
    CHECK(moving(before) > 1e6); // a microsecond: else the comparison would not see it
    CHECK(std::abs(moving(after) - 1.5 * moving(before)) < 10);
  }
}

TEST_CASE("Kernels on received rows take what their size costs, those on own rows do not change") {
  const Scenario scenario = scenario_at("1.5");
  const Simulation even = run(scenario_at("1"), "remat");
  const Simulation busy = run(scenario, "remat");
  const StepView before(even);
  const StepView after(busy);
  const auto took = [](const StepView& step, const std::string& label) {
    return step.took(step.find(label, 1, Phase::forward)).count();
  };
  Work gate;
  gate.kind = WorkKind::matmul;
  gate.groups = 32;
  gate.m = 1024 * 3 / 2;
  gate.n = 768;
  gate.k = 2048;
  RateCache cache;
  const CostModel cost(scenario.device, scenario.parallel.gpus, cache);
  CHECK(std::abs(took(after, "expert gate") - to_sim_time(cost.kernel_time(gate)).count()) <= 1);
  const double overhead = scenario.device.kernel_overhead.value * 1e12;
  for (const char* label : {"sort by expert", "unsort", "expert activation"}) {
    CAPTURE(label);
    CHECK(
        static_cast<double>(took(after, label)) - overhead ==
        doctest::Approx(1.5 * (static_cast<double>(took(before, label)) - overhead)).epsilon(1e-6));
  }
  for (const char* label : {"query_proj", "router", "top-k", "permute", "weighted sum"}) {
    CAPTURE(label);
    CHECK(took(after, label) == took(before, label));
  }
}

// Two layers x 32 768 rows x 768 wide x 2 bytes.
TEST_CASE("A tensor of experts that is offloaded takes 1.5 times the bytes") {
  const auto offloaded = [](const char* imbalance) {
    return run(scenario_at(imbalance), "offload").result;
  };
  const RunResult even = offloaded("1");
  const RunResult busy = offloaded("1.5");
  CHECK(even.d2h_bytes == 2 * mean_rows * 768 * 2);
  CHECK(busy.d2h_bytes == even.d2h_bytes * 3 / 2);
  CHECK(busy.h2d_bytes == even.h2d_bytes * 3 / 2);
  CHECK(busy.peak_host_bytes == even.peak_host_bytes * 3 / 2);
}

// A layer runs 3 expert products forward, 3 again, and 6 in backward.
TEST_CASE("Model FLOPs are the mean of all ranks, hardware FLOPs those of the simulated one") {
  const RunResult even = run(scenario_at("1"), "remat").result;
  const RunResult busy = run(scenario_at("1.5"), "remat").result;
  CHECK(flops_of(busy.model_tflops_per_gpu, busy) ==
        doctest::Approx(flops_of(even.model_tflops_per_gpu, even)).epsilon(1e-12));
  CHECK(flops_of(busy.hardware_tflops_per_gpu, busy) -
            flops_of(even.hardware_tflops_per_gpu, even) ==
        doctest::Approx(0.5 * 2 * 12 * expert_product_flops).epsilon(1e-9));
  CHECK(busy.step_time_s > even.step_time_s);
  CHECK(busy.peak_hbm_bytes > even.peak_hbm_bytes);
}

TEST_CASE("An imbalance is an assumption of the result, balance is none") {
  const auto named_so = [](const Scenario& scenario) {
    std::vector<std::pair<std::string, std::string>> found; // value and source
    for (const auto& assumption : run(scenario, "remat").result.assumptions) {
      if (assumption.what == "routing.imbalance") {
        found.emplace_back(assumption.value, assumption.source);
      }
    }
    return found;
  };
  CHECK(named_so(scenario_at("1")).empty());
  const auto stated = named_so(scenario_at("1.5"));
  REQUIRE(stated.size() == 1);
  CHECK(stated[0].first == "1.5");
  CHECK(stated[0].second.starts_with("the simulated GPUs are the busiest"));
  Scenario listed = scenario_at("1.5"); // by its author, with a reason
  listed.assumed.push_back({"routing.imbalance", "1.5", "seen in a log"});
  const auto by_author = named_so(listed);
  REQUIRE(by_author.size() == 1);
  CHECK(by_author[0].second == "seen in a log");
}
