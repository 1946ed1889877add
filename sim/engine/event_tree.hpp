// The next event of every lane, earliest first.
//
// A tournament: lanes are the leaves of a binary tree, and each inner node holds the
// earlier of its two children's events, the left one at equal times. So equal times come
// out in ascending lane order, whatever order they went in, and a change plays one match a
// level without a branch that depends on the times.
//
//   EventTree events(3);
//   events.set(2, SimTime{50});
//   events.set(0, SimTime{70});
//   events.set(2, SimTime{90});   // top() is lane 0 at 70
#pragma once

#include "sim/base/units.hpp"
#include "sim/engine/machine.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

class EventTree {
public:
  struct Event {
    SimTime time{0};
    LaneId lane = no_id;
  };

  explicit EventTree(std::size_t lane_count)
      : leaves_(std::bit_ceil(std::max<std::size_t>(1, lane_count))), times_(2 * leaves_, never),
        lanes_(2 * leaves_, no_id) {}

  [[nodiscard]] bool empty() const { return times_[1] == never; }
  [[nodiscard]] bool contains(LaneId lane) const { return time_of(lane) != never; }
  // The earliest event; not to be asked for when empty.
  [[nodiscard]] Event top() const { return {times_[1], lanes_[1]}; }
  // Of a lane that has an event.
  [[nodiscard]] SimTime time_of(LaneId lane) const { return times_[leaves_ + lane]; }

  // Gives the lane its event, or moves it in either direction.
  void set(LaneId lane, SimTime time) { change(lane, time); }
  void erase(LaneId lane) { change(lane, never); }
  void pop() { erase(lanes_[1]); }

  // Moves all events by the same time.
  void shift(SimTime by) {
    for (SimTime& time : times_) {
      time += time == never ? SimTime{0} : by;
    }
  }

private:
  static constexpr SimTime never = SimTime::max() - SimTime{1};

  void change(LaneId lane, SimTime time) {
    SimTime* const times = times_.data();
    LaneId* const lanes = lanes_.data();
    LaneId winner = lane;
    std::size_t node = leaves_ + lane;
    times[node] = time;
    lanes[node] = lane;
    while (node > 1) {
      const std::size_t sibling = node ^ 1U;
      const auto left_bonus = static_cast<std::int64_t>(node & 1U); // the left one wins a tie
      const bool sibling_wins = times[sibling] < time + SimTime{left_bonus};
      time = sibling_wins ? times[sibling] : time;
      winner = sibling_wins ? lanes[sibling] : winner;
      node /= 2;
      if (lanes[node] == winner && times[node] == time) {
        return; // nothing changes further up
      }
      times[node] = time;
      lanes[node] = winner;
    }
  }

  std::size_t leaves_; // a power of two, at least the number of lanes
  // By node: the root at 1, the children of node n at 2n and 2n + 1.
  std::vector<SimTime> times_;
  std::vector<LaneId> lanes_;
};

} // namespace spillway
