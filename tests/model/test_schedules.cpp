// Step times of small models against closed forms, one schedule after the other.
//
// One GPU, so no collectives: the step without copies is the sum of its kernels.
// Kernel times do not depend on copies, so every window below is a sum of them.
#include "tests/support/schedules.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("Without copies and collectives a step is the sum of its kernels") {
  for (const char* schedule : {"serialized", "loop_bound", "pipelined"}) {
    for (const char* policy : {"recompute", "none", "keep"}) {
      CAPTURE(schedule);
      CAPTURE(policy);
      const Scenario scenario = with_schedule(schedule);
      const Simulation simulation = run(scenario, policy);
      const StepView step(simulation);
      CHECK(step.copies().empty());
      CHECK(step.makespan() == step.compute_only());
      CHECK_FALSE(simulation.result.offload_hidden_fraction);
    }
  }
}

// Offloading recomputes what keeping recomputes, so both run the same kernels,
// but for what a kept tensor costs in the framework's stack: 3 us and two passes
// at 5.3 TB/s to put it there, and its share of filling the stack once a step.
TEST_CASE("Offload runs the kernels of keep without what the stack costs") {
  const Scenario scenario = with_schedule("serialized");
  const Simulation keep = run(scenario, "keep");
  const Simulation offload = run(scenario, "offload");
  const SimTime save = to_sim_time(Seconds{3e-6 + 2.0 * query_bytes / 5.3e12});
  const SimTime fill =
      to_sim_time(Seconds{scenario.framework.stack_fill.value * layers * query_bytes / 5.3e12});
  for (std::int32_t layer = first_layer; layer <= last_layer; ++layer) {
    const StepView step(keep);
    check_close(step.took(step.find("save query_proj", layer, Phase::forward)), save, 1);
  }
  check_close(StepView(offload).compute_only() + layers * save + fill,
              StepView(keep).compute_only(), 2 * layers);
}

