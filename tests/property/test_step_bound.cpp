// No replay is faster than its bound, or needs less memory; and the bound is near.
#include "sim/lower/step_bound.hpp"

#include "tests/support/random_choice.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace spillway::testing {
namespace {

constexpr std::uint64_t policies_of_each = 24; // all mixes of densities, twice

// `ratio`: of replay and bound, the mean over policies is at most this.
struct Case {
  const char* scenario;
  std::vector<std::string> set;
  double ratio;
};

struct Outcome {
  SettingSearch::Bounded bound;
  RunResult result;
};

Outcome outcome_of(const SettingSearch& search, const Choice& choice, RateCache& cache) {
  return {search.bound_of(choice),
          simulate(search.scenario(), policy_of(search, choice), cache).result};
}

// Streamed stores of the last layers may still run when reloads free the first of them.
void check_below(const Scenario& scenario, const Outcome& outcome) {
  CHECK(outcome.bound.step_s <= outcome.result.step_time_s);
  CHECK(outcome.bound.bytes.hbm <= outcome.result.peak_hbm_bytes);
  if (scenario.runtime.schedule == CopySchedule::streamed) {
    CHECK(outcome.bound.bytes.host <= outcome.result.peak_host_bytes);
  } else {
    CHECK(outcome.bound.bytes.host == outcome.result.peak_host_bytes);
  }
}

// What a saved set needs at least is no more than what each way to offload of it needs.
void check_least_bytes(const SettingSearch& search, const Choice& choice) {
  for (std::size_t g = 0; g < choice.size(); ++g) {
    const GroupSpace& group = search.groups()[g];
    const std::int64_t least =
        search.bound().least_last_layer_bytes(g, group.plans({choice[g].saved, choice[g].saved}));
    for (const std::uint32_t offloaded : {0U, choice[g].offloaded, choice[g].saved}) {
      CHECK(least <= search.bound().last_layer_bytes(g, group.plans({choice[g].saved, offloaded})));
    }
  }
}

void check_case(const Case& of) {
  CAPTURE(of.scenario);
  const std::string set = fmt::format("{}", fmt::join(of.set, " "));
  CAPTURE(set);
  const SettingSearch search(catalogue(of.scenario, of.set), {}, Folding::automatic);
  RateCache cache;
  double ratios = 0;
  for (std::uint64_t seed = 1; seed <= policies_of_each; ++seed) {
    const Choice choice = random_choice(search, seed);
    const std::string policy = text_of(policy_of(search, choice));
    CAPTURE(policy);
    const Outcome outcome = outcome_of(search, choice, cache);
    check_below(search.scenario(), outcome);
    check_least_bytes(search, choice);
    CHECK(search.root_bound() <= outcome.bound.step_s);
    ratios += outcome.result.step_time_s / outcome.bound.step_s;
  }
  CHECK(ratios / static_cast<double>(policies_of_each) <= of.ratio);
}

void check_cases(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    check_case(one);
  }
}

TEST_CASE("No replay of a committed scenario is below its bounds, which are near") {
  const std::vector<Case> cases{
      {"deepseek-v3-gb200", {}, 1.005},    {"deepseek-v3-gb300", {}, 1.002},
      {"deepseek-v3-h200", {}, 1.07},      {"deepseek-v3-vera-rubin", {}, 1.002},
      {"llama-3.1-405b-gb200", {}, 1.003}, {"qwen3-30b-a3b-slice-gb200", {}, 1.06},
  };
  const std::vector<std::string> names = Catalog({"."}).names(CatalogKind::scenario);
  for (const std::string& name : names) { // a new one is named above, too
    CAPTURE(name);
    CHECK(std::any_of(cases.begin(), cases.end(),
                      [&](const Case& one) { return name == one.scenario; }));
  }
  check_cases(cases);
}

