// Random task graphs of certain shapes that another simulator can be asked about:
// no memory, weights in quarters, whole numbers of units, and times long enough
// that the engine's picoseconds do not show.
//
// Why ends agree to 1e-9. The engine rounds up the end of each flow, by at most
// 1 ps, and nothing else: fixed times and latencies are whole picoseconds. So no end
// is late by more than 1 ps for each flow before it, and somewhat more where a late
// slow flow holds up faster ones. With at most `most_tasks` tasks and no flow under
// `shortest_flow` that is 400 ps on 1 s, 4e-10, at worst; the largest difference
// seen is 1e-11. SimGrid's clock is a double, with 1e-13 s of rounding in an event
// at a thousand seconds.
#pragma once

#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"
#include "tests/support/random_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace spillway::test {

enum class Shape {
  chain,        // each task after the one before, on any lane
  fan,          // rounds of one task, many that share, one that waits for all
  diamond,      // splits and joins within each other
  many_domains, // pairs of lanes with a link each, hardly joined
  one_domain,   // many lanes, all routes cross each other
  zero_size,    // most tasks take no time or move nothing
  equal_ends,   // the same work everywhere, so that many things end at once
  any,          // the graphs that the naive engine is compared on, stretched
};

struct OracleCase {
  Machine machine;
  TaskGraph graph;
};

class OracleCaseMaker {
public:
  static constexpr std::int64_t most_tasks = 400;
  static constexpr double shortest_flow = 1; // seconds

  OracleCaseMaker(Shape shape, std::uint64_t seed) : shape_(shape), random_(seed) {}

  [[nodiscard]] OracleCase make() {
    switch (shape_) {
    case Shape::chain: make_chain(); break;
    case Shape::fan: make_fan(); break;
    case Shape::diamond: make_diamonds(); break;
    case Shape::many_domains: make_many_domains(); break;
    case Shape::one_domain: make_one_domain(); break;
    case Shape::zero_size: make_zero_size(); break;
    case Shape::equal_ends: make_equal_ends(); break;
    case Shape::any: return stretched(random_case(random_.bits()));
    }
    OracleCase made;
    made.machine = machine_;
    made.graph = std::move(builder_).build(machine_);
    return made;
  }

private:
  // ---- Machines ----

  void add_lanes(std::int64_t count) {
    for (; count > 0; --count) {
      machine_.lanes.push_back({"lane " + std::to_string(machine_.lanes.size())});
    }
  }

  ResourceId add_resource() {
    const double capacity = shape_ == Shape::equal_ends
                                ? 1e9 * static_cast<double>(random_.integer(1, 4))
                                : random_.real(1e9, 1e11);
    machine_.resources.push_back(
        {"resource " + std::to_string(machine_.resources.size()), capacity});
    return static_cast<ResourceId>(machine_.resources.size() - 1);
  }

  void add_resources(std::int64_t count) {
    for (; count > 0; --count) {
      static_cast<void>(add_resource());
    }
  }

  [[nodiscard]] double weight() {
    return shape_ == Shape::equal_ends ? 1 : 0.25 * static_cast<double>(random_.integer(1, 12));
  }

  void add_route(const std::vector<ResourceId>& resources) {
    Route route;
    std::vector<Use> uses;
    for (const ResourceId resource : resources) {
      uses.push_back({resource, weight()});
      route.alone =
          std::min(route.alone, machine_.resources[resource].capacity / uses.back().weight);
    }
    route.id = builder_.add_route(uses);
    routes_.push_back(route);
  }

