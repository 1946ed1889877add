// What-if answers against whole simulations of the changed device.
#include "results/variation.hpp"
#include "results/what_if.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace spillway;
using namespace spillway::testing;

namespace {

WhatIf ask(const Scenario& scenario, const std::string& policy, std::int64_t percent,
           unsigned threads = 1) {
  RateCache cache;
  const Simulation simulation = simulate(scenario, scenario.policy(policy), cache);
  return what_if_faster(scenario, simulation, cache, percent, threads);
}

SimTime step_with(Scenario scenario, const std::string& policy,
                  const std::function<void(Device&)>& change) {
  change(scenario.device);
  return run(scenario, policy).timeline.makespan;
}

SimTime answer(const WhatIf& what_if, const std::string& resource) {
  for (const FasterResource& one : what_if.changed) {
    if (one.resource == resource) {
      return one.step;
    }
  }
  CHECK(std::count(what_if.unchanged.begin(), what_if.unchanged.end(), resource) == 1);
  return what_if.step;
}

// One GPU, every copy on the compute lane: nothing is shared and nothing overlaps.
Scenario serialized() {
  return scenario_from(R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 2}
hardware: {extends: gb200-nvl72, host: {d2h: {rate: "2 GB/s"}, h2d: {rate: "4 GB/s"}}}
gpus: 1
batch: {micro: 1, sequence: 4096}
precision: {weights: bf16, gradients: bf16, master: none, moment1: bf16, moment2: bf16}
runtime: {schedule: serialized, pipelined_host_offloading: false}
policies:
  offload: {preset: full, tensors: {query_proj: offload}}
)");
}

} // namespace

TEST_CASE("A faster resource gives the step that the faster device has") {
  const Scenario scenario = catalogue("deepseek-v3-gb200");
  const WhatIf what_if = ask(scenario, "offload", 25);
  CHECK(what_if.percent == 25);
  CHECK(what_if.step == run(scenario, "offload").timeline.makespan);
  const std::map<std::string, Coefficient Device::*> rates{
      {"D2H link", &Device::d2h_rate},
      {"H2D link", &Device::h2d_rate},
      {"copies done by kernels", &Device::peeled_copy_rate},
      {"CPU memory", &Device::host_pool_rate},
      {"scale-up link", &Device::scale_up_rate},
      {"NIC", &Device::scale_out_rate},
      {"HBM", &Device::hbm_rate},
      {"matrix products", &Device::matmul_derate},
      {"attention", &Device::attention_derate}};
  for (const auto& [name, member] : rates) {
    INFO(name);
    CHECK(answer(what_if, name) == step_with(scenario, "offload", [&, rate = member](Device& d) {
            (d.*rate).value *= 1.25;
          }));
  }
  CHECK(answer(what_if, "kernel launch") ==
        step_with(scenario, "offload", [](Device& d) { d.kernel_overhead.value /= 1.25; }));
  CHECK(what_if.changed.size() + what_if.unchanged.size() == 10);
  CHECK(std::is_sorted(what_if.changed.begin(), what_if.changed.end(),
                       [](const auto& a, const auto& b) { return a.step < b.step; }));
  for (const FasterResource& one : what_if.changed) {
    CHECK(one.step != what_if.step);
  }
}

// 2 stores of 4096 x 128 x 128 x 2 = 134217728 bytes at 2 GB/s take 134.217728 ms; at twice
// the rate half of that. The reloads at 4 GB/s take half as long to begin with.
TEST_CASE("Copies that nothing hides shorten the step by what they become shorter") {
  const WhatIf what_if = ask(serialized(), "offload", 100);
  const auto gain = [&](const char* name) {
    return to_seconds(what_if.step - answer(what_if, name)).count();
  };
  CHECK(gain("D2H link") == doctest::Approx(0.067108864));
  CHECK(gain("H2D link") == doctest::Approx(0.033554432));
  CHECK(answer(what_if, "NIC") == what_if.step); // one GPU talks to no other
  CHECK(what_if.change(what_if.step * 3 / 4) == doctest::Approx(-0.25));
}