TEST_CASE("Bounds hold for every schedule of copies, with collectives beside and exposed") {
  const std::string pipelined = "runtime.schedule=pipelined";
  const std::string bound = "runtime.schedule=loop_bound";
  const std::string streamed = "runtime.schedule=streamed";
  const std::string serialized = "runtime.schedule=serialized";
  const std::string exposed = "runtime.latency_hiding_scheduler=false";
  const std::string unrotated = "runtime.pipelined_host_offloading=false";
  check_cases({
      {"deepseek-v3-gb200", {bound}, 1.06},
      {"deepseek-v3-gb200", {streamed}, 1.01},
      {"deepseek-v3-gb200", {serialized}, 1.06},
      {"deepseek-v3-gb200", {unrotated, "runtime.command_buffers=true"}, 1.06},
      {"deepseek-v3-gb200", {pipelined, exposed}, 1.02},
      {"deepseek-v3-gb200", {bound, exposed}, 1.06},
      {"deepseek-v3-gb200", {streamed, exposed}, 1.01},
      {"deepseek-v3-gb200", {serialized, exposed}, 1.1},
      {"deepseek-v3-h200", {streamed}, 1.12},
      {"deepseek-v3-h200", {bound, exposed}, 1.2},
      {"llama-3.1-405b-gb200", {bound, exposed}, 1.01},
  });
}

TEST_CASE("Bounds hold for streamed copies that run layers ahead or behind") {
  const std::string ahead = "runtime.prefetch_layers=4";
  const std::string behind = "runtime.in_flight_layers=5";
  const std::string streamed = "runtime.schedule=streamed";
  check_cases({
      {"deepseek-v3-gb200", {streamed, ahead, behind}, 1.01},
      {"deepseek-v3-gb200", {streamed, "runtime.offload_last_layer=false"}, 1.01},
      {"deepseek-v3-h200", {streamed, ahead, behind}, 1.15},
      {"qwen3-30b-a3b-slice-gb200", {ahead, behind}, 1.04},
      {"qwen3-30b-a3b-slice-gb200", {"runtime.in_flight_layers=20"}, 1.03},
      {"qwen3-30b-a3b-slice-gb200", {"runtime.offload_last_layer=true"}, 1.06},
      {"qwen3-30b-a3b-slice-gb200", {"parallel.fsdp=1", "parallel.expert=4"}, 1.04},
      {"qwen3-30b-a3b-slice-gb200", {"hardware=h200"}, 1.15},
  });
}

TEST_CASE("Bounds hold for small micro-batches and for several of them") {
  check_cases({
      {"deepseek-v3-gb200", {"batch.micro=1"}, 1.16},
      {"deepseek-v3-gb200", {"batch.micro=2"}, 1.06},
      {"deepseek-v3-gb200", {"batch.micro=4"}, 1.01},
      {"deepseek-v3-gb200", {"batch.accumulation=4"}, 1.01},
      {"deepseek-v3-h200", {"batch.accumulation=3"}, 1.08},
      {"llama-3.1-405b-gb200", {"batch.accumulation=4"}, 1.01},
      {"qwen3-30b-a3b-slice-gb200", {"batch.micro=1", "batch.accumulation=3"}, 1.06},
  });
}

TEST_CASE("Bounds hold for layers that take turns and for other GPUs") {
  check_cases({
      {"llama-3.1-405b-gb200", {"model=gemma-3-27b"}, 1.08},
      {"llama-3.1-405b-gb200", {"model=gpt-oss-120b"}, 1.04},
      {"llama-3.1-405b-gb200", {"model=gemma-2-9b"}, 1.09},
      {"llama-3.1-405b-gb200", {"model=gemma-3-27b", "runtime.schedule=streamed"}, 1.02},
      {"deepseek-v3-gb200", {"hardware=h200"}, 1.09},
      {"llama-3.1-405b-gb200", {"hardware=h200"}, 1.03},
      {"llama-3.1-405b-gb200", {"model=gemma-3-27b", "hardware=h200"}, 1.12},
      {"deepseek-v3-gb200", {"model.layers=4"}, 1.04},
      {"deepseek-v3-gb200", {"parallel.fsdp=128", "parallel.expert=1"}, 1.01},
      {"deepseek-v3-gb200", {"hardware=a100"}, 1.05},
  });
}

TEST_CASE("An accumulated step whose layer input is offloaded fills no stack for it") {
  const SettingSearch search(catalogue("deepseek-v3-gb200", {"batch.accumulation=4"}), {},
                             Folding::automatic);
  Choice choice;
  for (const GroupSpace& group : search.groups()) {
    choice.push_back(group.least());
    choice.back().offloaded = choice.back().saved;
  }
  RateCache cache;
  check_below(search.scenario(), outcome_of(search, choice, cache));
}

} // namespace
} // namespace spillway::testing
