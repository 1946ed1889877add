#include "sim/base/source_text.hpp"
#include "sim/base/units.hpp"
#include "sim/graph_file/graph_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>

namespace spillway {

namespace {

// Words that YAML takes for nothing.
constexpr std::array<std::string_view, 4> null_words{"null", "Null", "NULL", "~"};

[[nodiscard]] bool is_word_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '.' || letter == '/';
}

// Plain where that surely reads back as the same text.
[[nodiscard]] std::string scalar(std::string_view text) {
  const bool plain =
      is_word_letter(text.front()) && is_word_letter(text.back()) &&
      std::ranges::all_of(text, [](char c) { return is_word_letter(c) || c == ' ' || c == '-'; }) &&
      std::ranges::find(null_words, text) == null_words.end();
  if (plain) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char letter : text) {
    quoted += letter == '"' || letter == '\\' ? "\\" : "";
    quoted += letter;
  }
  return quoted + '"';
}

// The shortest text that reads back as the same double; no negative zero.
[[nodiscard]] std::string number(double value) {
  return fmt::format("{}", value == 0 ? 0.0 : value);
}

void check_names(std::string_view kind, std::span<const std::string> names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty() || !is_plain_line(name) || !seen.insert(name).second) {
      throw std::logic_error(fmt::format("'{}' cannot name a {} in a file", name, kind));
    }
  }
}

template <class Item>
[[nodiscard]] std::vector<std::string> names_of(const std::vector<Item>& items) {
  std::vector<std::string> names;
  names.reserve(items.size());
  for (const Item& item : items) {
    names.push_back(item.name);
  }
  return names;
}

[[nodiscard]] std::string list_text(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + scalar(name);
  }
  return "[" + text + "]";
}

// "{weights: 5 GB, buffer: 1 GB}" of one pool. Rows of a task are sorted by pool and
// owner; those held from the start are brought into that order here.
[[nodiscard]] std::string bytes_by_owner(std::span<const MemoryChange> changes, PoolId pool,
                                         const Pool& in) {
  std::string text;
  for (OwnerId owner = 0; owner < in.owners.size(); ++owner) {
    std::int64_t sum = 0;
    for (const MemoryChange& change : changes) {
      if (change.pool != pool || change.owner != owner) {
        continue;
      }
      if (change.bytes > std::numeric_limits<std::int64_t>::max() - sum) {
        throw std::overflow_error(
            fmt::format("'{}' changes by more than 2^63 bytes at once", in.owners[owner]));
      }
      sum += change.bytes;
    }
    if (sum > 0) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", scalar(in.owners[owner]),
                          exact_bytes(sum));
    }
  }
  return text.empty() ? "" : "{" + text + "}";
}

class GraphWriter {
public:
  explicit GraphWriter(const NamedGraph& named)
      : named_(named), dependencies_(named.graph.task_count()) {
    for (TaskId task = 0; task < named.graph.task_count(); ++task) {
      for (const TaskId successor : named.graph.successors_of(task)) {
        dependencies_[successor].push_back(task);
      }
    }
  }

  [[nodiscard]] std::string text() const {
    check();
    std::string text = "kind: task_graph\n" + resources();
    text += fmt::format("lanes: {}\n", list_text(names_of(named_.machine.lanes)));
    text += pools();
    text += named_.graph.task_count() == 0 ? "tasks: []\n" : "tasks:\n";
    for (TaskId task = 0; task < named_.graph.task_count(); ++task) {
      text += "  - {" + task_text(task) + "}\n";
    }
    return text;
  }

private:
  void check() const {
    check_names("resource", names_of(named_.machine.resources));
    check_names("lane", names_of(named_.machine.lanes));
    check_names("pool", names_of(named_.machine.pools));
    check_names("task", named_.task_names);
    for (const Pool& pool : named_.machine.pools) {
      check_names("owner", pool.owners);
    }
    if (named_.task_names.size() != named_.graph.task_count()) {
      throw std::logic_error("a graph has another number of tasks than of their names");
    }
  }

  [[nodiscard]] std::string resources() const {
    std::string text;
    for (const Resource& resource : named_.machine.resources) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", scalar(resource.name),
                          number(resource.capacity));
    }
    return text.empty() ? "" : "resources: {" + text + "}\n";
  }

  [[nodiscard]] std::string pools() const {
    std::string text = named_.machine.pools.empty() ? "" : "pools:\n";
    for (PoolId id = 0; id < named_.machine.pools.size(); ++id) {
      const Pool& pool = named_.machine.pools[id];
      const std::string held = bytes_by_owner(named_.graph.initial, id, pool);
      text +=
          fmt::format("  {}: {{capacity: {}, mode: {}, owners: {}{}}}\n", scalar(pool.name),
                      exact_bytes(pool.capacity), pool.mode == PoolMode::stall ? "stall" : "record",
                      list_text(pool.owners), held.empty() ? "" : ", held: " + held);
    }
    return text;
  }

  [[nodiscard]] std::string task_text(TaskId task) const {
    const TaskGraph& graph = named_.graph;
    std::string text = fmt::format("name: {}, lane: {}, ", scalar(named_.task_names[task]),
                                   scalar(named_.machine.lanes[graph.tasks[task].lane].name));
    text += graph.tasks[task].route == no_id ? "time: " + exact_time(graph.tasks[task].fixed_time)
                                             : flow_text(task);
    std::string after;
    for (const TaskId dependency : dependencies_[task]) {
      after += (after.empty() ? "" : ", ") + scalar(named_.task_names[dependency]);
    }
    text += after.empty() ? "" : ", after: [" + after + "]";
    return text + memory("allocate", graph.allocations_of(task)) +
           memory("free", graph.frees_of(task));
  }

  [[nodiscard]] std::string flow_text(TaskId task) const {
    const TaskGraph& graph = named_.graph;
    std::string text = "work: " + number(graph.tasks[task].work);
    if (graph.tasks[task].fixed_time > SimTime{0}) {
      text += ", latency: " + exact_time(graph.tasks[task].fixed_time);
    }
    std::string over;
    for (const Use& use : graph.uses_of(graph.tasks[task].route)) {
      over += fmt::format("{}{}: {}", over.empty() ? "" : ", ",
                          scalar(named_.machine.resources[use.resource].name), number(use.weight));
    }
    text += over.empty() ? "" : ", over: {" + over + "}";
    return std::isinf(graph.tasks[task].rate_limit)
               ? text
               : text + ", limit: " + number(graph.tasks[task].rate_limit);
  }

  [[nodiscard]] std::string memory(const char* key, std::span<const MemoryChange> changes) const {
    std::string text;
    for (PoolId id = 0; id < named_.machine.pools.size() && !changes.empty(); ++id) {
      const Pool& pool = named_.machine.pools[id];
      const std::string bytes = bytes_by_owner(changes, id, pool);
      if (!bytes.empty()) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", scalar(pool.name), bytes);
      }
    }
    return text.empty() ? "" : fmt::format(", {}: {{{}}}", key, text);
  }

  const NamedGraph& named_;
  std::vector<std::vector<TaskId>> dependencies_; // per task, ascending
};

} // namespace

std::string graph_text(const NamedGraph& named) {
  return GraphWriter(named).text();
}

} // namespace spillway
