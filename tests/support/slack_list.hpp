// Slack by task, as tests compare it.
#pragma once

#include "sim/analysis/slack.hpp"

#include <vector>

namespace spillway::test {

[[nodiscard]] inline std::vector<SimTime> slack_of(const TaskGraph& graph,
                                                   const Timeline& timeline) {
  const Slack slack(graph, timeline);
  std::vector<SimTime> list;
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    list.push_back(slack.of(task));
  }
  return list;
}

} // namespace spillway::test
