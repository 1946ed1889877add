#include "tests/support/simgrid_replay.hpp"

#include "sim/base/units.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/processor_time.hpp"

#include <fmt/format.h>
#include <simgrid/s4u.hpp>
#include <xbt/log.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace spillway::test {
namespace {

namespace s4u = simgrid::s4u;

constexpr double weights_per_unit = 4;
constexpr double largest_whole = 0x1p53;

// ---- What SimGrid can be told ----

void check_graph(const TaskGraph& graph, const Machine& machine) {
  for (const Use& use : graph.route_uses) {
    if (use.weight * weights_per_unit != std::floor(use.weight * weights_per_unit)) {
      throw std::logic_error(fmt::format("a weight of {} is no number of quarters", use.weight));
    }
  }
  for (const Task& task : graph.tasks) {
    const double work = task.work;
    if (work != std::floor(work) || work > largest_whole) {
      throw std::logic_error(fmt::format("work of {} is no whole number", work));
    }
  }
  for (const MemoryChange& change : graph.allocations) {
    if (machine.pools[change.pool].mode == PoolMode::stall) {
      throw std::logic_error("SimGrid has no memory to wait for");
    }
  }
}

[[nodiscard]] std::int64_t quarters(const Use& use) {
  return static_cast<std::int64_t>(use.weight * weights_per_unit);
}

// Per resource: the largest step of which all its weights are multiples, in
// quarters. It keeps the number of times that routes name a link low.
[[nodiscard]] std::vector<std::int64_t> weight_steps(const TaskGraph& graph,
                                                     const Machine& machine) {
  std::vector<std::int64_t> steps(machine.resources.size(), 0);
  for (const Use& use : graph.route_uses) {
    steps[use.resource] = std::gcd(steps[use.resource], quarters(use));
  }
  return steps;
}

// ---- One graph in the simulation ----

class GraphReplay;

// What the completion of an activity leads back to.
struct Started {
  GraphReplay* graph = nullptr;
  TaskId task = no_id;
};

class GraphReplay {
public:
  GraphReplay(std::size_t index, const SimgridCase& made, s4u::NetZone& root, double* ends);

  void start();
  // A task has come to the end of its latency, or to its end.
  void proceed(TaskId task);
  [[nodiscard]] std::size_t activities() const { return activities_; }

private:
  struct Path {
    s4u::Host* from = nullptr; // null when it uses nothing
    s4u::Host* to = nullptr;
  };
  using PathKey = std::pair<RouteId, double>; // with the flow's own rate limit

  void make_links(s4u::NetZone& root);
  void make_paths(s4u::NetZone& root);
  [[nodiscard]] Path make_path(const PathKey& key, const std::string& name, s4u::NetZone& root);
  void release(TaskId task);
  void end(TaskId task);
  void compute(TaskId task, double seconds);
  void send(TaskId task);
  void hold(TaskId task, const s4u::ActivityPtr& activity);

