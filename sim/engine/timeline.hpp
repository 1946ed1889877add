// What happened, task by task, and why each task started when it did.
#pragma once

#include "sim/base/units.hpp"
#include "sim/engine/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

// Three things can hold a task: the last dependency to end, the previous task of
// its lane, and bytes that did not fit. The latest of the three is the cause. At
// equal times: a dependency on another lane, then the lane, then memory.
//
// Among dependencies that end at the same instant the one that was processed
// last counts: the one on the highest lane, except that tasks that took no time
// come after the tasks that released them.
//
// A task that waits for memory is short of the lowest pool in which its bytes do
// not fit, looked up anew whenever bytes of that pool are freed. The cause is the
// pool that it was short of last and the last task to free bytes of it before the
// start.
enum class Cause : std::uint8_t {
  beginning,  // started at time zero, nothing held it
  dependency, // the last task it depends on ended (cause_task)
  lane,       // the previous task of its lane ended (cause_task)
  memory,     // a task that freed room ended (cause_task), pool in cause_pool
};

// A part of the run that took place more often than the graph shows: on every lane
// the tasks from position begin[lane] up to end[lane] of TaskGraph::lane_tasks.
struct Repeat {
  std::vector<std::uint32_t> begin, end;
  std::uint64_t times = 0; // beyond the first
  SimTime period{0};       // from one time to the next
  std::size_t loop = 0;    // index into the loops given

  [[nodiscard]] bool holds(LaneId lane, std::uint32_t position) const {
    return begin[lane] <= position && position < end[lane];
  }
};

// A task of a repeated part has the times of its first run; what comes after has the times
// that it has after all of them.
struct TaskTimes {
  SimTime ready{0}; // all dependencies ended; 0 without any
  SimTime start{0};
  SimTime end{0};
  // Flows only: end - start minus the time the flow would take alone on the
  // machine, and the shared resource that bound it for the longest time (the first
  // on its route among equals; no_id when nothing was lost).
  SimTime lost_to_sharing{0};
  ResourceId bound_by = no_id;
  TaskId cause_task = no_id; // no_id for Cause::beginning
  PoolId cause_pool = no_id; // no_id unless Cause::memory
  Cause cause = Cause::beginning;

  friend bool operator==(const TaskTimes&, const TaskTimes&) = default;
};

struct Timeline {
  std::vector<TaskTimes> tasks; // by task

  SimTime makespan{0};
  std::vector<Repeat> repeats; // in order of their ends; an outer one after those inside it

  struct PoolPeak {
    std::int64_t bytes = 0;
    SimTime time{0};
    TaskId task = no_id;              // whose start reached the peak; no_id = held from the start
    std::vector<std::int64_t> owners; // bytes by owner at that moment; sums to bytes
  };
  std::vector<PoolPeak> peaks;           // per pool, first moment of the maximum
  std::vector<std::int64_t> final_bytes; // per pool, at the end
  std::uint64_t solver_calls = 0;
};

} // namespace spillway
