#include "results/task_report.hpp"

#include "results/explanation_words.hpp"
#include "sim/analysis/explain.hpp"
#include "sim/analysis/slack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace spillway {
namespace {

constexpr std::size_t longest_chain = 6;

TaskLine line_of(const Simulation& run, TaskId task) {
  return {run.lowered.describe(task, run.timeline),
          run.lowered.machine.lanes[run.lowered.graph.tasks[task].lane].name,
          run.timeline.tasks[task].start, run.timeline.tasks[task].end,
          run.timeline.tasks[task].cause};
}

// Neighbours on the lane; no_id at its ends.
struct LaneNeighbours {
  TaskId before = no_id, after = no_id;
};

LaneNeighbours neighbours_of(const TaskGraph& graph, TaskId task) {
  const std::span<const TaskId> row = graph.tasks_of(graph.tasks[task].lane);
  const auto at = std::find(row.begin(), row.end(), task);
  return {at == row.begin() ? no_id : *(at - 1), at + 1 == row.end() ? no_id : *(at + 1)};
}

std::vector<TaskLine> chain_to(const Simulation& run, TaskId task) {
  std::vector<TaskLine> chain;
  for (TaskId cause = run.timeline.tasks[task].cause_task;
       cause != no_id && chain.size() < longest_chain;
       cause = run.timeline.tasks[cause].cause_task) {
    chain.push_back(line_of(run, cause));
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

std::vector<TaskLine> dependencies_of(const Simulation& run, TaskId task) {
  const TaskGraph& graph = run.lowered.graph;
  std::vector<TaskLine> lines;
  for (TaskId other = 0; other < graph.task_count(); ++other) {
    const std::span<const TaskId> row = graph.successors_of(other);
    if (std::binary_search(row.begin(), row.end(), task)) {
      lines.push_back(line_of(run, other));
    }
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const TaskLine& a, const TaskLine& b) { return a.end > b.end; });
  return lines;
}

void measure_waits(const Simulation& run, TaskId task, TaskId before, TaskReport& report) {
  const SimTime free = before == no_id ? SimTime{0} : run.timeline.tasks[before].end;
  report.by_dependency = std::max(SimTime{0}, report.ready - free);
  report.by_lane = std::max(SimTime{0}, free - report.ready);
  report.by_memory = run.timeline.tasks[task].start - std::max(report.ready, free);
}

std::vector<WaitingTask> waiting_for(const Simulation& run, TaskId task, TaskId after) {
  const TaskGraph& graph = run.lowered.graph;
  const Timeline& timeline = run.timeline;
  std::vector<WaitingTask> waiting;
  const auto add = [&](TaskId other, Cause through) {
    waiting.push_back({line_of(run, other), through, timeline.tasks[other].cause_task == task});
  };
  const std::span<const TaskId> row = graph.successors_of(task);
  for (const TaskId successor : row) {
    add(successor, Cause::dependency);
  }
  if (after != no_id && !std::binary_search(row.begin(), row.end(), after)) {
    add(after, Cause::lane);
  }
  for (TaskId other = 0; other < graph.task_count(); ++other) {
    if (timeline.tasks[other].cause == Cause::memory && timeline.tasks[other].cause_task == task) {
      add(other, Cause::memory);
    }
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const WaitingTask& a, const WaitingTask& b) {
    return a.line.start < b.line.start;
  });
  return waiting;
}

std::string shape_of(const Work& work) {
  switch (work.kind) {
  case WorkKind::matmul:
    return fmt::format("product {}[{}, {}] x [{}, {}]",
                       work.groups > 1 ? fmt::format("{} x ", work.groups) : "", work.m, work.k,
                       work.k, work.n);
  case WorkKind::attention:
    return fmt::format("attention of {} x {} heads of {} and {} on {} tokens", work.batch,
                       work.heads, work.qk_dim, work.v_dim, work.seq);
  default: return "bound by HBM";
  }
}

TaskFlow flow_of(const Simulation& run, TaskId task) {
  const Lowered& lowered = run.lowered;
  const TaskGraph& graph = lowered.graph;
  TaskFlow flow;
  flow.bytes = lowered.tasks[task].kind == TaskKind::collective
                   ? static_cast<double>(lowered.works[lowered.prices[task].work].bytes.count())
                   : graph.tasks[task].work;
  flow.latency = graph.tasks[task].fixed_time;
  flow.lost = run.timeline.tasks[task].lost_to_sharing;
  const SimTime moving =
      run.timeline.tasks[task].end - run.timeline.tasks[task].start - flow.latency;
  flow.rate = flow.bytes / to_seconds(moving).count();
  flow.rate_alone = flow.bytes / to_seconds(moving - flow.lost).count();
  double least = graph.tasks[task].rate_limit;
  for (const Use& use : graph.uses_of(graph.tasks[task].route)) {
    const Resource& resource = lowered.machine.resources[use.resource];
    if (resource.capacity / use.weight < least) {
      least = resource.capacity / use.weight;
      flow.alone_bound_by = resource.name;
    }
  }
  if (run.timeline.tasks[task].bound_by != no_id) {
    flow.bound_by = lowered.machine.resources[run.timeline.tasks[task].bound_by].name;
  }
  return flow;
}

std::vector<TaskMemory> memory_of(const Machine& machine, std::span<const MemoryChange> changes) {
  std::vector<TaskMemory> list;
  for (const MemoryChange& change : changes) {
    const Pool& pool = machine.pools[change.pool];
    list.push_back({pool.name, pool.owners[change.owner], change.bytes});
  }
  return list;
}

void describe_work(const Simulation& run, TaskId task, TaskReport& report) {
  const Lowered& lowered = run.lowered;
  const TaskPrice& price = lowered.prices[task];
  if (lowered.graph.tasks[task].work > 0) {
    report.flow = flow_of(run, task);
  } else if (price.of == PriceOf::work && !lowered.works[price.work].is_collective()) {
    const Work& work = lowered.works[price.work];
    if (work.flops().value() > 0 || work.bytes.count() > 0) {
      report.compute = TaskCompute{shape_of(work), work.flops().value(),
                                   static_cast<double>(work.bytes.count())};
    }
  }
  report.takes = memory_of(lowered.machine, lowered.graph.allocations_of(task));
  report.gives_back = memory_of(lowered.machine, lowered.graph.frees_of(task));
}

} // namespace

