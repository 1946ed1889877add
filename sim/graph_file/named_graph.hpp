// A machine, its tasks, and what they are called.
//
// The engine works with numbers alone; names of tasks, and where a file has them, stand
// beside the graph, for those who read and write files and reports.
#pragma once

#include "sim/base/error.hpp"
#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"

#include <string>
#include <vector>

namespace spillway {

struct NamedGraph {
  Machine machine;
  TaskGraph graph;
  std::vector<std::string> task_names; // per task; unique
  std::vector<Place> task_places = {}; // per task: of its name; empty where no file has it
};

} // namespace spillway
