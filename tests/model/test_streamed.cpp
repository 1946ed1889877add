// The streamed schedule of eager frameworks against closed forms.
#include "tests/support/schedules.hpp"

#include <doctest/doctest.h>

using namespace spillway;
using namespace spillway::testing;

// A store that is shorter than the layer never holds anything up.
TEST_CASE("Streamed copies shorter than a layer are hidden") {
  Scenario scenario = with_schedule("streamed");
  const Simulation plain = run(scenario, "offload");
  const SimTime forward = forward_of(StepView(plain), 2);
  set_store_time(scenario, query_bytes, to_sim_time(to_seconds(forward) * 0.95));
  set_reload_time(scenario, query_bytes, to_sim_time(to_seconds(forward) * 0.5));
  scenario.device.host_pool_rate.value = 1e15;
  const Simulation simulation = run(scenario, "offload");
  const StepView step(simulation);
  for (std::int32_t layer = first_layer; layer <= last_layer; ++layer) {
    const TaskId out = step.store("query_proj", layer);
    CHECK(step.lane(out) == step.lanes().d2h);
    CHECK(step.start(out) == step.end(step.find("query_proj rotary", layer, Phase::forward)));
    CHECK(step.start(step.first_forward(layer + 1)) == step.end(step.last_forward(layer)));
  }
  CHECK(step.makespan() == step.compute_only());
}

// With S the time of a store, F that of a layer's forward, p the time from its
// top to its tensor and k layers in flight:
//   top(i)  = max(top(i-1) + F, stored(i-1-k))    stored(i) = max(stored(i-1), top(i) + p) + S
TEST_CASE("Streamed stores hold a layer back only beyond the layers in flight") {
  for (const std::int64_t in_flight : {1, 2, 1000}) {
    for (const double ratio : {0.5, 1.5, 2.5}) {
      CAPTURE(in_flight);
      CAPTURE(ratio);
      Scenario scenario = with_schedule("streamed");
      scenario.runtime.in_flight_layers = in_flight;
      const Simulation plain = run(scenario, "offload");
      const SimTime forward = forward_of(StepView(plain), 2);
      const SimTime store = to_sim_time(to_seconds(forward) * ratio);
      set_store_time(scenario, query_bytes, store);
      scenario.device.host_pool_rate.value = 1e15;
      const Simulation simulation = run(scenario, "offload");
      const StepView step(simulation);
      SimTime top = step.start(step.first_forward(first_layer));
      std::vector<SimTime> stored{SimTime{0}}; // by layer
      for (std::int32_t layer = first_layer; layer <= last_layer; ++layer) {
        CAPTURE(layer);
        check_close(step.start(step.first_forward(layer)), top);
        const SimTime producer_end =
            top + from_top_to_producer(step, layer) +
            step.took(step.find("query_proj rotary", layer, Phase::forward));
        stored.push_back(std::max(stored.back(), producer_end) + store);
        check_close(step.end(step.store("query_proj", layer)), stored.back());
        top += forward_of(step, layer);
        const std::int64_t waits_for = layer - in_flight; // of the next layer
        if (waits_for >= first_layer) {
          top = std::max(top, stored[static_cast<std::size_t>(waits_for)]);
          CHECK(step.end(step.store("query_proj", static_cast<std::int32_t>(waits_for))) <=
                step.start(step.first_forward(layer + 1)));
        }
      }
      check_close(step.start(step.first_forward(last_layer + 1)), top);
    }
  }
}

TEST_CASE("Streamed reloads start the given number of layers ahead") {
  for (const std::int64_t ahead : {1, 2}) {
    CAPTURE(ahead);
    Scenario scenario = with_schedule("streamed");
    scenario.runtime.prefetch_layers = ahead;
    const Simulation simulation = run(scenario, "offload");
    const StepView step(simulation);
    for (std::int32_t layer = first_layer; layer <= last_layer; ++layer) {
      CAPTURE(layer);
      // Copies are far shorter than a layer here, so nothing else delays them,
      // except that several may start with the head, one after the other.
      const auto from = static_cast<std::int32_t>(layer + ahead); // in whose backward it starts
      const TaskId back = step.reload("query_proj", layer);
      if (from <= last_layer) {
        CHECK(step.start(back) == step.end(step.backward_top(from)));
      } else {
        CHECK(step.start(back) >= step.end(step.last_forward(last_layer + 1)));
        CHECK(step.start(back) < step.start(step.first_backward(last_layer)));
      }
      CHECK(step.end(back) <= step.start(step.find("attention", layer, Phase::recompute)));
    }
    CHECK(step.makespan() == step.compute_only());
  }
}
