// A task graph that can be taken apart: what TaskGraph holds, as plain tasks.
#pragma once

#include "sim/graph_file/named_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace spillway::test {

struct LooseTask {
  std::string name;
  LaneId lane = 0;
  std::int64_t time_ps = 0; // duration, or latency of a flow
  bool flows = false;
  double work = 0;
  std::vector<Use> uses;
  double limit = std::numeric_limits<double>::infinity();
  std::vector<TaskId> after;
  std::vector<MemoryChange> allocate, free;
};

struct LooseGraph {
  Machine machine;
  std::vector<LooseTask> tasks;
  std::vector<MemoryChange> held;
};

template <class Item>
[[nodiscard]] std::vector<Item> copied(std::span<const Item> items) {
  return {items.begin(), items.end()};
}

[[nodiscard]] inline LooseGraph loosen(const NamedGraph& named) {
  const TaskGraph& graph = named.graph;
  LooseGraph loose{named.machine, std::vector<LooseTask>(graph.task_count()), graph.initial};
  for (TaskId id = 0; id < graph.task_count(); ++id) {
    LooseTask& task = loose.tasks[id];
    task.name = named.task_names[id];
    task.lane = graph.tasks[id].lane;
    task.time_ps = graph.tasks[id].fixed_time.count();
    task.flows = graph.tasks[id].route != no_id;
    task.work = graph.tasks[id].work;
    task.limit = graph.tasks[id].rate_limit;
    if (task.flows) {
      task.uses = copied(graph.uses_of(graph.tasks[id].route));
    }
    task.allocate = copied(graph.allocations_of(id));
    task.free = copied(graph.frees_of(id));
    for (const TaskId successor : graph.successors_of(id)) {
      loose.tasks[successor].after.push_back(id);
    }
  }
  return loose;
}

// Whether TaskGraphBuilder takes it; ids are right by construction.
[[nodiscard]] inline bool is_sound(const LooseGraph& loose) {
  return std::ranges::all_of(loose.tasks, [](const LooseTask& task) {
    return !task.flows || !task.uses.empty() || std::isfinite(task.limit);
  });
}

[[nodiscard]] inline NamedGraph freeze(const LooseGraph& loose) {
  TaskGraphBuilder builder;
  NamedGraph named;
  named.machine = loose.machine;
  for (const LooseTask& task : loose.tasks) {
    named.task_names.push_back(task.name);
    const SimTime time{task.time_ps};
    static_cast<void>(task.flows ? builder.add_flow(task.lane, time, task.work,
                                                    builder.add_route(task.uses), task.limit)
                                 : builder.add_fixed(task.lane, time));
  }
  for (TaskId id = 0; id < loose.tasks.size(); ++id) {
    for (const TaskId on : loose.tasks[id].after) {
      builder.depend(id, on);
    }
    for (const MemoryChange& change : loose.tasks[id].allocate) {
      builder.allocate_at_start(id, change);
    }
    for (const MemoryChange& change : loose.tasks[id].free) {
      builder.free_at_end(id, change);
    }
  }
  for (const MemoryChange& change : loose.held) {
    builder.hold_from_the_start(change);
  }
  named.graph = std::move(builder).build(loose.machine);
  return named;
}

// ---- Taking out; ids above move down ----

inline void remove_tasks(LooseGraph& loose, std::size_t first, std::size_t count) {
  const auto begin = loose.tasks.begin() + static_cast<std::ptrdiff_t>(first);
  loose.tasks.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  for (LooseTask& task : loose.tasks) {
    std::erase_if(task.after, [&](TaskId on) { return on >= first && on < first + count; });
    for (TaskId& on : task.after) {
      on -= on >= first + count ? static_cast<TaskId>(count) : 0;
    }
  }
}

// Calls `visit` for each list of memory changes.
template <class Visit>
void for_each_changes(LooseGraph& loose, Visit visit) {
  visit(loose.held);
  for (LooseTask& task : loose.tasks) {
    visit(task.allocate);
    visit(task.free);
  }
}

inline void remove_pool(LooseGraph& loose, std::size_t pool) {
  loose.machine.pools.erase(loose.machine.pools.begin() + static_cast<std::ptrdiff_t>(pool));
  for_each_changes(loose, [pool](std::vector<MemoryChange>& changes) {
    std::erase_if(changes, [pool](const MemoryChange& change) { return change.pool == pool; });
    for (MemoryChange& change : changes) {
      change.pool -= change.pool > pool ? 1 : 0;
    }
  });
}

// With all that it holds.
inline void remove_owner(LooseGraph& loose, std::size_t pool, std::size_t owner) {
  std::vector<std::string>& owners = loose.machine.pools[pool].owners;
  owners.erase(owners.begin() + static_cast<std::ptrdiff_t>(owner));
  for_each_changes(loose, [=](std::vector<MemoryChange>& changes) {
    std::erase_if(changes, [=](const MemoryChange& change) {
      return change.pool == pool && change.owner == owner;
    });
    for (MemoryChange& change : changes) {
      change.owner -= change.pool == pool && change.owner > owner ? 1 : 0;
    }
  });
}

inline void remove_resource(LooseGraph& loose, std::size_t resource) {
  loose.machine.resources.erase(loose.machine.resources.begin() +
                                static_cast<std::ptrdiff_t>(resource));
  for (LooseTask& task : loose.tasks) {
    std::erase_if(task.uses, [resource](const Use& use) { return use.resource == resource; });
    for (Use& use : task.uses) {
      use.resource -= use.resource > resource ? 1 : 0;
    }
  }
}

// With its tasks.
inline void remove_lane(LooseGraph& loose, std::size_t lane) {
  for (std::size_t task = loose.tasks.size(); task-- > 0;) {
    if (loose.tasks[task].lane == lane) {
      remove_tasks(loose, task, 1);
    }
  }
  loose.machine.lanes.erase(loose.machine.lanes.begin() + static_cast<std::ptrdiff_t>(lane));
  for (LooseTask& task : loose.tasks) {
    task.lane -= task.lane > lane ? 1 : 0;
  }
}

} // namespace spillway::test
