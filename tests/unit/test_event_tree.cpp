#include "sim/engine/event_tree.hpp"

#include "tests/support/random_graph.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

namespace spillway {
namespace {

std::vector<LaneId> drain(EventTree& events) {
  std::vector<LaneId> lanes;
  while (!events.empty()) {
    lanes.push_back(events.top().lane);
    events.pop();
  }
  return lanes;
}

TEST_CASE("events come out by time") {
  EventTree events(4);
  events.set(0, SimTime{30});
  events.set(1, SimTime{10});
  events.set(2, SimTime{40});
  events.set(3, SimTime{20});
  CHECK(events.top().time == SimTime{10});
  CHECK(drain(events) == std::vector<LaneId>{1, 3, 0, 2});
}

TEST_CASE("events of one time come out by lane whatever order they went in") {
  EventTree events(6);
  for (const LaneId lane : {4U, 1U, 5U, 0U, 3U, 2U}) {
    events.set(lane, SimTime{7});
  }
  CHECK(drain(events) == std::vector<LaneId>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("an event can move to an earlier and to a later time") {
  EventTree events(3);
  events.set(0, SimTime{10});
  events.set(1, SimTime{20});
  events.set(2, SimTime{30});
  events.set(2, SimTime{5});
  CHECK(events.top().lane == 2);
  events.set(2, SimTime{15});
  CHECK(drain(events) == std::vector<LaneId>{0, 2, 1});
}

TEST_CASE("an erased lane has no event and can get a new one") {
  EventTree events(3);
  events.set(0, SimTime{1});
  events.set(1, SimTime{2});
  events.erase(0);
  CHECK_FALSE(events.contains(0));
  CHECK(events.top().lane == 1);
  events.set(0, SimTime{1});
  CHECK(events.contains(0));
  CHECK(drain(events) == std::vector<LaneId>{0, 1});
}

// The model is an array with one optional time per lane, searched from lane 0 for
// the first smallest time. 20 lanes fill a tree of 32 leaves in part.
TEST_CASE("random changes leave the same top as a linear search") {
  constexpr std::uint64_t seed = 11;
  CAPTURE(seed);
  test::Random random(seed);
  EventTree events(20);
  std::vector<std::optional<SimTime>> model(20);
  for (int step = 0; step < 20'000; ++step) {
    const LaneId lane = random.below(20);
    if (random.one_in(3) && model[lane].has_value()) {
      events.erase(lane);
      model[lane].reset();
    } else if (random.one_in(4) && !events.empty()) {
      model[events.top().lane].reset();
      events.pop();
    } else {
      model[lane] = SimTime{random.integer(0, 30)};
      events.set(lane, *model[lane]);
    }
    LaneId first = no_id;
    for (LaneId other = 0; other < model.size(); ++other) {
      REQUIRE(events.contains(other) == model[other].has_value());
      if (model[other].has_value() && (first == no_id || *model[other] < *model[first])) {
        first = other;
      }
    }
    REQUIRE(events.empty() == (first == no_id));
    if (first != no_id) {
      REQUIRE(events.top().lane == first);
      REQUIRE(events.top().time == *model[first]);
    }
  }
}

} // namespace
} // namespace spillway
