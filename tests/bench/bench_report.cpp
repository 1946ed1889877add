#include "tests/bench/bench_report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway::bench {
namespace {

[[nodiscard]] double per_task(const Row& row, double total) {
  return total / static_cast<double>(row.engine.tasks);
}

[[nodiscard]] double per_task(const Row& row, std::size_t total) {
  return per_task(row, static_cast<double>(total));
}

[[nodiscard]] const char* name_of(Contention contention) {
  return contention == Contention::hbm ? "hbm" : "links";
}

// How many times as many tasks a second as SimGrid.
[[nodiscard]] double ratio_of(const Row& row) {
  return row.simgrid->run_seconds / row.engine.replay_seconds;
}

} // namespace

std::string heading() {
  return fmt::format(
      "build     TaskGraphBuilder::build, ns a task\n"
      "replay    replay(), ns a task\n"
      "growth    of replay over the row with a tenth of the tasks; 1 is linear\n"
      "solves    calls of the solver a task\n"
      "graph     bytes a task of the arrays; builder: in use beside them while they are made\n"
      "timeline  bytes a task of the arrays; state: in use beside them in replay()\n"
      "resident  bytes a task by which the process grows in its first replay()\n"
      "SimGrid   the same graph, each activity created when it is ready, ns a task; ratio: over "
      "the engine\n"
      "Times are processor time, the best of several runs. Compute takes fixed times and copies\n"
      "share links and host memory (links), or both share the device's memory as well (hbm).\n"
      "\n"
      "{:<6} {:>5} {:>9}  {:>6} {:>6} {:>6} {:>6}  {:>6} {:>7} {:>8} {:>6} {:>8}  {:>7} {:>5}\n",
      "shared", "ranks", "tasks", "build", "replay", "growth", "solves", "graph", "builder",
      "timeline", "state", "resident", "SimGrid", "ratio");
}

std::string line_of(const Row& row) {
  const EnginePoint& point = row.engine;
  const std::string growth = row.growth ? fmt::format("{:.2f}", *row.growth) : "-";
  std::string simgrid = fmt::format("{:>7} {:>5}", "-", "-");
  if (row.simgrid) {
    simgrid = fmt::format("{:>7.0f} {:>5.1f}", per_task(row, row.simgrid->run_seconds * 1e9),
                          ratio_of(row));
  }
  return fmt::format(
      "{:<6} {:>5} {:>9}  {:>6.1f} {:>6.1f} {:>6} {:>6.3f}  {:>6.1f} {:>7.1f} "
      "{:>8.1f} {:>6.1f} {:>8.1f}  {}\n",
      name_of(row.settings.contention), row.settings.ranks, point.tasks,
      per_task(row, point.build_seconds * 1e9), per_task(row, point.replay_seconds * 1e9), growth,
      per_task(row, static_cast<double>(point.solver_calls)), per_task(row, point.graph_bytes),
      per_task(row, point.builder_bytes), per_task(row, point.timeline_bytes),
      per_task(row, point.state_bytes), per_task(row, point.replay_rss_bytes), simgrid);
}

std::string json_of(const std::vector<Row>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    const EnginePoint& point = row.engine;
    nlohmann::ordered_json& out = all.emplace_back();
    out["shared"] = name_of(row.settings.contention);
    out["ranks"] = row.settings.ranks;
    out["tasks"] = point.tasks;
    out["build_ns_per_task"] = per_task(row, point.build_seconds * 1e9);
    out["replay_ns_per_task"] = per_task(row, point.replay_seconds * 1e9);
    out["growth"] = row.growth ? nlohmann::ordered_json(*row.growth) : nullptr;
    out["solver_calls"] = point.solver_calls;
    out["graph_bytes"] = point.graph_bytes;
    out["builder_bytes"] = point.builder_bytes;
    out["timeline_bytes"] = point.timeline_bytes;
    out["state_bytes"] = point.state_bytes;
    out["replay_rss_bytes"] = point.replay_rss_bytes;
    out["makespan_s"] = point.makespan;
    if (row.simgrid) {
      out["simgrid"] = {{"activities", row.simgrid->activities},
                        {"ns_per_task", per_task(row, row.simgrid->run_seconds * 1e9)},
                        {"ns_per_activity", row.simgrid->run_seconds * 1e9 /
                                                static_cast<double>(row.simgrid->activities)},
                        {"ratio", ratio_of(row)},
                        {"worst_difference", row.simgrid->worst_difference}};
    }
  }
  return nlohmann::ordered_json{{"rows", all}}.dump(2) + "\n";
}

} // namespace spillway::bench