  const TaskGraph& graph_;
  const Machine& machine_;
  std::string name_; // SimGrid's names are unique in the simulation
  double* ends_;
  std::size_t activities_ = 0;
  std::vector<s4u::Host*> lanes_;
  std::vector<std::int64_t> steps_;    // per resource, in quarters: of its link's weights
  std::vector<s4u::Link*> links_;      // per resource
  std::vector<Path> path_;             // per task
  std::vector<std::uint32_t> unmet_;   // per task: dependencies and the task before it on its lane
  std::vector<TaskId> next_on_lane_;   // per task
  std::vector<char> flow_is_to_come_;  // per task: it has work and that has not begun
  std::vector<Started> started_;       // per task
  std::vector<s4u::ActivityPtr> held_; // to the end: SimGrid still uses those that are done
};

GraphReplay::GraphReplay(std::size_t index, const SimgridCase& made, s4u::NetZone& root,
                         double* ends)
    : graph_(*made.graph), machine_(*made.machine), name_(std::to_string(index)), ends_(ends),
      steps_(weight_steps(graph_, machine_)), links_(machine_.resources.size(), nullptr),
      path_(graph_.task_count()), unmet_(graph_.dependency_count),
      next_on_lane_(graph_.task_count(), no_id) {
  for (LaneId lane = 0; lane < machine_.lanes.size(); ++lane) {
    lanes_.push_back(root.create_host(fmt::format("{} lane {}", name_, lane), 1.0)->seal());
    const std::span<const TaskId> tasks = graph_.tasks_of(lane);
    for (std::size_t i = 1; i < tasks.size(); ++i) {
      next_on_lane_[tasks[i - 1]] = tasks[i];
      ++unmet_[tasks[i]];
    }
  }
  for (TaskId task = 0; task < graph_.task_count(); ++task) {
    flow_is_to_come_.push_back(graph_.tasks[task].work > 0 ? 1 : 0);
    started_.push_back({this, task});
  }
  make_links(root);
  make_paths(root);
}

void GraphReplay::make_links(s4u::NetZone& root) {
  for (ResourceId resource = 0; resource < machine_.resources.size(); ++resource) {
    if (steps_[resource] > 0) {
      const double capacity = machine_.resources[resource].capacity * weights_per_unit /
                              static_cast<double>(steps_[resource]);
      links_[resource] = root.create_link(fmt::format("{} link {}", name_, resource), capacity);
      links_[resource]->set_latency(0)->seal();
    }
  }
}

void GraphReplay::make_paths(s4u::NetZone& root) {
  std::map<PathKey, Path> paths;
  for (TaskId task = 0; task < graph_.task_count(); ++task) {
    if (graph_.tasks[task].work > 0 && !graph_.uses_of(graph_.tasks[task].route).empty()) {
      const PathKey key(graph_.tasks[task].route, graph_.tasks[task].rate_limit);
      const auto [at, is_new] = paths.try_emplace(key);
      if (is_new) {
        at->second = make_path(key, fmt::format("{} path {}", name_, paths.size()), root);
      }
      path_[task] = at->second;
    }
  }
}

// A zone of its own: one zone of all hosts would hold a table of all pairs. The
// rate of such a message cannot be set, so the limit is a link that its users do
// not share.
GraphReplay::Path GraphReplay::make_path(const PathKey& key, const std::string& name,
                                         s4u::NetZone& root) {
  std::vector<s4u::LinkInRoute> named;
  for (const Use& use : graph_.uses_of(key.first)) {
    named.insert(named.end(), static_cast<std::size_t>(quarters(use) / steps_[use.resource]),
                 s4u::LinkInRoute(links_[use.resource]));
  }
  if (std::isfinite(key.second)) {
    s4u::Link* const limit = root.create_link(name + " limit", key.second);
    limit->set_latency(0)->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE)->seal();
    named.emplace_back(limit);
  }
  s4u::NetZone* const zone = s4u::create_full_zone(name);
  zone->set_parent(&root);
  const Path path{zone->create_host(name + " from", 1.0)->seal(),
                  zone->create_host(name + " to", 1.0)->seal()};
  zone->add_route(path.from->get_netpoint(), path.to->get_netpoint(), nullptr, nullptr, named,
                  false);
  zone->seal();
  return path;
}

void GraphReplay::start() {
  std::vector<TaskId> first;
  for (TaskId task = 0; task < graph_.task_count(); ++task) {
    if (unmet_[task] == 0) {
      first.push_back(task);
    }
  }
  for (const TaskId task : first) { // a task that takes no time may release others
    release(task);
  }
}

void GraphReplay::release(TaskId task) {
  if (graph_.tasks[task].fixed_time > SimTime{0} || flow_is_to_come_[task] == 0) {
    compute(task, to_seconds(graph_.tasks[task].fixed_time).count());
  } else {
    send(task);
  }
}

void GraphReplay::proceed(TaskId task) {
  if (flow_is_to_come_[task] != 0) {
    send(task);
  } else {
    end(task);
  }
}

void GraphReplay::end(TaskId task) {
  ends_[task] = s4u::Engine::get_clock();
  const auto one_less = [this](TaskId waiting) {
    if (--unmet_[waiting] == 0) {
      release(waiting);
    }
  };
  for (const TaskId successor : graph_.successors_of(task)) {
    one_less(successor);
  }
  if (next_on_lane_[task] != no_id) {
    one_less(next_on_lane_[task]);
  }
}

