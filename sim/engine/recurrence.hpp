// Folding: proves that a replay repeats itself, and skips the repetitions.
//
// At the end of each iteration of a loop the state of the replay is kept: what every
// lane runs and since when, what is left of every flow, what every owner holds. Two
// such moments A and B are alike when one is the other later: for every lane the tasks
// from its head at A up to its head at B form the window; shifting tasks by the
// window's length on their lane (`image`) must turn state A into state B.
//
//   window  as many iterations on every lane as on the lane of the loop's ends
//   lanes   same stage; starts, ends, waits the same relative to the moment
//   flows   the same remaining work, rate and binding, bit for bit
//   tasks   from A to the heads at B and as far as anything of the window reaches: image =
//           same lane, price, memory and number of dependencies; dependencies inside
//           map to dependencies; the same number of them unmet; released at the same
//           time relative to the moment, by the image of the same task
//   ledger  may differ by a constant per owner
//
// Arithmetic uses differences of integer times only, so equal states lead to equal
// futures as long as tasks are alike: the iterations left out repeat the window, each
// with the same causes, a period later. Time, running tasks and the ledger then move
// on by that many periods, and what follows is replayed as usual.
//
// Memory: where a stalling pool's level changes from window to window, as many windows
// are skipped as certainly fit: level + all allocations of a window <= capacity. Where a
// level rises, the window that follows rises above all skipped ones (it is there: heads
// and all that the window reaches have images); where it falls the first one is the highest;
// so peaks need nothing.
//
// Dependencies that leave the window for good (the stores that a backward pass waits
// for) must still be unmet at B, and a window's tasks must have been released after
// the last skip: then what was skipped cannot have been what they waited for.
//
// Example: a lane runs 1000 tasks of 5 ps that keep 3 bytes each, written as a loop of 6
// with 994 left out. After the second one the state recurs: 994 * 5 ps and 994 * 3
// bytes are added, the last four are replayed.
#pragma once

#include "sim/engine/loop.hpp"
#include "sim/engine/replay_state.hpp"

#include <optional>
#include <span>
#include <vector>

namespace spillway {

class RecurrenceFinder {
public:
  // Loops that leave nothing out are ignored.
  RecurrenceFinder(const TaskGraph& graph, std::span<const Loop> loops);

  // The next task whose end completes an iteration; no_id = none.
  [[nodiscard]] TaskId next_end() const { return next_end_; }
  // To be called at the end of the instant at which next_end() ended. Throws
  // NoRecurrence when a loop is over and its missing iterations were not skipped.
  void end_of_iteration(ReplayState& state);

private:
  struct Mark {
    std::uint32_t position = 0; // on the lane
    TaskId task = no_id;
    std::size_t loop = 0;
    bool last = false; // of its loop
  };
  struct Snapshot {
    SimTime now{0};
    std::uint64_t solver_calls = 0;
    std::vector<LaneState> lanes;
    // By lane; of lanes that run nothing, zero.
    std::vector<SimTime> start, event;
    std::vector<Flows::Flow> flows;
    std::vector<SimTime> bound_times;
    std::vector<std::int64_t> held;
    SimTime last_skip{0}; // the end of the last skip before
  };
  struct Progress {
    std::span<const std::uint32_t> tasks; // of an iteration, by lane
    std::uint64_t left_out = 0;
    std::uint64_t possible = 0; // most iterations that could have been skipped so far
    std::vector<Snapshot> seen; // one per iteration
  };

  [[nodiscard]] Snapshot take(const ReplayState& state) const;
  [[nodiscard]] bool skip_if_alike(const Snapshot& then, ReplayState& state, std::size_t loop);

  [[nodiscard]] bool lanes_are_alike(const Snapshot& then, const ReplayState& state) const;
  [[nodiscard]] bool head_is_alike(const Snapshot& then, const ReplayState& state,
                                   LaneId lane) const;
  [[nodiscard]] bool flow_is_alike(const Snapshot& then, const ReplayState& state,
                                   LaneId lane) const;
  [[nodiscard]] bool window_maps(const Snapshot& then, const ReplayState& state);
  [[nodiscard]] bool successors_map(TaskId task, TaskId image, const ReplayState& state);
  [[nodiscard]] bool tasks_are_alike(const Snapshot& then, const ReplayState& state) const;
  [[nodiscard]] bool release_is_alike(TaskId task, TaskId image, const Snapshot& then,
                                      const ReplayState& state) const;
  [[nodiscard]] std::int64_t taken_by_window(PoolId pool, const ReplayState& state) const;
  [[nodiscard]] std::int64_t runs_so_far(LaneId lane, std::uint32_t at,
                                         const ReplayState& state) const;
  [[nodiscard]] std::uint64_t windows_with_room(PoolId pool, std::int64_t growth,
                                                const ReplayState& state) const;
  [[nodiscard]] std::uint64_t skips_that_fit(const Snapshot& then, const ReplayState& state) const;
  void skip(const Snapshot& then, std::uint64_t times, std::size_t loop, ReplayState& state);

  // The task a window later on the same lane; no_id = none.
  [[nodiscard]] TaskId image_of(TaskId task) const;
  [[nodiscard]] bool have_same_rows(TaskId a, TaskId b) const;

  const TaskGraph& graph_;
  std::vector<Progress> loops_;
  std::vector<Mark> marks_;
  std::size_t next_mark_ = 0;
  TaskId next_end_ = no_id;
  std::vector<std::uint32_t> position_; // per task, on its lane
  SimTime last_skip_{0};

  // Of the comparison under way, by lane: where the window begins and ends, and up to
  // where its dependencies reach.
  std::vector<std::uint32_t> begin_, end_, reach_;
  std::vector<std::uint32_t> inner_; // per task: its dependencies inside the window
  std::vector<TaskId> counted_;      // whose inner_ is not zero
};

} // namespace spillway
