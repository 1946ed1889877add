// The timeline of a whole schedule, from one whose graph leaves iterations out.
#pragma once

#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <cstdint>
#include <vector>

namespace spillway::test {

// One run of a task, in the order of its lane.
struct UnfoldedRun {
  TaskId task = no_id; // of the graph that leaves iterations out
  SimTime later{0};    // than the timeline says
};

// By lane. A repeat's runs follow its first one; repeats inside it are in place by then.
[[nodiscard]] inline std::vector<std::vector<UnfoldedRun>> unfold(const TaskGraph& graph,
                                                                  const Timeline& timeline) {
  std::vector<std::vector<UnfoldedRun>> lanes;
  for (LaneId lane = 0; lane + std::size_t{1} < graph.lane_offset.size(); ++lane) {
    std::vector<UnfoldedRun> runs;
    std::vector<std::uint32_t> positions;
    for (std::uint32_t at = graph.lane_offset[lane]; at < graph.lane_offset[lane + 1]; ++at) {
      runs.push_back({graph.lane_tasks[at], SimTime{0}});
      positions.push_back(at);
    }
    for (const Repeat& repeat : timeline.repeats) {
      std::vector<UnfoldedRun> all;
      std::vector<std::uint32_t> all_positions;
      const auto add = [&](std::size_t i, SimTime later) {
        all.push_back({runs[i].task, runs[i].later + later});
        all_positions.push_back(positions[i]);
      };
      std::size_t i = 0;
      for (; i < runs.size() && positions[i] < repeat.end[lane]; ++i) {
        add(i, SimTime{0});
      }
      for (std::uint64_t time = 1; time <= repeat.times; ++time) {
        for (std::size_t k = 0; k < i; ++k) {
          if (positions[k] >= repeat.begin[lane]) {
            add(k, repeat.period * static_cast<std::int64_t>(time));
          }
        }
      }
      for (; i < runs.size(); ++i) {
        add(i, SimTime{0});
      }
      runs = std::move(all);
      positions = std::move(all_positions);
    }
    lanes.push_back(std::move(runs));
  }
  return lanes;
}

} // namespace spillway::test
