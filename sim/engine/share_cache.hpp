// Remembers how flows shared their resources. A training step brings the same few sets
// of flows together again and again, and rates depend on nothing but the routes and
// limits of the flows, in their order.
//
// A table of fixed size, one set a slot; a newer set takes the slot of an older one. Sets
// are found by a key that callers keep up to date, the sum of key_of() over their flows,
// and compared in full, so that a key that two sets share costs time only.
#pragma once

#include "sim/engine/fair_share.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

class ShareCache {
public:
  struct Entry {
    RouteId route = no_id;
    double rate_limit = 0;
    FlowShare share;
  };

  // For sets of at most `most_flows`, out of `flow_count` in all.
  ShareCache(std::size_t most_flows, std::size_t flow_count) : stride_(most_flows) {
    const std::size_t fitting = most_bytes / (sizeof(Entry) * std::max<std::size_t>(1, stride_));
    const std::size_t useful = flow_count / 16; // a set seen once is not worth its slot
    const std::size_t slots = std::bit_floor(std::max<std::size_t>(1, std::min(fitting, useful)));
    mask_ = slots - 1;
    slots_.resize(slots);
    entries_.resize(slots * stride_);
  }

  [[nodiscard]] static std::uint64_t key_of(RouteId route, double rate_limit) {
    std::uint64_t x = std::bit_cast<std::uint64_t>(rate_limit) ^ (route * 0x9e3779b97f4a7c15U);
    x = (x ^ (x >> 32U)) * 0xd6e8feb86659fd93U;
    return x ^ (x >> 32U);
  }

  // The entries of the slot for this key. They hold the set if holds() says so.
  [[nodiscard]] Entry* entries(std::uint64_t key) {
    return entries_.data() + slot_of(key) * stride_;
  }
  [[nodiscard]] bool holds(std::uint64_t key, std::size_t flow_count) const {
    const Slot& slot = slots_[slot_of(key)];
    return slot.key == key && slot.flow_count == flow_count;
  }
  void claim(std::uint64_t key, std::size_t flow_count) {
    slots_[slot_of(key)] = {key, flow_count};
  }

private:
  struct Slot {
    std::uint64_t key = 0;
    std::size_t flow_count = 0;
  };
  static constexpr std::size_t most_bytes = std::size_t{1} << 20U; // stays near the processor

  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const { return key & mask_; }

  std::size_t stride_;
  std::size_t mask_ = 0;
  std::vector<Slot> slots_;
  std::vector<Entry> entries_; // stride_ a slot
};

} // namespace spillway
