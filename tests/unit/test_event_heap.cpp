#include "sim/engine/event_heap.hpp"

#include "tests/support/random_graph.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

namespace spillway {
namespace {

std::vector<LaneId> drain(EventHeap& heap) {
  std::vector<LaneId> lanes;
  while (!heap.empty()) {
    lanes.push_back(heap.top().lane);
    heap.pop();
  }
  return lanes;
}

TEST_CASE("events come out by time") {
  EventHeap heap(4);
  heap.set(0, SimTime{30});
  heap.set(1, SimTime{10});
  heap.set(2, SimTime{40});
  heap.set(3, SimTime{20});
  CHECK(heap.top().time == SimTime{10});
  CHECK(heap.size() == 4);
  CHECK(drain(heap) == std::vector<LaneId>{1, 3, 0, 2});
}

TEST_CASE("events of one time come out by lane whatever order they went in") {
  EventHeap heap(6);
  for (const LaneId lane : {4U, 1U, 5U, 0U, 3U, 2U}) {
    heap.set(lane, SimTime{7});
  }
  CHECK(drain(heap) == std::vector<LaneId>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("an event can move to an earlier and to a later time") {
  EventHeap heap(3);
  heap.set(0, SimTime{10});
  heap.set(1, SimTime{20});
  heap.set(2, SimTime{30});
  heap.set(2, SimTime{5});
  CHECK(heap.top().lane == 2);
  heap.set(2, SimTime{15});
  CHECK(heap.size() == 3);
  CHECK(drain(heap) == std::vector<LaneId>{0, 2, 1});
}

TEST_CASE("an erased lane has no event and can get a new one") {
  EventHeap heap(3);
  heap.set(0, SimTime{1});
  heap.set(1, SimTime{2});
  heap.erase(0);
  CHECK_FALSE(heap.contains(0));
  CHECK(heap.top().lane == 1);
  heap.set(0, SimTime{1});
  CHECK(heap.contains(0));
  CHECK(drain(heap) == std::vector<LaneId>{0, 1});
}

// The model is an array with one optional time per lane, searched from lane 0 for
// the first smallest time. 20 lanes make a heap of three levels.
TEST_CASE("random changes leave the same top as a linear search") {
  constexpr std::uint64_t seed = 11;
  CAPTURE(seed);
  test::Random random(seed);
  EventHeap heap(20);
  std::vector<std::optional<SimTime>> model(20);
  for (int step = 0; step < 20'000; ++step) {
    const LaneId lane = random.below(20);
    if (random.one_in(3) && model[lane].has_value()) {
      heap.erase(lane);
      model[lane].reset();
    } else if (random.one_in(4) && !heap.empty()) {
      model[heap.top().lane].reset();
      heap.pop();
    } else {
      model[lane] = SimTime{random.integer(0, 30)};
      heap.set(lane, *model[lane]);
    }
    LaneId first = no_id;
    for (LaneId other = 0; other < model.size(); ++other) {
      REQUIRE(heap.contains(other) == model[other].has_value());
      if (model[other].has_value() && (first == no_id || *model[other] < *model[first])) {
        first = other;
      }
    }
    REQUIRE(heap.empty() == (first == no_id));
    if (first != no_id) {
      REQUIRE(heap.top().lane == first);
      REQUIRE(heap.top().time == *model[first]);
    }
  }
}

} // namespace
} // namespace spillway
