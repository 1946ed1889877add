// Makes a graph on which something fails as small as it can be, so that a person can
// see why: greedily, until no single step makes it smaller and still fails.
//
// Steps: take out runs of tasks, lanes, pools, owners, resources, dependencies, uses of
// a route, bytes that are allocated and freed again (with the room for them), single
// changes of memory, limits; make a pool count only, a flow a fixed task, each number
// simpler.
#pragma once

#include "sim/graph_file/graph_file.hpp"
#include "tests/support/loose_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace spillway::test {

// `fails` must be true of the graph that is to be shrunk.
using Fails = std::function<bool(const NamedGraph&)>;

class Shrinker {
public:
  Shrinker(const NamedGraph& named, Fails fails)
      : graph_(loosen(named)), fails_(std::move(fails)) {}

  [[nodiscard]] NamedGraph run() {
    do {
      smaller_ = false;
      take_out_tasks();
      take_out_of_machine();
      take_out_memory();
      take_out_order_and_uses();
      simplify();
    } while (smaller_);
    return freeze(graph_);
  }

private:
  // Keeps what `edit` does to a copy when it still fails. What an edit returns, if
  // anything, is whether it made the graph smaller.
  template <class Edit>
  bool attempt(Edit edit) {
    LooseGraph candidate = graph_;
    if constexpr (std::is_same_v<decltype(edit(candidate)), bool>) {
      if (!edit(candidate)) {
        return false;
      }
    } else {
      edit(candidate);
    }
    if (!is_sound(candidate) || !fails_(freeze(candidate))) {
      return false;
    }
    graph_ = std::move(candidate);
    smaller_ = true;
    return true;
  }

  // From the last to the first, since what is behind may need what is before.
  template <class Edit>
  void attempt_each(std::size_t count, Edit edit) {
    for (std::size_t i = count; i-- > 0;) {
      attempt([&](LooseGraph& graph) { return edit(graph, i); });
    }
  }

  void take_out_tasks() {
    for (std::size_t run = graph_.tasks.size(); run > 0; run /= 2) {
      for (std::size_t end = graph_.tasks.size(); end >= run; --end) {
        if (end <= graph_.tasks.size()) {
          attempt([&](LooseGraph& graph) { remove_tasks(graph, end - run, run); });
        }
      }
    }
  }

  void take_out_of_machine() {
    attempt_each(graph_.machine.lanes.size(), remove_lane);
    attempt_each(graph_.machine.pools.size(), remove_pool);
    for (std::size_t pool = 0; pool < graph_.machine.pools.size(); ++pool) {
      attempt_each(graph_.machine.pools[pool].owners.size(),
                   [pool](LooseGraph& graph, std::size_t i) { remove_owner(graph, pool, i); });
    }
    attempt_each(graph_.machine.resources.size(), remove_resource);
  }

  static void erase_at(auto& items, std::size_t at) {
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void take_out_memory() {
    take_out_pairs();
    attempt_each(graph_.held.size(),
                 [](LooseGraph& graph, std::size_t i) { erase_at(graph.held, i); });
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      attempt_each(graph_.tasks[task].free.size(), [task](LooseGraph& graph, std::size_t i) {
        erase_at(graph.tasks[task].free, i);
      });
      attempt_each(graph_.tasks[task].allocate.size(), [task](LooseGraph& graph, std::size_t i) {
        erase_at(graph.tasks[task].allocate, i);
      });
    }
  }

