// The next event of every lane, earliest first.
//
// A 4-ary heap indexed by lane: each lane has at most one event, which set()
// moves in either direction. Order is (time, lane), so that equal times come out
// in ascending lane order whatever order they went in.
//
//   EventHeap heap(3);
//   heap.set(2, SimTime{50});
//   heap.set(0, SimTime{70});
//   heap.set(2, SimTime{90});   // top() is lane 0 at 70
#pragma once

#include "sim/base/units.hpp"
#include "sim/engine/machine.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace spillway {

class EventHeap {
public:
  struct Event {
    SimTime time{0};
    LaneId lane = no_id;
  };

  explicit EventHeap(std::size_t lane_count) : position_(lane_count, no_id) {
    events_.reserve(lane_count);
  }

  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] std::size_t size() const { return events_.size(); }
  [[nodiscard]] bool contains(LaneId lane) const { return position_[lane] != no_id; }
  [[nodiscard]] const Event& top() const { return events_.front(); }
  // Of a lane that has an event.
  [[nodiscard]] SimTime time_of(LaneId lane) const { return events_[position_[lane]].time; }

  void set(LaneId lane, SimTime time) {
    const Event event{time, lane};
    const std::uint32_t at = position_[lane];
    if (at == no_id) {
      events_.push_back(event);
      sift_up(events_.size() - 1, event);
    } else if (time < events_[at].time) {
      sift_up(at, event);
    } else {
      sift_down(at, event);
    }
  }

  void erase(LaneId lane) { remove_at(position_[lane]); }
  void pop() { remove_at(0); }

  // Moves all events by the same time.
  void shift(SimTime by) {
    for (Event& event : events_) {
      event.time += by;
    }
  }

private:
  static constexpr std::size_t arity = 4;

  [[nodiscard]] static bool before(const Event& a, const Event& b) {
    return a.time < b.time || (a.time == b.time && a.lane < b.lane);
  }

  void put(std::size_t at, const Event& event) {
    events_[at] = event;
    position_[event.lane] = static_cast<std::uint32_t>(at);
  }

  void sift_up(std::size_t at, const Event& event) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / arity;
      if (!before(event, events_[parent])) {
        break;
      }
      put(at, events_[parent]);
      at = parent;
    }
    put(at, event);
  }

  void sift_down(std::size_t at, const Event& event) {
    for (;;) {
      const std::size_t first = at * arity + 1;
      if (first >= events_.size()) {
        break;
      }
      const std::size_t last = std::min(first + arity, events_.size());
      std::size_t least = first;
      for (std::size_t child = first + 1; child < last; ++child) {
        if (before(events_[child], events_[least])) {
          least = child;
        }
      }
      if (!before(events_[least], event)) {
        break;
      }
      put(at, events_[least]);
      at = least;
    }
    put(at, event);
  }

  // The last event fills the hole; it may belong above or below it.
  void remove_at(std::size_t at) {
    position_[events_[at].lane] = no_id;
    const Event moved = events_.back();
    events_.pop_back();
    if (at == events_.size()) {
      return;
    }
    if (at > 0 && before(moved, events_[(at - 1) / arity])) {
      sift_up(at, moved);
    } else {
      sift_down(at, moved);
    }
  }

  std::vector<Event> events_;
  std::vector<std::uint32_t> position_; // per lane, index into events_; no_id = no event
};

} // namespace spillway