TEST_CASE("Only a host link that is limited in both directions together can be faster so") {
  const auto names = [](const WhatIf& what_if) {
    std::vector<std::string> all = what_if.unchanged;
    for (const FasterResource& one : what_if.changed) {
      all.push_back(one.resource);
    }
    return all;
  };
  const auto has = [](const std::vector<std::string>& list, const char* name) {
    return std::count(list.begin(), list.end(), name) == 1;
  };
  const std::vector<std::string> gb200 = names(ask(serialized(), "offload", 10));
  CHECK_FALSE(has(gb200, "host link in both directions"));
  CHECK_FALSE(has(gb200, "power limit"));
  const std::vector<std::string> h200 = names(ask(catalogue("deepseek-v3-h200"), "remat", 10));
  CHECK(has(h200, "host link in both directions"));
  CHECK(has(h200, "power limit"));
}

// The clock of this step is held down by the board's limit. In Watts, per second: a
// product's flops cost (1 - idle) limit / rate above idle at speed 1, and that must not
// change, nor may what other kernels and idling draw.
TEST_CASE("A higher power limit leaves the energy of the work as it is") {
  const Scenario scenario = scenario_from(R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 2}
hardware: h200
gpus: 1
batch: {micro: 1, sequence: 4096}
precision: {weights: bf16, gradients: bf16, master: none, moment1: bf16, moment2: bf16}
policies:
  remat: {preset: full}
)");
  REQUIRE(scenario.device.clock);
  const WhatIf what_if = ask(scenario, "remat", 10);
  const SimTime by_hand = step_with(scenario, "remat", [](Device& d) {
    ClockRule& rule = *d.clock;
    const double energy = (1 - rule.idle_power.value) / rule.limit_rate.value;
    for (Coefficient* share : {&rule.idle_power, &rule.attention_power, &rule.memory_power}) {
      share->value /= 1.1;
    }
    rule.limit_rate.value = (1 - rule.idle_power.value) / (energy / 1.1);
  });
  CHECK(answer(what_if, "power limit") < what_if.step);
  CHECK(to_seconds(answer(what_if, "power limit")).count() ==
        doctest::Approx(to_seconds(by_hand).count()).epsilon(0.002));
}

TEST_CASE("The answers do not depend on the number of threads") {
  const Scenario scenario = catalogue("deepseek-v3-gb200");
  const WhatIf one = ask(scenario, "offload", 10, 1);
  const WhatIf three = ask(scenario, "offload", 10, 3);
  REQUIRE(one.changed.size() == three.changed.size());
  for (std::size_t i = 0; i < one.changed.size(); ++i) {
    CHECK(one.changed[i].resource == three.changed[i].resource);
    CHECK(one.changed[i].step == three.changed[i].step);
  }
  CHECK(one.unchanged == three.unchanged);
}

// A thread changes prices of its copy of the step and puts them back.
TEST_CASE("A variation leaves no trace in the next one") {
  const Scenario scenario = serialized();
  RateCache cache;
  const Simulation simulation = simulate(scenario, scenario.policy("offload"), cache);
  const Variation slow{"slow", [](Device& d) { d.hbm_rate.value /= 4; }, std::nullopt, 1};
  const Variation none{"none", [](Device&) {}, std::nullopt, 1};
  const Variation gone{"gone", [](Device& d) { d.scale_up_rate.value /= 2; }, std::nullopt, 1};
  const std::vector<SimTime> times =
      step_times(scenario, simulation, {slow, none, gone, slow}, cache, 1);
  CHECK(times[0] > simulation.timeline.makespan);
  CHECK(times[1] == simulation.timeline.makespan);
  CHECK(times[2] == simulation.timeline.makespan);
  CHECK(times[3] == times[0]);
}
