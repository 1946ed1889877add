// Small scenarios and a view of a simulated step by names, for tests.
#pragma once

#include "results/simulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::testing {

// The repository's root is the working directory of every test.
inline Scenario scenario_from(const std::string& text,
                              const std::vector<std::string>& assignments = {}) {
  YamlNode tree = parse_yaml(text, "test.yaml");
  for (const std::string& assignment : assignments) {
    set_path(tree, assignment);
  }
  return read_scenario(Catalog({"."}), tree, "test");
}

inline Scenario catalogue(const std::string& name,
                          const std::vector<std::string>& assignments = {}) {
  return load_scenario(Catalog({"."}), name, assignments);
}

// With all tasks of all layers and micro-batches.
inline Simulation run(const Scenario& scenario, const std::string& policy) {
  RateCache cache;
  return simulate(scenario, scenario.policy(policy), cache, Folding::off);
}

// A rank of a run. Layer 0 is the embedding, decoder layers count from 1, the
// head comes last; with gradient accumulation the first micro-batch is seen.
class StepView {
public:
  explicit StepView(const Simulation& simulation, std::uint16_t rank = 0)
      : run_(simulation), rank_(rank), lanes_(simulation.lowered.lanes[rank]) {
    const auto row = run_.lowered.graph.tasks_of(lanes_.compute);
    compute_.assign(row.begin(), row.end());
  }

  [[nodiscard]] SimTime start(TaskId task) const { return run_.timeline.tasks[task].start; }
  [[nodiscard]] SimTime end(TaskId task) const { return run_.timeline.tasks[task].end; }
  [[nodiscard]] SimTime took(TaskId task) const { return end(task) - start(task); }
  [[nodiscard]] LaneId lane(TaskId task) const { return run_.lowered.graph.tasks[task].lane; }
  [[nodiscard]] const RankLanes& lanes() const { return lanes_; }
  [[nodiscard]] const TaskInfo& info(TaskId task) const { return run_.lowered.tasks[task]; }
  [[nodiscard]] const std::string& label(TaskId task) const {
    return run_.lowered.labels[info(task).label];
  }

  // The first task with this label, in this layer and phase.
  [[nodiscard]] TaskId find(const std::string& label_text, std::int32_t layer, Phase phase) const {
    for (TaskId task = 0; task < run_.lowered.tasks.size(); ++task) {
      const TaskInfo& i = info(task);
      if (i.rank == rank_ && i.layer == layer && i.phase == phase && label(task) == label_text) {
        return task;
      }
    }
    FAIL("no task '" << label_text << "' in layer " << layer);
    return no_id;
  }
  [[nodiscard]] TaskId store(const std::string& tensor, std::int32_t layer) const {
    return find("store " + tensor, layer, Phase::forward);
  }
  [[nodiscard]] TaskId reload(const std::string& tensor, std::int32_t layer) const {
    return find("reload " + tensor, layer, Phase::backward);
  }

  // Kernels of a layer's forward or backward (re-run included), in order. Casts of
  // its weights run while the layer before it does and are left out.
  [[nodiscard]] std::vector<TaskId> kernels(std::int32_t layer, bool backward) const {
    std::vector<TaskId> found;
    for (const TaskId task : compute_) {
      const TaskInfo& i = info(task);
      if (i.kind == TaskKind::kernel && i.layer == layer && !label(task).starts_with("cast ") &&
          (i.phase != Phase::forward) == backward) {
        found.push_back(task);
      }
    }
    return found;
  }
  [[nodiscard]] TaskId first_forward(std::int32_t layer) const {
    return kernels(layer, false).front();
  }
  [[nodiscard]] TaskId last_forward(std::int32_t layer) const {
    return kernels(layer, false).back();
  }
  [[nodiscard]] TaskId first_backward(std::int32_t layer) const {
    return kernels(layer, true).front();
  }
  // The last kernel before a layer's backward. The gradients of all layers may be
  // zeroed in between; that already belongs to the decoder's backward loop.
  [[nodiscard]] TaskId backward_top(std::int32_t layer) const {
    std::vector<TaskId> before = kernels(layer + 1, true);
    if (label(before.back()) == "zero gradients") {
      before.pop_back();
    }
    return before.back();
  }

  // Time of the kernels from `first` up to, not including, `last`. Kernel times
  // do not depend on copies, so this is a window of the step without copies.
  [[nodiscard]] SimTime work_between(TaskId first, TaskId last) const {
    SimTime sum{0};
    auto task = std::find(compute_.begin(), compute_.end(), first);
    for (; task != compute_.end() && *task != last; ++task) {
      sum += info(*task).kind == TaskKind::kernel ? took(*task) : SimTime{0};
    }
    return sum;
  }
  // All kernels and the gap between steps: the step without copies and collectives.
  [[nodiscard]] SimTime compute_only() const {
    SimTime sum{0};
    for (const TaskId task : compute_) {
      const TaskKind kind = info(task).kind;
      sum += kind == TaskKind::kernel || kind == TaskKind::gap ? took(task) : SimTime{0};
    }
    return sum;
  }
  [[nodiscard]] std::vector<TaskId> copies() const {
    std::vector<TaskId> found;
    for (TaskId task = 0; task < run_.lowered.tasks.size(); ++task) {
      const TaskInfo& i = info(task);
      if (i.rank == rank_ && (i.kind == TaskKind::store || i.kind == TaskKind::reload)) {
        found.push_back(task);
      }
    }
    return found;
  }
  [[nodiscard]] SimTime makespan() const { return run_.timeline.makespan; }

private:
  const Simulation& run_;
  std::uint16_t rank_;
  RankLanes lanes_;
  std::vector<TaskId> compute_;
};

} // namespace spillway::testing