  // `count` different ones of those that the machine has.
  [[nodiscard]] std::vector<ResourceId> some_resources(std::int64_t count) {
    std::vector<ResourceId> all;
    for (ResourceId resource = 0; resource < machine_.resources.size(); ++resource) {
      all.push_back(resource);
    }
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      std::swap(all[i], all[i + random_.below(all.size() - i)]);
    }
    all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
    return all;
  }

  void add_routes(std::int64_t count, std::int64_t most_resources) {
    for (; count > 0; --count) {
      add_route(some_resources(random_.integer(1, most_resources)));
    }
  }

  // ---- Tasks ----

  [[nodiscard]] LaneId some_lane() { return random_.below(machine_.lanes.size()); }

  [[nodiscard]] TaskId add_fixed(LaneId lane) {
    const std::int64_t milliseconds =
        shape_ == Shape::equal_ends ? 1000 * random_.integer(1, 3) : random_.integer(1, 5000);
    return builder_.add_fixed(lane, SimTime{milliseconds * 1'000'000'000});
  }

  [[nodiscard]] TaskId add_flow(LaneId lane, std::size_t route) {
    if (shape_ == Shape::equal_ends) {
      return builder_.add_flow(lane, SimTime{0}, 12e9, routes_[route].id);
    }
    const double alone = routes_[route].alone;
    const double work = std::ceil(random_.real(shortest_flow, 8) * alone);
    const SimTime latency{random_.one_in(2) ? random_.integer(1, 500'000'000'000) : 0};
    const double limit = random_.one_in(3) ? random_.real(0.05, 1.2) * alone
                                           : std::numeric_limits<double>::infinity();
    return builder_.add_flow(lane, latency, work, routes_[route].id, limit);
  }

  [[nodiscard]] TaskId add_flow(LaneId lane) {
    return add_flow(lane, random_.below(routes_.size()));
  }

  [[nodiscard]] TaskId add_task(LaneId lane) {
    return random_.one_in(3) ? add_fixed(lane) : add_flow(lane);
  }

  // ---- Shapes ----

  // Several chains side by side, else nothing would be shared.
  void make_chain() {
    add_lanes(random_.integer(2, 8));
    add_resources(random_.integer(1, 4));
    add_routes(random_.integer(1, 4), 2);
    std::vector<TaskId> last(static_cast<std::size_t>(random_.integer(1, 4)), no_id);
    for (std::int64_t i = random_.integer(2, 60); i > 0; --i) {
      for (TaskId& end : last) {
        const TaskId task = add_task(some_lane());
        builder_.depend(task, end);
        end = task;
      }
    }
  }

  void make_fan() {
    add_lanes(random_.integer(3, 24));
    add_resources(random_.integer(1, 6));
    add_routes(random_.integer(1, 8), 3);
    TaskId root = add_fixed(0);
    for (std::int64_t round = random_.integer(1, 4); round > 0; --round) {
      std::vector<TaskId> blades;
      for (LaneId lane = 1; lane < machine_.lanes.size(); ++lane) {
        for (std::int64_t i = random_.integer(1, 3); i > 0; --i) {
          blades.push_back(random_.one_in(8) ? add_fixed(lane) : add_flow(lane));
          builder_.depend(blades.back(), root);
        }
      }
      root = add_task(0);
      for (const TaskId blade : blades) {
        builder_.depend(root, blade);
      }
    }
  }

  void make_diamonds() {
    add_lanes(random_.integer(2, 16));
    add_resources(random_.integer(1, 5));
    add_routes(random_.integer(1, 6), 3);
    TaskId end = no_id;
    for (std::int64_t i = random_.integer(1, 6); i > 0; --i) {
      end = add_diamond(end, random_.integer(1, 3));
    }
  }

  [[nodiscard]] TaskId add_diamond(TaskId after, std::int64_t depth) {
    const TaskId top = add_task(some_lane());
    builder_.depend(top, after);
    std::vector<TaskId> sides;
    for (int side = 0; side < 2; ++side) {
      sides.push_back(depth > 1 ? add_diamond(top, depth - 1) : add_flow(some_lane()));
      builder_.depend(sides.back(), top);
    }
    const TaskId bottom = add_task(some_lane());
    builder_.depend(bottom, sides[0]);
    builder_.depend(bottom, sides[1]);
    return bottom;
  }

  void make_many_domains() {
    const std::int64_t domains = random_.integer(5, 30);
    add_lanes(2 * domains);
    for (std::int64_t i = 0; i < domains; ++i) {
      std::vector<ResourceId> own{add_resource()};
      if (random_.one_in(2)) {
        own.push_back(add_resource());
      }
      add_route(own);
    }
    TaskId other = no_id;
    for (std::int64_t i = random_.integer(1, 6); i > 0; --i) {
      for (LaneId lane = 0; lane < machine_.lanes.size(); ++lane) {
        const TaskId task = random_.one_in(4) ? add_fixed(lane) : add_flow(lane, lane / 2);
        builder_.depend(task, random_.one_in(10) ? other : no_id);
        other = task;
      }
    }
  }

  // Route i uses resources i and i + 1 among others, so that all are connected.
  void make_one_domain() {
    const std::int64_t resources = random_.integer(4, 12);
    add_lanes(random_.integer(8, 32));
    add_resources(resources);
    for (ResourceId first = 0; first + 1 < resources; ++first) {
      std::vector<ResourceId> uses{first, first + 1};
      if (const ResourceId third = random_.below(machine_.resources.size());
          third != first && third != first + 1) {
        uses.push_back(third);
      }
      add_route(uses);
    }
    add_loosely_joined(random_.integer(50, most_tasks), 0);
  }

  void make_zero_size() {
    add_lanes(random_.integer(1, 8));
    add_resources(random_.integer(1, 4));
    add_routes(random_.integer(1, 4), 3);
    add_loosely_joined(random_.integer(10, 150), 3);
  }

  // Nothing in three parts of four, if `nothing` is 3.
  void add_loosely_joined(std::int64_t count, std::int64_t nothing) {
    for (; count > 0; --count) {
      const LaneId lane = some_lane();
      TaskId task = no_id;
      if (random_.integer(0, 3) >= nothing) {
        task = add_task(lane);
      } else if (random_.one_in(2)) {
        task = builder_.add_fixed(lane, SimTime{0});
      } else {
        const SimTime latency{random_.one_in(2) ? 2'000'000'000 : 0};
        task = builder_.add_flow(lane, latency, 0, routes_[random_.below(routes_.size())].id);
      }
      for (std::int64_t i = random_.integer(0, 2); i > 0 && task > 0; --i) {
        builder_.depend(task, random_.below(task));
      }
    }
  }

  void make_equal_ends() {
    add_lanes(random_.integer(2, 16));
    add_resources(random_.integer(1, 3));
    add_routes(random_.integer(1, 3), 2);
    TaskId barrier = no_id;
    for (std::int64_t round = random_.integer(1, 8); round > 0; --round) {
      std::vector<TaskId> tasks;
      for (LaneId lane = 0; lane < machine_.lanes.size(); ++lane) {
        tasks.push_back(random_.one_in(3) ? add_fixed(lane) : add_flow(lane));
        builder_.depend(tasks.back(), barrier);
      }
      if (random_.one_in(2)) {
        barrier = builder_.add_fixed(0, SimTime{0});
        for (const TaskId task : tasks) {
          builder_.depend(barrier, task);
        }
      }
    }
  }

  // Picoseconds or microseconds become seconds, weights quarters, and memory goes.
  [[nodiscard]] static OracleCase stretched(const RandomCase& made) {
    OracleCase longer{made.machine, made.graph};
    TaskGraph& graph = longer.graph;
    for (Use& use : graph.route_uses) {
      use.weight = std::max(1.0, std::round(4 * use.weight)) / 4;
    }
    double longest = 1e-12;
    for (TaskId task = 0; task < graph.task_count(); ++task) {
      const double seconds =
          graph.tasks[task].work > 0 ? graph.tasks[task].work / alone_rate(longer, task) : 0;
      longest = std::max({longest, seconds, to_seconds(graph.tasks[task].fixed_time).count()});
    }
    const double factor = std::ceil(20 / longest);
    for (TaskId task = 0; task < graph.task_count(); ++task) {
      graph.tasks[task].fixed_time *= static_cast<std::int64_t>(factor);
      if (graph.tasks[task].work > 0) {
        graph.tasks[task].work = std::ceil(
            std::max(graph.tasks[task].work * factor, shortest_flow * alone_rate(longer, task)));
      }
    }
    for (Pool& pool : longer.machine.pools) {
      pool.mode = PoolMode::record;
    }
    return longer;
  }

  [[nodiscard]] static double alone_rate(const OracleCase& made, TaskId task) {
    double rate = made.graph.tasks[task].rate_limit;
    for (const Use& use : made.graph.uses_of(made.graph.tasks[task].route)) {
      rate = std::min(rate, made.machine.resources[use.resource].capacity / use.weight);
    }
    return rate;
  }

  struct Route {
    RouteId id = no_id;
    double alone = std::numeric_limits<double>::infinity(); // the rate of a single flow
  };

  Shape shape_;
  Random random_;
  Machine machine_;
  TaskGraphBuilder builder_;
  std::vector<Route> routes_;
};

[[nodiscard]] inline OracleCase oracle_case(Shape shape, std::uint64_t seed) {
  return OracleCaseMaker(shape, seed).make();
}

} // namespace spillway::test
