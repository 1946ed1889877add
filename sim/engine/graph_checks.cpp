#include "sim/engine/graph_checks.hpp"

#include "sim/engine/sim_clock.hpp"

#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/topological_sort.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace spillway {

namespace {

struct Cost {
  int waits = 0;
};

// Edges lead from what comes first to what comes after.
using Order = boost::compressed_sparse_row_graph<boost::directedS>;
using Rides = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, Cost>;
using EdgeEnds = std::pair<std::size_t, std::size_t>;

// Per task: the one after it on its lane.
[[nodiscard]] std::vector<TaskId> next_on_lane(const TaskGraph& graph) {
  std::vector<TaskId> next(graph.task_count(), no_id);
  for (LaneId lane = 0; lane + std::size_t{1} < graph.lane_offset.size(); ++lane) {
    const std::span<const TaskId> tasks = graph.tasks_of(lane);
    for (std::size_t i = 1; i < tasks.size(); ++i) {
      next[tasks[i - 1]] = tasks[i];
    }
  }
  return next;
}

template <class Vector>
[[nodiscard]] auto by_vertex(Vector& values, const auto& graph) {
  return boost::make_iterator_property_map(values.begin(), get(boost::vertex_index, graph));
}

// Ends a search of the library, which knows no other way to stop early.
struct SearchEnds {};

// Stops at the first vertex that may end the path, or where paths become too long.
class StopWhenDone : public boost::dijkstra_visitor<> {
public:
  StopWhenDone(const std::vector<char>& ends, const std::vector<int>& waits, int too_many,
               std::size_t& end)
      : ends_(&ends), waits_(&waits), too_many_(too_many), end_(&end) {}

  template <class Graph>
  void examine_vertex(std::size_t vertex, const Graph& /*graph*/) const {
    if ((*waits_)[vertex] >= too_many_) {
      throw SearchEnds{};
    }
    if ((*ends_)[vertex] != 0) {
      *end_ = vertex;
      throw SearchEnds{};
    }
  }

private:
  const std::vector<char>* ends_;
  const std::vector<int>* waits_;
  int too_many_;
  std::size_t* end_;
};

// Shortest chains of waits among some tasks, where riding along a lane is one wait
// however many tasks it passes. A task is two vertices, itself (2i) and a stop of its
// lane (2i + 1): stepping onto the lane costs one, riding and stepping off nothing.
class WaitSearch {
public:
  // `tasks` ascend.
  WaitSearch(const TaskGraph& graph, const std::vector<TaskId>& next, std::vector<TaskId> tasks)
      : tasks_(std::move(tasks)) {
    std::vector<EdgeEnds> edges;
    std::vector<Cost> costs;
    const auto add = [&](std::size_t from, std::size_t to, int waits) {
      edges.emplace_back(from, to);
      costs.push_back({waits});
    };
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      for (const TaskId successor : graph.successors_of(tasks_[i])) {
        if (const std::size_t to = index_of(successor); to != nowhere) {
          add(2 * i, 2 * to, 1);
        }
      }
      const std::size_t behind = index_of(next[tasks_[i]]);
      const bool rides = behind != nowhere;
      const std::size_t stop = rides ? 2 * behind + 1 : 0;
      if (rides) {
        add(2 * i, stop, 1);
      }
      add(2 * i + 1, 2 * i, 0);
      if (rides) {
        add(2 * i + 1, stop, 0);
      }
    }
    rides_ = Rides(boost::edges_are_sorted, edges.begin(), edges.end(), costs.begin(),
                   2 * tasks_.size());
  }

  [[nodiscard]] std::size_t edge_count() const { return num_edges(rides_); }

  // The waits from one of `ends` back to `first`, fewer than `too_many`; else empty.
  // `first` itself is no end.
  [[nodiscard]] std::vector<Wait> shortest(TaskId first, std::span<const TaskId> ends,
                                           int too_many) const {
    std::vector<char> is_end(num_vertices(rides_), 0);
    for (const TaskId task : ends) {
      if (const std::size_t at = index_of(task); at != nowhere && task != first) {
        is_end[2 * at] = 1;
      }
    }
    std::vector<std::size_t> before(num_vertices(rides_));
    std::vector<int> waits(num_vertices(rides_));
    std::size_t end = num_vertices(rides_);
    try {
      boost::dijkstra_shortest_paths(rides_, 2 * index_of(first),
                                     boost::predecessor_map(by_vertex(before, rides_))
                                         .distance_map(by_vertex(waits, rides_))
                                         .weight_map(get(&Cost::waits, rides_))
                                         .visitor(StopWhenDone(is_end, waits, too_many, end)));
    } catch (const SearchEnds&) { // with or without an end
    }
    return end == num_vertices(rides_) ? std::vector<Wait>{} : waits_back_from(end, before);
  }

private:
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

