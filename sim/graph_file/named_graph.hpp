// A machine, its tasks, and what they are called.
//
// The engine works with numbers alone; names of tasks stand beside the graph, for
// those who read and write files and reports.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <string>
#include <vector>

namespace spillway {

struct NamedGraph {
  Machine machine;
  TaskGraph graph;
  std::vector<std::string> task_names; // per task; unique
};

} // namespace spillway
