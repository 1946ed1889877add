// The abstract machine that tasks run on. It knows nothing of GPUs or models.
//
//   Resource  a capacity in units per second that running flows share
//   Lane      an in-order queue: at most one running task, started in the order added
//   Pool      memory with a capacity; owners are names under which bytes are held
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

using ResourceId = std::uint32_t;
using LaneId = std::uint32_t;
using PoolId = std::uint32_t;
using OwnerId = std::uint32_t; // index into Pool::owners
using TaskId = std::uint32_t;
using RouteId = std::uint32_t;

inline constexpr std::uint32_t no_id = 0xffffffffU;

struct Resource {
  std::string name;
  double capacity = 0; // units per second, > 0
};

struct Lane {
  std::string name;
};

enum class PoolMode : std::uint8_t {
  record, // bytes are counted; nothing ever waits
  stall,  // a task starts only when its bytes fit
};

struct Pool {
  std::string name;
  std::int64_t capacity = 0; // bytes
  PoolMode mode = PoolMode::record;
  std::vector<std::string> owners;
};

struct Machine {
  std::vector<Resource> resources;
  std::vector<Lane> lanes;
  std::vector<Pool> pools;
};

} // namespace spillway
