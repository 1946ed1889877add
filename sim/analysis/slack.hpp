// How much each task of a run may be delayed without making the run longer.
//
// Durations are taken as they ran, and so is the order on each lane. A task must end
// before its successors start; successors are the tasks that depend on it, the next
// one on its lane, and those that started on memory that it freed (Cause::memory).
// Going backward from the makespan,
//
//   latest end of t  =  min over successors s of (latest end of s - duration of s),
//                       the makespan where there is none
//   slack of t       =  latest end of t - end of t     >= 0, 0 on the critical sequence
//
// Each value is for a delay of that task alone: tasks in a row share their room. With
// flows it is what the run leaves, not a promise: a delayed flow may meet others on
// its resources and take longer than it did.
//
// Example: compute A (0-2), C (5-6); copies B (2-5) and D (2-3) on lanes of their own,
// all after A, and C after B and D. B has slack 0, D may end at 5: slack 2.
//
// Where the graph leaves iterations of one loop out, each run of a repeated task has a
// slack of its own. They are worked out from the last run to the first, until two in a row
// are alike; then so are all before them. A limit on what is of interest brings that about
// where room adds up from run to run.
#pragma once

#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <cstdint>
#include <vector>

namespace spillway {

class Slack {
public:
  // `timeline` is a replay of `graph`, with at most one repeat (std::logic_error). Time: tasks
  // + dependencies. Slack above `most` counts as `most`.
  Slack(const TaskGraph& graph, const Timeline& timeline, SimTime most = SimTime::max());

  // Of a task's first run.
  [[nodiscard]] SimTime of(TaskId task) const { return first_[task]; }
  // visit(slack, runs) for all runs of a task, the last first.
  template <class Visit>
  void each_run(TaskId task, const Visit& visit) const {
    if (index_.empty() || index_[task] == no_id) {
      visit(first_[task], std::int64_t{1});
      return;
    }
    for (const Runs& runs : stages_) {
      visit(runs.slack[index_[task]], runs.count);
    }
  }

private:
  // Runs of the repeated part in a row whose tasks have the same slack.
  struct Runs {
    std::int64_t count = 1;
    std::vector<SimTime> slack; // by index_
  };
  friend class SlackWalk;

  std::vector<SimTime> first_;       // by task
  std::vector<std::uint32_t> index_; // by task: in Runs::slack; empty without a repeat
  std::vector<Runs> stages_;         // last run first
};

} // namespace spillway
