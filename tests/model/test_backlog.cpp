// A published case of eager offloading: 8 layers of a mixture of experts on one
// tray, three tensors per layer to the host.
// Source: poolside.ai, Tools of the trade: C2C activation offloading on Grace
// Blackwell, 18 March 2026. It reports 20 ms to store a layer against 22.5 ms of
// forward, and a backlog that piles up when the store takes longer than the layer.
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr std::int32_t first_layer = 1;
constexpr std::int32_t last_offloaded = 7; // the eighth layer is kept
const std::array<const char*, 3> tensors{"moe_mlpwi_0", "moe_mlpwi_1", "moe_mlp_product"};
// rows x width x 2 bytes: 24 x 4096 tokens, 8 experts each, 768 wide.
constexpr std::int64_t tensor_bytes = std::int64_t{24} * 4096 * 8 * 768 * 2;

Scenario slice(const std::vector<std::string>& assignments = {}) {
  return catalogue("qwen3-30b-a3b-slice-gb200", assignments);
}

SimTime layer_forward(const StepView& step, std::int32_t layer) {
  return step.start(step.first_forward(layer + 1)) - step.start(step.first_forward(layer));
}

// End of a layer's last store minus end of its forward.
SimTime backlog(const StepView& step, std::int32_t layer) {
  SimTime stored{0};
  for (const char* tensor : tensors) {
    stored = std::max(stored, step.end(step.store(tensor, layer)));
  }
  return stored - step.end(step.last_forward(layer));
}

// Stores of a layer take `ratio` times its forward.
Simulation with_ratio(double ratio, int in_flight = 1000) {
  Scenario scenario = slice({"runtime.in_flight_layers=" + std::to_string(in_flight)});
  const Simulation plain = run(scenario, "offload");
  const double forward = to_seconds(layer_forward(StepView(plain), 3)).count();
  scenario.device.d2h_latency.value = 0;
  scenario.device.d2h_rate.value = 3.0 * static_cast<double>(tensor_bytes) / (ratio * forward);
  scenario.device.host_pool_rate.value = 1e15; // the ratio alone decides
  return run(scenario, "offload");
}

} // namespace

// Each layer adds what its store takes longer than its forward: 19 % of it.
TEST_CASE("The backlog grows layer by layer when a store takes longer than a layer") {
  const Simulation simulation = with_ratio(1.19);
  const StepView step(simulation);
  for (std::int32_t layer = first_layer + 1; layer <= last_offloaded; ++layer) {
    CAPTURE(layer);
    const double grown = to_seconds(backlog(step, layer) - backlog(step, layer - 1)).count();
    const double forward = to_seconds(layer_forward(step, layer)).count();
    CHECK(grown > 0);
    CHECK(grown == doctest::Approx(0.19 * forward).epsilon(0.02));
  }
}

TEST_CASE("The backlog stays the same when a store is shorter than a layer") {
  const Simulation simulation = with_ratio(0.89);
  const StepView step(simulation);
  for (std::int32_t layer = first_layer + 1; layer <= last_offloaded; ++layer) {
    CAPTURE(layer);
    const double grown = to_seconds(backlog(step, layer) - backlog(step, layer - 1)).count();
    const double forward = to_seconds(layer_forward(step, layer)).count();
    CHECK(std::abs(grown) < 0.001 * forward);
  }
}

// With one layer in flight forward never runs away from its stores: at most two
// layers' tensors wait, and the layers take as long as their stores.
TEST_CASE("A bound on layers in flight turns the backlog into waiting") {
  const Simulation unhindered = with_ratio(0.5);
  const SimTime forward = layer_forward(StepView(unhindered), 3);
  const Simulation simulation = with_ratio(1.19, 1);
  const StepView step(simulation);
  for (std::int32_t layer = first_layer; layer + 2 <= last_offloaded + 1; ++layer) {
    CAPTURE(layer);
    CHECK(step.end(step.store("moe_mlp_product", layer)) <=
          step.start(step.first_forward(layer + 2)));
  }
  const double settled = to_seconds(layer_forward(step, last_offloaded - 1)).count();
  CHECK(settled == doctest::Approx(1.19 * to_seconds(forward).count()).epsilon(0.01));
  // Stores of twice a layer's forward pile up over seven layers where they may.
  CHECK(with_ratio(2.0, 1).result.peak_hbm_bytes < with_ratio(2.0).result.peak_hbm_bytes);
}

// Recomputing holds none of the three tensors across layers, offloading with one
// layer in flight holds one layer's: 3 x 1.208 GB.
TEST_CASE("Offload's peak is one layer's offloaded volume above recomputation's") {
  const Scenario scenario = slice();
  const std::int64_t remat = run(scenario, "remat").result.peak_hbm_bytes;
  const std::int64_t offload = run(scenario, "offload").result.peak_hbm_bytes;
  CHECK(static_cast<double>(offload - remat) ==
        doctest::Approx(3.0 * static_cast<double>(tensor_bytes)).epsilon(0.01));
}

TEST_CASE("One layer's stores take the published 20 ms within 5 percent") {
  const Simulation simulation = run(slice(), "offload");
  const StepView step(simulation);
  SimTime stores{0};
  for (const char* tensor : tensors) {
    stores += step.took(step.store(tensor, 4));
  }
  CHECK(to_seconds(stores).count() == doctest::Approx(20e-3).epsilon(0.05));
}

TEST_CASE("One layer's forward takes the published 22.5 ms within 20 percent") {
  const Simulation simulation = run(slice(), "remat");
  CHECK(to_seconds(layer_forward(StepView(simulation), 4)).count() ==
        doctest::Approx(22.5e-3).epsilon(0.2));
}