  // Its place in tasks_. A table over the whole graph would cost as much for a set of two
  // tasks as for all.
  [[nodiscard]] std::size_t index_of(TaskId task) const {
    const auto at = std::ranges::lower_bound(tasks_, task);
    return at == tasks_.end() || *at != task ? nowhere
                                             : static_cast<std::size_t>(at - tasks_.begin());
  }

  [[nodiscard]] std::vector<Wait> waits_back_from(std::size_t vertex,
                                                  const std::vector<std::size_t>& before) const {
    std::vector<Wait> waits;
    while (before[vertex] != vertex) {
      const TaskId task = tasks_[vertex / 2];
      vertex = before[vertex];
      const bool by_lane = vertex % 2 == 1;
      while (vertex % 2 == 1) { // back to where the ride began
        vertex = before[vertex];
      }
      waits.push_back({task, tasks_[vertex / 2], by_lane});
    }
    return waits;
  }

  std::vector<TaskId> tasks_;
  Rides rides_;
};

void begin_with_lowest(std::vector<Wait>& circle) {
  const auto lowest = std::ranges::min_element(circle, {}, &Wait::task);
  std::rotate(circle.begin(), lowest, circle.end());
}

} // namespace

class TaskOrder::Impl {
public:
  Impl(const TaskGraph& graph, std::vector<char> among)
      : graph_(graph), among_(std::move(among)), next_(next_on_lane(graph)) {
    std::vector<EdgeEnds> edges;
    for (TaskId task = 0; task < graph.task_count(); ++task) {
      if (among_[task] == 0) {
        continue;
      }
      for (const TaskId successor : graph.successors_of(task)) {
        if (among_[successor] != 0) {
          edges.emplace_back(task, successor);
        }
      }
      if (next_[task] != no_id) {
        edges.emplace_back(task, next_[task]);
      }
    }
    order_ = Order(boost::edges_are_sorted, edges.begin(), edges.end(), graph.task_count());
  }

  [[nodiscard]] std::vector<TaskId> sorted() const {
    std::vector<std::size_t> last_first;
    try {
      boost::topological_sort(order_, std::back_inserter(last_first));
    } catch (const boost::not_a_dag&) {
      return {};
    }
    std::vector<TaskId> tasks;
    for (const std::size_t task : last_first) {
      if (among_[task] != 0) {
        tasks.push_back(static_cast<TaskId>(task));
      }
    }
    std::ranges::reverse(tasks);
    return tasks;
  }

  // Each with the tasks in ascending order.
  [[nodiscard]] std::vector<std::vector<TaskId>> knots() const {
    std::vector<std::size_t> component(graph_.task_count());
    if (component.empty()) {
      return {};
    }
    const std::size_t count = boost::strong_components(order_, by_vertex(component, order_));
    std::vector<std::vector<TaskId>> knots(count);
    for (TaskId task = 0; task < graph_.task_count(); ++task) {
      knots[component[task]].push_back(task);
    }
    std::erase_if(knots, [](const std::vector<TaskId>& knot) { return knot.size() < 2; });
    return knots;
  }

  // The steps that all sets together may take: about a second.
  static constexpr std::size_t most_steps = 50'000'000;

