#include "tests/bench/engine_point.hpp"

#include "sim/engine/engine.hpp"
#include "tests/bench/heap_count.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/processor_time.hpp"
#include "tests/support/simgrid_replay.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <malloc.h>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace spillway::bench {
namespace {

using test::processor_seconds;

// ---- Memory ----

template <class... Item>
[[nodiscard]] std::size_t bytes_of(const std::vector<Item>&... arrays) {
  return ((arrays.size() * sizeof(Item)) + ...);
}

[[nodiscard]] std::size_t bytes_of(const TaskGraph& graph) {
  return bytes_of(graph.tasks, graph.dependency_count, graph.successor_offset, graph.successors,
                  graph.allocate_offset, graph.allocations, graph.free_offset, graph.frees,
                  graph.lane_offset, graph.lane_tasks, graph.route_offset, graph.route_uses,
                  graph.initial);
}

[[nodiscard]] std::size_t bytes_of(const Timeline& timeline) {
  return bytes_of(timeline.tasks);
}

// A line of /proc/self/status, in bytes.
[[nodiscard]] std::size_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kibibytes = 0;
  while (status >> word && word != name) {}
  status >> kibibytes;
  return kibibytes * 1024;
}

void restart_rss_peak() {
  std::ofstream("/proc/self/clear_refs") << "5\n";
}

// The first build and replay of a fresh process.
[[nodiscard]] TaskGraph measure_memory(const PointSettings& settings, const Machine& machine,
                                       EnginePoint& point) {
  TaskGraph graph = [&] {
    TaskGraphBuilder builder = make_builder(settings.contention, settings.ranks, settings.tasks);
    restart_heap_peak();
    return std::move(builder).build(machine);
  }();
  point.tasks = graph.task_count();
  point.graph_bytes = bytes_of(graph);
  point.builder_bytes = heap_count().peak - heap_count().now;

  malloc_trim(0);
  restart_rss_peak();
  const std::size_t resident = status_bytes("VmRSS:");
  restart_heap_peak();
  const Timeline timeline = replay(graph, machine);
  point.state_bytes = heap_count().peak - heap_count().now;
  point.replay_rss_bytes = status_bytes("VmHWM:") - std::min(resident, status_bytes("VmHWM:"));
  point.timeline_bytes = bytes_of(timeline);
  point.solver_calls = timeline.solver_calls;
  point.makespan = to_seconds(timeline.makespan).count();
  return graph;
}

// ---- Time ----

// The best of a few runs: other programs only ever slow one down.
template <class Work>
[[nodiscard]] double best_seconds(const PointSettings& settings, const Work& work) {
  double best = std::numeric_limits<double>::infinity();
  double sum = 0;
  for (int i = 0; i < settings.repetitions || sum < settings.least_seconds; ++i) {
    const double seconds = work();
    best = std::min(best, seconds);
    sum += seconds;
  }
  return best;
}

[[nodiscard]] double replay_once(const TaskGraph& graph, const Machine& machine) {
  const double begin = processor_seconds();
  const Timeline timeline = replay(graph, machine);
  return processor_seconds() - begin;
}

[[nodiscard]] double build_once(const PointSettings& settings, const Machine& machine) {
  TaskGraphBuilder builder = make_builder(settings.contention, settings.ranks, settings.tasks);
  const double begin = processor_seconds();
  const TaskGraph graph = std::move(builder).build(machine);
  return processor_seconds() - begin;
}

void measure_here(const PointSettings& settings, EnginePoint& point) {
  const Machine machine = make_machine(settings.contention, settings.ranks);
  {
    const TaskGraph graph = measure_memory(settings, machine, point);
    point.replay_seconds = best_seconds(settings, [&] { return replay_once(graph, machine); });
  }
  point.build_seconds = best_seconds(settings, [&] { return build_once(settings, machine); });
}

} // namespace

EnginePoint measure_engine(const PointSettings& settings) {
  const test::SharedMemory shared(sizeof(EnginePoint));
  auto* const point = new (shared.address()) EnginePoint;
  static_cast<void>(test::run_in_child([&] { measure_here(settings, *point); }));
  return *point;
}

SimgridPoint measure_simgrid(const PointSettings& settings) {
  const Machine machine = make_machine(settings.contention, settings.ranks);
  const TaskGraph graph =
      make_builder(settings.contention, settings.ranks, settings.tasks).build(machine);
  const test::SimgridCase told{&graph, &machine};
  SimgridPoint point;
  point.run_seconds = std::numeric_limits<double>::infinity();
  test::SimgridResult result;
  for (int i = 0; i < settings.repetitions; ++i) {
    result = test::simgrid_replay({&told, 1});
    point.run_seconds = std::min(point.run_seconds, result.run_seconds);
  }
  point.activities = result.activities;
  const Timeline timeline = replay(graph, machine);
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    const double ours = to_seconds(timeline.tasks[task].end).count();
    point.worst_difference =
        std::max(point.worst_difference, std::abs(result.ends[0][task] - ours) / ours);
  }
  return point;
}

} // namespace spillway::bench
