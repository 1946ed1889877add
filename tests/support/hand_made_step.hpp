// A step of a few tasks with names, to derive what reports say by hand.
#pragma once

#include "results/simulate.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace spillway::testing {

// One GPU; lanes: 0 compute, 1 copies, 2 exchanges, 3 weights. Times in picoseconds.
class HandMadeStep {
public:
  explicit HandMadeStep(PoolMode mode = PoolMode::record) {
    Machine& machine = run_.lowered.machine;
    for (const char* name : {"compute", "copies", "exchanges", "weights"}) {
      machine.lanes.push_back({name});
    }
    machine.pools.push_back({"HBM", 10, mode, {"workspace", "offload_staging"}});
    run_.lowered.lanes.push_back({0, 1, 1, 3, 2, 0});
  }

  TaskId add(LaneId lane, TaskKind kind, const std::string& label, std::int64_t ps,
             const std::vector<TaskId>& after = {}, std::int32_t layer = -1) {
    const TaskId task = graph_.add_fixed(lane, SimTime{ps});
    for (const TaskId on : after) {
      graph_.depend(task, on);
    }
    Lowered& lowered = run_.lowered;
    const auto known = std::find(lowered.labels.begin(), lowered.labels.end(), label);
    const auto id = static_cast<std::uint32_t>(known - lowered.labels.begin());
    if (known == lowered.labels.end()) {
      lowered.labels.push_back(label);
    }
    lowered.tasks.push_back({kind, Phase::forward, 0, layer, 0, id});
    lowered.prices.push_back({});
    return task;
  }
  void take(TaskId task, OwnerId owner, std::int64_t bytes) {
    graph_.allocate_at_start(task, {0, owner, bytes});
  }
  void give_back(TaskId task, OwnerId owner, std::int64_t bytes) {
    graph_.free_at_end(task, {0, owner, bytes});
  }
  void name_layers(std::vector<std::string> names) {
    for (std::size_t layer = 0; layer < names.size(); ++layer) {
      run_.lowered.layers.push_back({static_cast<std::int32_t>(layer), 0});
    }
    run_.lowered.layer_names = std::move(names);
  }

  [[nodiscard]] Simulation simulate() {
    run_.lowered.graph = std::move(graph_).build(run_.lowered.machine);
    run_.timeline = replay(run_.lowered.graph, run_.lowered.machine);
    run_.result.scenario = "demo";
    run_.result.policy = "own";
    return std::move(run_);
  }

private:
  Simulation run_;
  TaskGraphBuilder graph_;
};

} // namespace spillway::testing