  // Takes about `most` steps, but one search at least, and off `left` what it took.
  // Each circle has a dependency in it, since lanes alone have none. So the circles
  // that end in a dependency of each task in turn are all there are.
  [[nodiscard]] std::vector<Wait> shortest_circle(const std::vector<TaskId>& knot, std::size_t most,
                                                  std::size_t& left) const {
    const WaitSearch search(graph_, next_, knot);
    std::vector<std::vector<TaskId>> needs(knot.size());
    for (const TaskId task : knot) {
      for (const TaskId successor : graph_.successors_of(task)) {
        const auto at = std::ranges::lower_bound(knot, successor);
        if (at != knot.end() && *at == successor) {
          needs[static_cast<std::size_t>(at - knot.begin())].push_back(task);
        }
      }
    }
    std::size_t searches = 1 + most / search.edge_count();
    std::vector<Wait> circle;
    int too_many = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i < knot.size() && searches > 0 && too_many > 1; ++i) {
      if (needs[i].empty()) {
        continue;
      }
      --searches;
      left -= std::min(left, search.edge_count());
      std::vector<Wait> waits = search.shortest(knot[i], needs[i], too_many);
      if (!waits.empty()) {
        waits.push_back({knot[i], waits.front().task, false});
        too_many = static_cast<int>(waits.size()) - 1; // the next one must be shorter
        circle = std::move(waits);
      }
    }
    begin_with_lowest(circle);
    return circle;
  }

  [[nodiscard]] std::vector<char> waiting_for(TaskId task) const {
    std::vector<boost::default_color_type> colors(graph_.task_count(), boost::white_color);
    boost::breadth_first_search(order_, std::size_t{task},
                                boost::color_map(by_vertex(colors, order_)));
    std::vector<char> waiting(graph_.task_count());
    std::ranges::transform(colors, waiting.begin(), [](boost::default_color_type color) {
      return color == boost::white_color ? char{0} : char{1};
    });
    waiting[task] = 0;
    return waiting;
  }

  [[nodiscard]] std::vector<Wait> chain(TaskId task, TaskId on) const {
    std::vector<TaskId> tasks;
    for (TaskId other = 0; other < graph_.task_count(); ++other) {
      if (among_[other] != 0) {
        tasks.push_back(other);
      }
    }
    const WaitSearch search(graph_, next_, std::move(tasks));
    return search.shortest(on, std::span(&task, 1), std::numeric_limits<int>::max());
  }

private:
  const TaskGraph& graph_;
  std::vector<char> among_;
  std::vector<TaskId> next_;
  Order order_;
};

TaskOrder::TaskOrder(const TaskGraph& graph, std::span<const char> among)
    : impl_(std::make_unique<const Impl>(graph, std::vector<char>(among.begin(), among.end()))) {}

TaskOrder::TaskOrder(const TaskGraph& graph)
    : impl_(std::make_unique<const Impl>(graph, std::vector<char>(graph.task_count(), 1))) {}

TaskOrder::~TaskOrder() = default;

std::vector<TaskId> TaskOrder::sorted() const {
  return impl_->sorted();
}

std::vector<std::vector<Wait>> TaskOrder::circles(std::size_t most) const {
  std::vector<std::vector<Wait>> circles;
  // Small sets first, so that larger ones share what these leave of the steps.
  std::vector<std::vector<TaskId>> knots = impl_->knots();
  std::ranges::stable_sort(knots, {}, &std::vector<TaskId>::size);
  std::size_t steps = Impl::most_steps;
  for (std::size_t i = 0; i < knots.size(); ++i) {
    circles.push_back(impl_->shortest_circle(knots[i], steps / (knots.size() - i), steps));
  }
  std::ranges::sort(circles, [](const std::vector<Wait>& a, const std::vector<Wait>& b) {
    return std::pair(a.size(), a.front().task) < std::pair(b.size(), b.front().task);
  });
  circles.resize(std::min(circles.size(), most));
  return circles;
}

std::vector<char> TaskOrder::waiting_for(TaskId task) const {
  return impl_->waiting_for(task);
}

std::vector<Wait> TaskOrder::chain(TaskId task, TaskId on) const {
  return impl_->chain(task, on);
}

SimTime time_alone(const TaskGraph& graph, const Machine& machine, TaskId task) {
  if (!(graph.tasks[task].work > 0)) {
    return graph.tasks[task].fixed_time;
  }
  double rate = graph.tasks[task].rate_limit;
  for (const Use& use : graph.uses_of(graph.tasks[task].route)) {
    rate = std::min(rate, machine.resources[use.resource].capacity / use.weight);
  }
  return later(graph.tasks[task].fixed_time, flow_time(graph.tasks[task].work, rate));
}

SimTime longest_path(const TaskGraph& graph, const Machine& machine) {
  const std::vector<TaskId> next = next_on_lane(graph);
  std::vector<SimTime> earliest(graph.task_count(), SimTime{0});
  SimTime latest{0};
  for (const TaskId task : TaskOrder(graph).sorted()) {
    const SimTime end = later(earliest[task], time_alone(graph, machine, task));
    latest = std::max(latest, end);
    for (const TaskId successor : graph.successors_of(task)) {
      earliest[successor] = std::max(earliest[successor], end);
    }
    if (next[task] != no_id) {
      earliest[next[task]] = std::max(earliest[next[task]], end);
    }
  }
  return latest;
}

} // namespace spillway
