// Everything that decides how a replay goes on, between two instants.
//
// Shared by the event loop (engine.cpp) and by whoever compares two moments of it
// (recurrence.hpp). At the end of an instant nothing else is pending.
#pragma once

#include "sim/engine/event_tree.hpp"
#include "sim/engine/flows.hpp"
#include "sim/engine/memory_ledger.hpp"
#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

enum class HeadStage : std::uint8_t {
  idle,    // the head has not started
  starved, // the head waits for memory
  fixed,   // nothing but time: a fixed task, or the latency of a flow without work
  latency, // of a flow that will move something
  flowing,
};

struct LaneState {
  TaskId head = no_id;        // running, or the next to run; no_id = none left
  TaskId previous = no_id;    // the task before it
  std::uint32_t position = 0; // of the head, in TaskGraph::lane_tasks
  std::uint32_t end = 0;      // of the lane's tasks
  HeadStage stage = HeadStage::idle;
  PoolId short_of = no_id;     // while starved
  LaneId next_starved = no_id; // of the same pool
  SimTime free_since{0};       // end of the task before the head
  SimTime ready_since{0};      // when the head could have started but for memory
};

struct ReplayState {
  ReplayState(const TaskGraph& task_graph, const Machine& abstract_machine)
      : graph(task_graph), machine(abstract_machine), lanes(machine.lanes.size()),
        unmet(graph.dependency_count), events(machine.lanes.size()),
        ledger(machine.pools, graph.initial), flows(graph, machine) {
    timeline.tasks.resize(graph.task_count());
  }

  const TaskGraph& graph;
  const Machine& machine;
  SimTime now{0};
  std::vector<LaneState> lanes;
  std::vector<std::uint32_t> unmet; // per task: dependencies that have not ended
  EventTree events;                 // per lane: when its head ends, or ends its latency
  MemoryLedger ledger;
  Flows flows;
  Timeline timeline; // of a released task that has not started: ready, and in cause_task
                     // which task released it
};

} // namespace spillway