  // Bytes together with the first free of as many, and with the room for them: alone,
  // neither may go.
  void take_out_pairs() {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      for (const std::int64_t to : {0, 1}) {
        for (const bool with_room : {false, true}) {
          attempt_each(graph_.tasks[task].allocate.size(), [=](LooseGraph& graph, std::size_t i) {
            return lower_pair(graph, task, i, to, with_room);
          });
        }
      }
    }
  }

  static bool lower_pair(LooseGraph& graph, std::size_t task, std::size_t at, std::int64_t to,
                         bool with_room) {
    const MemoryChange taken = graph.tasks[task].allocate[at];
    if (taken.bytes <= to) {
      return false;
    }
    lower(graph.tasks[task].allocate, at, to);
    if (with_room) {
      std::int64_t& capacity = graph.machine.pools[taken.pool].capacity;
      capacity = std::max<std::int64_t>(0, capacity - (taken.bytes - to));
    }
    for (LooseTask& other : graph.tasks) {
      for (std::size_t i = 0; i < other.free.size(); ++i) {
        const MemoryChange& freed = other.free[i];
        if (freed.pool == taken.pool && freed.owner == taken.owner && freed.bytes == taken.bytes) {
          lower(other.free, i, to);
          return true;
        }
      }
    }
    return true;
  }

  static void lower(std::vector<MemoryChange>& changes, std::size_t at, std::int64_t to) {
    if (to == 0) {
      erase_at(changes, at);
    } else {
      changes[at].bytes = to;
    }
  }

  void take_out_order_and_uses() {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      attempt_each(graph_.tasks[task].after.size(), [task](LooseGraph& graph, std::size_t i) {
        erase_at(graph.tasks[task].after, i);
      });
      attempt_each(graph_.tasks[task].uses.size(), [task](LooseGraph& graph, std::size_t i) {
        erase_at(graph.tasks[task].uses, i);
      });
    }
  }

  // ---- Simpler values ----

  void simplify() {
    for (std::size_t i = 0; i < graph_.machine.resources.size(); ++i) {
      simplify(
          [i](auto& graph) -> auto& { return graph.machine.resources[i].capacity; }, above_zero);
    }
    for (std::size_t i = 0; i < graph_.machine.pools.size(); ++i) {
      if (graph_.machine.pools[i].mode == PoolMode::stall) {
        attempt([i](LooseGraph& graph) { graph.machine.pools[i].mode = PoolMode::record; });
      }
      simplify(
          [i](auto& graph) -> auto& { return graph.machine.pools[i].capacity; }, 0);
    }
    for (std::size_t i = 0; i < graph_.held.size(); ++i) {
      simplify(
          [i](auto& graph) -> auto& { return graph.held[i].bytes; }, 1);
    }
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      simplify_task(task);
    }
  }

  void simplify_task(std::size_t t) {
    if (graph_.tasks[t].flows) {
      simplify_flow(t);
    }
    simplify(
        [t](auto& graph) -> auto& { return graph.tasks[t].time_ps; }, 0);
    for (std::size_t i = 0; i < graph_.tasks[t].allocate.size(); ++i) {
      simplify(
          [=](auto& graph) -> auto& { return graph.tasks[t].allocate[i].bytes; }, 1);
    }
    for (std::size_t i = 0; i < graph_.tasks[t].free.size(); ++i) {
      simplify(
          [=](auto& graph) -> auto& { return graph.tasks[t].free[i].bytes; }, 1);
    }
  }

  void simplify_flow(std::size_t t) {
    const bool is_fixed_now = attempt([t](LooseGraph& graph) {
      LooseTask& task = graph.tasks[t];
      task = {task.name, task.lane, task.time_ps, false,         0,
              {},        no_limit,  task.after,   task.allocate, task.free};
    });
    if (is_fixed_now) {
      return;
    }
    simplify(
        [t](auto& graph) -> auto& { return graph.tasks[t].work; }, 0);
    for (std::size_t i = 0; i < graph_.tasks[t].uses.size(); ++i) {
      simplify(
          [=](auto& graph) -> auto& { return graph.tasks[t].uses[i].weight; }, above_zero);
    }
    if (std::isfinite(graph_.tasks[t].limit) &&
        !attempt([t](LooseGraph& graph) { graph.tasks[t].limit = no_limit; })) {
      simplify(
          [t](auto& graph) -> auto& { return graph.tasks[t].limit; }, above_zero);
    }
  }

  // Tries values of a number that are shorter when written, or as short and less; the
  // simplest first.
  template <class Field>
  void simplify(Field field, double least) {
    const auto value = field(graph_);
    using Number = std::remove_const_t<decltype(value)>;
    const auto exact = static_cast<double>(value);
    std::vector<double> values{0, 1, 2, std::floor(exact / 2), exact - 1};
    for (int digits = 1; digits <= 3; ++digits) {
      values.push_back(std::stod(fmt::format("{:.{}g}", exact, digits)));
    }
    for (const double candidate : values) {
      if (candidate < least || candidate > 0x1p62) {
        continue;
      }
      const auto number = static_cast<Number>(candidate);
      const bool simpler = std::pair(fmt::to_string(number).size(), number) <
                           std::pair(fmt::to_string(value).size(), value);
      if (simpler && attempt([&](LooseGraph& graph) { field(graph) = number; })) {
        return;
      }
    }
  }

  static constexpr double above_zero = 1e-300;
  static constexpr double no_limit = std::numeric_limits<double>::infinity();

  LooseGraph graph_;
  Fails fails_;
  bool smaller_ = false;
};

[[nodiscard]] inline NamedGraph shrink(const NamedGraph& named, Fails fails) {
  return Shrinker(named, std::move(fails)).run();
}

// Shrinks a graph about which `complaint` has something to say and writes it into
// `folder`, which is made where it is missing. The text says where, and what was found.
using Complaint = std::function<std::string(const NamedGraph&)>;

[[nodiscard]] inline std::string shrunk_report(std::uint64_t seed, const NamedGraph& named,
                                               const Complaint& complaint,
                                               const std::filesystem::path& folder) {
  const NamedGraph small =
      shrink(named, [&](const NamedGraph& graph) { return !complaint(graph).empty(); });
  const std::filesystem::path file = folder / fmt::format("seed-{}.yaml", seed);
  std::filesystem::create_directories(folder);
  std::ofstream out(file);
  out << "# Seed " << seed << ": " << complaint(small) << ".\n" << graph_text(small);
  if (!out.flush()) {
    throw std::runtime_error("cannot write " + file.string());
  }
  return fmt::format("seed {}: {}; {} of {} tasks do: {}", seed, complaint(named),
                     small.graph.task_count(), named.graph.task_count(), file.string());
}

} // namespace spillway::test