TaskReport report_task(const Simulation& run, const FoundTask& found) {
  const Lowered& lowered = run.lowered;
  const Timeline& timeline = run.timeline;
  const TaskId task = found.task;
  TaskReport report;
  const TaskLine line = line_of(run, task);
  report.what = line.what;
  report.lane = line.lane;
  report.phase = class_of(lowered.tasks[task]);
  report.rank = lowered.tasks[task].rank;
  report.occurrence = found.occurrence;
  report.occurrences = found.occurrences;
  report.ready = timeline.tasks[task].ready;
  report.start = line.start;
  report.end = line.end;
  report.slack = Slack(lowered.graph, timeline).of(task);
  const std::vector<CriticalTask> sequence = critical_sequence(lowered.graph, timeline);
  report.critical = std::any_of(sequence.begin(), sequence.end(),
                                [&](const CriticalTask& one) { return one.task == task; });
  report.cause = line.cause;
  if (line.cause == Cause::memory) {
    report.cause_pool = lowered.machine.pools[timeline.tasks[task].cause_pool].name;
  }
  report.chain = chain_to(run, task);
  const LaneNeighbours neighbours = neighbours_of(lowered.graph, task);
  measure_waits(run, task, neighbours.before, report);
  report.dependencies = dependencies_of(run, task);
  describe_work(run, task, report);
  report.waiting = waiting_for(run, task, neighbours.after);
  return report;
}

} // namespace spillway