// Captured copies keep the places of the unrotated loop, but on the compute lane:
// nothing overlaps, and every copy adds its latency and its bytes over the rate,
//   4 x (7 us + 134217728 / 100e9) + 4 x (9 us + 134217728 / 125e9).
// A store follows the kernel that produces its tensor, a reload stands at the top of
// its layer's backward.
TEST_CASE("Serialized copies without rotation add all of their time to the step") {
  const Scenario scenario =
      with_schedule("serialized", {"runtime.pipelined_host_offloading=false"});
  const Simulation simulation = run(scenario, "offload");
  const StepView step(simulation);
  const SimTime store = copy_time(query_bytes, 100e9, 7e-6);
  const SimTime reload = copy_time(query_bytes, 125e9, 9e-6);
  CHECK(store.count() == 1'349'177'280);
  CHECK(reload.count() == 1'082'741'824);
  CHECK(step.makespan() == step.compute_only() + layers * (store + reload));
  CHECK(simulation.result.time[static_cast<std::size_t>(TimeBin::exposed_offload)] ==
        doctest::Approx(to_seconds(layers * (store + reload)).count()).epsilon(1e-12));
  REQUIRE(simulation.result.offload_hidden_fraction);
  CHECK(*simulation.result.offload_hidden_fraction == doctest::Approx(0.0).epsilon(1e-12));
  for (std::int32_t layer = first_layer; layer <= last_layer; ++layer) {
    CAPTURE(layer);
    const TaskId out = step.store("query_proj", layer);
    const TaskId back = step.reload("query_proj", layer);
    CHECK(step.lane(out) == step.lanes().compute);
    CHECK(step.lane(back) == step.lanes().compute);
    CHECK(step.took(out) == store);
    CHECK(step.took(back) == reload);
    CHECK(step.start(out) == step.end(step.find("query_proj rotary", layer, Phase::forward)));
    CHECK(step.start(back) == step.end(step.kernels(layer + 1, true).back()));
    CHECK(step.end(back) == step.start(step.first_backward(layer)));
  }
}

// With rotation, which is the default, the places are those of the rotated loop: three
// stores at the top of the next layer, three reloads before the attention backward of
// the layer that runs before theirs. The last store and the first reload are peeled:
// 134217728 bytes at 50 GB/s instead of the link's rate, with the link's latency.
TEST_CASE("Serialized copies add all of their time to the step") {
  const Scenario scenario = with_schedule("serialized");
  const Simulation simulation = run(scenario, "offload");
  const StepView step(simulation);
  const SimTime store = copy_time(query_bytes, 100e9, 7e-6);
  const SimTime reload = copy_time(query_bytes, 125e9, 9e-6);
  const SimTime peeled_store = copy_time(query_bytes, 50e9, 7e-6);
  const SimTime peeled_reload = copy_time(query_bytes, 50e9, 9e-6);
  CHECK(peeled_store.count() == 2'691'354'560);
  CHECK(peeled_reload.count() == 2'693'354'560);
  const SimTime copies = (layers - 1) * (store + reload) + peeled_store + peeled_reload;
  CHECK(step.makespan() == step.compute_only() + copies);
  CHECK(simulation.result.time[static_cast<std::size_t>(TimeBin::exposed_offload)] ==
        doctest::Approx(to_seconds(copies).count()).epsilon(1e-12));
  REQUIRE(simulation.result.offload_hidden_fraction);
  CHECK(*simulation.result.offload_hidden_fraction == doctest::Approx(0.0).epsilon(1e-12));
  for (const TaskId copy : step.copies()) {
    CHECK(step.lane(copy) == step.lanes().compute);
  }
  for (std::int32_t layer = first_layer; layer < last_layer; ++layer) {
    CAPTURE(layer);
    const TaskId out = step.store("query_proj", layer);
    CHECK(step.took(out) == store);
    CHECK(step.start(out) == step.end(step.last_forward(layer)));
    CHECK(step.end(out) == step.start(step.first_forward(layer + 1)));
    const TaskId back = step.reload("query_proj", layer);
    CHECK(step.took(back) == reload);
    CHECK(step.end(back) == step.start(step.find("d attention", layer + 1, Phase::backward)));
  }
  const TaskId last_store = step.store("query_proj", last_layer);
  CHECK(step.took(last_store) == peeled_store);
  CHECK(step.start(last_store) == step.end(step.last_forward(last_layer)));
  CHECK(step.end(last_store) == step.start(step.first_forward(last_layer + 1)));
  const TaskId first_reload = step.reload("query_proj", last_layer);
  CHECK(step.took(first_reload) == peeled_reload);
  CHECK(step.start(first_reload) == step.end(step.kernels(last_layer + 1, true).back()));
  CHECK(step.end(first_reload) == step.start(step.first_backward(last_layer)));
}

// Three layers at the links' rates, one at the peeled rate; without rotation all four
// at the links' rates.
TEST_CASE("Serialized copies of several tensors add up") {
  const std::int64_t gate_bytes = std::int64_t{4096} * 53248 * 2;
  const auto both = [&](double out, double back) {
    return copy_time(query_bytes, out, 7e-6) + copy_time(query_bytes, back, 9e-6) +
           copy_time(gate_bytes, out, 7e-6) + copy_time(gate_bytes, back, 9e-6);
  };
  {
    const Simulation simulation = run(with_schedule("serialized"), "two");
    const StepView step(simulation);
    CHECK(step.makespan() ==
          step.compute_only() + (layers - 1) * both(100e9, 125e9) + both(50e9, 50e9));
  }
  const Simulation simulation =
      run(with_schedule("serialized", {"runtime.pipelined_host_offloading=false"}), "two");
  const StepView step(simulation);
  CHECK(step.makespan() == step.compute_only() + layers * both(100e9, 125e9));
}

// A store starts when its tensor is there and the next layer waits for it: what
// is longer than the rest of the layer is exposed. A reload starts at the top of
// the layer's backward: what is longer than the way to its reader is exposed.
TEST_CASE("Loop-bound copies expose what reaches beyond their layer") {
  Scenario scenario = with_schedule("loop_bound");
  const Simulation plain = run(scenario, "offload");
  const StepView base(plain);
  const SimTime rest =
      from_producer_to_end(base, 2) - base.took(base.find("query_proj rotary", 2, Phase::forward));
  const SimTime way = from_top_to_reader(base, 2);
  REQUIRE(rest > SimTime{0});
  REQUIRE(way > SimTime{0});
  struct Case {
    double store, reload; // in multiples of their windows
  };
  for (const Case c : {Case{0.5, 0.5}, Case{1.5, 0.5}, Case{0.5, 1.5}, Case{2.0, 3.0}}) {
    CAPTURE(c.store);
    CAPTURE(c.reload);
    const SimTime store = to_sim_time(to_seconds(rest) * c.store);
    const SimTime reload = to_sim_time(to_seconds(way) * c.reload);
    set_store_time(scenario, query_bytes, store);
    set_reload_time(scenario, query_bytes, reload);
    scenario.device.host_pool_rate.value = 1e15;
    const Simulation simulation = run(scenario, "offload");
    const StepView step(simulation);
    SimTime exposed{0};
    for (std::int32_t layer = first_layer; layer <= last_layer; ++layer) {
      exposed +=
          positive(store - (from_producer_to_end(step, layer) -
                            step.took(step.find("query_proj rotary", layer, Phase::forward))));
      exposed += positive(reload - from_top_to_reader(step, layer));
    }
    check_close(step.makespan(), step.compute_only() + exposed);
    CHECK((exposed > SimTime{0}) == (c.store > 1 || c.reload > 1));
    for (std::int32_t layer = first_layer; layer <= last_layer; ++layer) {
      const TaskId out = step.store("query_proj", layer);
      CHECK(step.lane(out) == step.lanes().d2h);
      CHECK(step.start(out) == step.end(step.find("query_proj rotary", layer, Phase::forward)));
      CHECK(step.end(out) <= step.start(step.first_forward(layer + 1)));
      const TaskId back = step.reload("query_proj", layer);
      CHECK(step.lane(back) == step.lanes().h2d);
      CHECK(step.start(back) == step.end(step.backward_top(layer)));
      CHECK(step.end(back) <= step.start(step.find("attention", layer, Phase::recompute)));
    }
  }
}

// The loop is rotated: the store of layer i has the time from the top of layer
// i + 1 to the kernel that produces the same tensor there; the reload of layer i
// the time from the attention backward of layer i + 1 to its end. The last store
// and the first reload are kernels at the peeled rate.
TEST_CASE("Pipelined copies have a window in the neighbouring layer") {
  Scenario scenario = with_schedule("pipelined");
  const Simulation plain = run(scenario, "offload");
  const StepView base(plain);
  const SimTime out_window = from_top_to_producer(base, 2);
  const SimTime back_window = from_attention_backward_to_end(base, 2);
  REQUIRE(out_window > SimTime{0});
  REQUIRE(back_window > SimTime{0});
  struct Case {
    double store, reload;
  };
  for (const Case c : {Case{0.5, 0.5}, Case{1.5, 0.5}, Case{0.5, 1.5}, Case{2.0, 3.0}}) {
    CAPTURE(c.store);
    CAPTURE(c.reload);
    const SimTime store = to_sim_time(to_seconds(out_window) * c.store);
    const SimTime reload = to_sim_time(to_seconds(back_window) * c.reload);
    set_store_time(scenario, query_bytes, store);
    set_reload_time(scenario, query_bytes, reload);
    scenario.device.host_pool_rate.value = 1e15;
    // Slower than either link, so that it alone decides about peeled copies.
    const double peeled_rate =
        0.5 * std::min(scenario.device.d2h_rate.value, scenario.device.h2d_rate.value);
    set_peeled_rate(scenario, peeled_rate);
    const SimTime peeled = copy_time(query_bytes, peeled_rate, 0);

    const Simulation simulation = run(scenario, "offload");
    const StepView step(simulation);
    SimTime exposed = 2 * peeled;
    for (std::int32_t layer = first_layer; layer < last_layer; ++layer) {
      exposed += positive(store - from_top_to_producer(step, layer + 1));
      exposed += positive(reload - from_attention_backward_to_end(step, layer + 1));
    }
    check_close(step.makespan(), step.compute_only() + exposed);

    for (std::int32_t layer = first_layer; layer < last_layer; ++layer) {
      CAPTURE(layer);
      const TaskId out = step.store("query_proj", layer);
      CHECK(step.lane(out) == step.lanes().d2h);
      CHECK(step.start(out) == step.end(step.last_forward(layer)));
      CHECK(step.end(out) <= step.start(step.find("query_proj rotary", layer + 1, Phase::forward)));
      const TaskId back = step.reload("query_proj", layer);
      CHECK(step.lane(back) == step.lanes().h2d);
      CHECK(step.start(back) == step.start(step.find("d attention", layer + 1, Phase::backward)));
      CHECK(step.end(back) <= step.start(step.first_backward(layer)));
    }
    const TaskId last_store = step.store("query_proj", last_layer);
    CHECK(step.lane(last_store) == step.lanes().compute);
    CHECK(step.start(last_store) == step.end(step.last_forward(last_layer)));
    CHECK(step.end(last_store) == step.start(step.first_forward(last_layer + 1)));
    CHECK(std::abs((step.took(last_store) - peeled).count()) <= 1);
    const TaskId first_reload = step.reload("query_proj", last_layer);
    CHECK(step.lane(first_reload) == step.lanes().compute);
    CHECK(std::abs((step.took(first_reload) - peeled).count()) <= 1);
    CHECK(step.end(first_reload) <=
          step.start(step.find("attention", last_layer, Phase::recompute)));
  }
}

// The layer input is produced by the layer before, so nothing in layer i + 1
// produces it again before its end: the whole layer is its window.
TEST_CASE("A pipelined store of the layer input must end with the next layer") {
  Scenario scenario = with_schedule("pipelined");
  const std::int64_t bytes = std::int64_t{4096} * 16384 * 2;
  const Simulation plain = run(scenario, "input");
  const SimTime layer_time = forward_of(StepView(plain), 2);
  for (const double ratio : {0.9, 1.25}) {
    CAPTURE(ratio);
    const SimTime store = to_sim_time(to_seconds(layer_time) * ratio);
    set_store_time(scenario, bytes, store);
    const SimTime instant{1000};
    set_reload_time(scenario, bytes, instant);
    scenario.device.host_pool_rate.value = 1e18;
    set_peeled_rate(scenario, 1e14);
    const Simulation simulation = run(scenario, "input");
    const StepView step(simulation);
    // The peeled store goes at the speed of its link, the slower of the two.
    SimTime exposed = store + copy_time(bytes, 1e14, 0);
    for (std::int32_t layer = first_layer; layer < last_layer; ++layer) {
      exposed += positive(store - forward_of(step, layer + 1));
      CHECK(step.start(step.store("decoder_layer_input", layer)) ==
            step.start(step.first_forward(layer + 1)));
      CHECK(step.end(step.store("decoder_layer_input", layer)) <=
            step.start(step.first_forward(layer + 2)));
    }
    check_close(step.makespan(), step.compute_only() + exposed);
  }
}

// More names than three: reloads start at the top of the layer's backward, one
// after the other, so the window is the whole layer.
TEST_CASE("Pipelined reloads of many tensors start at the top of the layer") {
  Scenario scenario = with_schedule("pipelined");
  scenario.device.host_pool_rate.value = 1e15;
  const std::int64_t key_bytes = std::int64_t{4096} * 8 * 128 * 2;
  const std::int64_t gate_bytes = std::int64_t{4096} * 53248 * 2;
  const std::int64_t all = query_bytes + 2 * key_bytes + gate_bytes;
  const Simulation plain = run(scenario, "four");
  const SimTime window = backward_of(StepView(plain), 2);
  scenario.device.d2h_rate.value = 1e15;
  scenario.device.d2h_latency.value = 0;
  set_peeled_rate(scenario, 1e15);
  for (const double ratio : {0.9, 1.5}) {
    CAPTURE(ratio);
    set_reload_time(scenario, all, to_sim_time(to_seconds(window) * ratio));
    const Simulation simulation = run(scenario, "four");
    const StepView step(simulation);
    const SimTime reload = to_sim_time(to_seconds(window) * ratio);
    // Peeled reloads run at the link's rate, the lower one.
    SimTime exposed = reload + copy_time(all, 1e15, 0);
    for (std::int32_t layer = first_layer; layer < last_layer; ++layer) {
      exposed += positive(reload - backward_of(step, layer + 1));
      SimTime first = step.makespan();
      for (const char* tensor : {"query_proj", "key_proj", "value_proj", "mlpwi_0"}) {
        first = std::min(first, step.start(step.reload(tensor, layer)));
        CHECK(step.end(step.reload(tensor, layer)) <= step.start(step.first_backward(layer)));
      }
      CHECK(first == step.start(step.first_backward(layer + 1)));
    }
    check_close(step.makespan(), step.compute_only() + exposed, 100);
  }
}

TEST_CASE("The last layer stays on the device where the runtime says so") {
  const Scenario scenario = with_schedule("streamed", {"runtime.offload_last_layer=false"});
  const Simulation simulation = run(scenario, "offload");
  CHECK(StepView(simulation).copies().size() == 2 * (layers - 1));
  CHECK(simulation.result.d2h_bytes == (layers - 1) * query_bytes);
}

// One asynchronous copy at a time: both directions share a queue.
TEST_CASE("A limit of one asynchronous copy puts both directions on one lane") {
  const Scenario one = with_schedule("loop_bound", {"runtime.async_compute_limit=1"});
  const Simulation simulation = run(one, "offload");
  CHECK(simulation.lowered.lanes[0].h2d == simulation.lowered.lanes[0].d2h);
  const Simulation many = run(with_schedule("loop_bound"), "offload");
  CHECK(many.lowered.lanes[0].h2d != many.lowered.lanes[0].d2h);
}

// Two layers, none repeated in between: the peeled store and reload are of the
// second layer, the overlapped ones of the first.
TEST_CASE("Every layer count down to one obeys the pipelined schedule") {
  for (const int count : {1, 2, 6}) {
    CAPTURE(count);
    const Scenario scenario = with_schedule("pipelined", {"model.layers=" + std::to_string(count)});
    const Simulation simulation = run(scenario, "offload");
    const StepView step(simulation);
    std::int64_t on_compute = 0;
    for (const TaskId copy : step.copies()) {
      on_compute += step.lane(copy) == step.lanes().compute ? 1 : 0;
    }
    CHECK(on_compute == 2);
    CHECK(step.copies().size() == static_cast<std::size_t>(2 * count));
    CHECK(simulation.result.h2d_bytes == count * query_bytes);
  }
}

TEST_CASE("Schedules order as their freedom: none is faster than streamed") {
  const auto time = [](const std::string& schedule) {
    return run(with_schedule(schedule), "two").result.step_time_s;
  };
  CHECK(time("streamed") <= time("pipelined"));
  CHECK(time("pipelined") < time("serialized"));
  CHECK(time("loop_bound") < time("serialized"));
}