void GraphReplay::compute(TaskId task, double seconds) {
  const s4u::ExecPtr computation = s4u::Exec::init();
  computation->set_flops_amount(seconds);
  hold(task, computation);
  computation->set_host(lanes_[graph_.tasks[task].lane]);
  computation->vetoable_start();
}

void GraphReplay::send(TaskId task) {
  flow_is_to_come_[task] = 0;
  const Path& path = path_[task];
  if (path.from == nullptr) {
    compute(task, graph_.tasks[task].work / graph_.tasks[task].rate_limit);
    return;
  }
  const s4u::CommPtr message = s4u::Comm::sendto_init();
  message->set_payload_size(static_cast<std::uint64_t>(graph_.tasks[task].work));
  hold(task, message);
  message->set_source(path.from)->set_destination(path.to); // and with both it starts
}

void GraphReplay::hold(TaskId task, const s4u::ActivityPtr& activity) {
  ++activities_;
  held_.push_back(activity);
  activity->set_data(&started_[task]);
}

// ---- The process that simulates ----

struct Totals {
  double setup_seconds = 0;
  double run_seconds = 0;
  std::size_t activities = 0;
};

void configure_simgrid() {
  xbt_log_control_set("root.thresh:warning");
  // The plain model: no protocol, no reverse traffic, no window.
  for (const char* setting :
       {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0",
        // Rates differ from the exact ones by no more than rounding. Ends that are
        // this many seconds apart count as one; above the rounding of the clock.
        "maxmin/precision:1e-13", "surf/precision:1e-11"}) {
    s4u::Engine::set_config(setting);
  }
}

[[noreturn]] void simulate(std::span<const SimgridCase> cases, double* ends, Totals& totals) {
  int argument_count = 1;
  char name[] = "simgrid";
  char* arguments[] = {name, nullptr};
  const s4u::Engine engine(&argument_count, arguments);
  configure_simgrid();

  double begin = processor_seconds();
  s4u::NetZone* const root = s4u::create_empty_zone("root");
  std::vector<std::unique_ptr<GraphReplay>> graphs;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    graphs.push_back(std::make_unique<GraphReplay>(i, cases[i], *root, ends));
    ends += cases[i].graph->task_count();
  }
  root->seal();
  s4u::Activity::on_completion_cb([](const s4u::Activity& activity) {
    const Started* const started = activity.get_data<Started>();
    started->graph->proceed(started->task);
  });
  totals.setup_seconds = processor_seconds() - begin;

  begin = processor_seconds();
  for (const std::unique_ptr<GraphReplay>& graph : graphs) {
    graph->start();
  }
  engine.run();
  totals.run_seconds = processor_seconds() - begin;
  for (const std::unique_ptr<GraphReplay>& graph : graphs) {
    totals.activities += graph->activities();
  }
  // Here, not by way of destructors: SimGrid's end is made for programs with actors.
  std::_Exit(0);
}

} // namespace

SimgridResult simgrid_replay(std::span<const SimgridCase> cases) {
  std::size_t task_count = 0;
  for (const SimgridCase& made : cases) {
    check_graph(*made.graph, *made.machine);
    task_count += made.graph->task_count();
  }
  const SharedMemory shared(sizeof(Totals) + task_count * sizeof(double));
  auto* const totals = new (shared.address()) Totals;
  auto* ends = reinterpret_cast<double*>(totals + 1);
  std::fill_n(ends, task_count, -1.0); // what SimGrid never ended stays so
  const std::size_t peak_bytes = run_in_child([&] { simulate(cases, ends, *totals); });
  SimgridResult result;
  result.peak_bytes = peak_bytes;
  result.setup_seconds = totals->setup_seconds;
  result.run_seconds = totals->run_seconds;
  result.activities = totals->activities;
  for (const SimgridCase& made : cases) {
    result.ends.emplace_back(ends, ends + made.graph->task_count());
    ends += made.graph->task_count();
  }
  return result;
}

} // namespace spillway::test
