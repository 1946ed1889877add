#include "results/replay_report.hpp"

#include "results/explanation_words.hpp"
#include "results/report_parts.hpp"
#include "results/text_table.hpp"
#include "sim/analysis/explain.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/engine/graph_checks.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format(
      "{:.1f} %", whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0.0);
}

// Why a task started when it did and not before.
std::string cause_text(const NamedGraph& named, const Timeline& timeline, TaskId task) {
  const TaskId by = timeline.tasks[task].cause_task;
  const std::string after = by == no_id ? "" : named.task_names[by];
  switch (timeline.tasks[task].cause) {
  case Cause::beginning: return "nothing held it";
  case Cause::dependency: return "depends on " + after;
  case Cause::lane: return "lane busy with " + after;
  case Cause::memory:
    return fmt::format("no room in {} until {} freed some",
                       named.machine.pools[timeline.tasks[task].cause_pool].name, after);
  }
  return {};
}

std::string loss_text(const NamedGraph& named, const Timeline& timeline, TaskId task) {
  if (timeline.tasks[task].bound_by == no_id) {
    return "";
  }
  return fmt::format("{} on {}", time_text(timeline.tasks[task].lost_to_sharing),
                     named.machine.resources[timeline.tasks[task].bound_by].name);
}

// Each task once: a file holds its whole schedule.
std::vector<TaskId> critical_tasks(const NamedGraph& named, const Timeline& timeline) {
  std::vector<TaskId> tasks;
  for (const CriticalTask& critical : critical_sequence(named.graph, timeline)) {
    tasks.push_back(critical.task);
  }
  return tasks;
}

// The longest `top` tasks of the sequence, in order of time.
std::vector<TaskId> longest_of(std::vector<TaskId> sequence, const Timeline& timeline,
                               std::size_t top) {
  const auto length = [&](TaskId task) {
    return timeline.tasks[task].end - timeline.tasks[task].start;
  };
  std::vector<TaskId> by_length = sequence;
  std::ranges::stable_sort(by_length, std::greater<>{}, length);
  by_length.resize(std::min(by_length.size(), top));
  std::erase_if(sequence,
                [&](TaskId task) { return std::ranges::find(by_length, task) == by_length.end(); });
  return sequence;
}

std::string critical_text(const NamedGraph& named, const Timeline& timeline, std::size_t top) {
  const std::vector<TaskId> sequence = critical_tasks(named, timeline);
  const std::vector<TaskId> shown = longest_of(sequence, timeline, top);
  std::string text = fmt::format("\nWhat decides the time: {}, each started by the end of the one "
                                 "before\n",
                                 plural(sequence.size(), "task"));
  TextTable table;
  table.left_columns = 3;
  table.last_column_left = true;
  table.add({"task", "lane", "why it started then", "start", "took", "lost to sharing"});
  table.add_rule();
  for (const TaskId task : shown) {
    table.add({named.task_names[task], named.machine.lanes[named.graph.tasks[task].lane].name,
               cause_text(named, timeline, task), time_text(timeline.tasks[task].start),
               time_text(timeline.tasks[task].end - timeline.tasks[task].start),
               loss_text(named, timeline, task)});
  }
  text += table.render("  ");
  if (shown.size() < sequence.size()) {
    text += fmt::format("  and {} more, {} in all\n", sequence.size() - shown.size(),
                        time_text(timeline.makespan));
  }
  return text;
}

std::string sharing_text(const NamedGraph& named, const Timeline& timeline, std::size_t top) {
  const std::vector<ResourceLoss> all = losses(named.graph, timeline);
  if (all.empty()) {
    return "";
  }
  std::string text = "\nTime lost to sharing\n";
  TextTable table;
  table.left_columns = 2;
  table.add({"resource", "task", "took", "alone", "lost"});
  table.add_rule();
  for (const ResourceLoss& loss : all) {
    const std::string& resource = named.machine.resources[loss.resource].name;
    table.add({resource, plural(loss.tasks.size(), "task"), "", "", time_text(loss.lost)});
    for (std::size_t i = 0; i < std::min(top, loss.tasks.size()); ++i) {
      const TaskId task = loss.tasks[i];
      const SimTime took = timeline.tasks[task].end - timeline.tasks[task].start;
      table.add({"", named.task_names[task], time_text(took),
                 time_text(took - timeline.tasks[task].lost_to_sharing),
                 time_text(timeline.tasks[task].lost_to_sharing)});
    }
  }
  return text + table.render("  ");
}

// The `top` lanes that are busy the longest, in their own order.
std::string lanes_text(const NamedGraph& named, const Timeline& timeline, std::size_t top) {
  std::vector<LaneUse> uses;
  std::vector<LaneId> lanes;
  for (LaneId lane = 0; lane < named.machine.lanes.size(); ++lane) {
    uses.push_back(use_of_lane(named.graph, timeline, lane));
    lanes.push_back(lane);
  }
  std::ranges::stable_sort(lanes, std::greater<>{}, [&](LaneId lane) { return uses[lane].busy; });
  lanes.resize(std::min(lanes.size(), top));
  std::ranges::sort(lanes);
  TextTable table;
  table.add({"lane", "tasks", "busy", "share", "waits for tasks", "for memory", "done early"});
  table.add_rule();
  for (const LaneId lane : lanes) {
    const LaneUse& use = uses[lane];
    table.add({named.machine.lanes[lane].name, fmt::format("{}", use.tasks), time_text(use.busy),
               share_text(use.busy, timeline.makespan), time_text(use.waits_for_tasks),
               time_text(use.waits_for_memory), time_text(use.done)});
  }
  const std::size_t more = uses.size() - lanes.size();
  return "\nHow busy the lanes are\n" + table.render("  ") +
         (more == 0 ? "" : fmt::format("  and {} less busy\n", plural(more, "lane")));
}

std::string pools_text(const NamedGraph& named, const Timeline& timeline) {
  std::string text;
  for (PoolId id = 0; id < named.machine.pools.size(); ++id) {
    const Pool& pool = named.machine.pools[id];
    const Timeline::PoolPeak& peak = timeline.peaks[id];
    text += fmt::format(
        "\nPeak of {}: {} of {}, {}{}\n", pool.name, bytes_text(peak.bytes),
        bytes_text(pool.capacity),
        peak.task == no_id ? "from the start"
                           : fmt::format("at {} when {} started", time_text(peak.time),
                                         named.task_names[peak.task]),
        pool.mode == PoolMode::stall ? "; tasks wait for room" : "; counted only, nothing waits");
    TextTable table;
    for (OwnerId owner = 0; owner < pool.owners.size(); ++owner) {
      if (peak.owners[owner] > 0) {
        table.add({pool.owners[owner], bytes_text(peak.owners[owner]),
                   percent(peak.owners[owner], peak.bytes)});
      }
    }
    text += table.render("  ");
  }
  return text;
}

// ---- JSON ----

Json name_or_null(std::uint32_t id, const auto& names, auto name_of) {
  return id == no_id ? Json(nullptr) : Json(std::invoke(name_of, names[id]));
}

Json task_json(const NamedGraph& named, const Timeline& timeline, TaskId task) {
  return {{"task", named.task_names[task]},
          {"lane", named.machine.lanes[named.graph.tasks[task].lane].name},
          {"ready_ps", timeline.tasks[task].ready.count()},
          {"start_ps", timeline.tasks[task].start.count()},
          {"end_ps", timeline.tasks[task].end.count()},
          {"cause", cause_name(timeline.tasks[task].cause)},
          {"cause_task",
           name_or_null(timeline.tasks[task].cause_task, named.task_names, std::identity{})},
          {"cause_pool",
           name_or_null(timeline.tasks[task].cause_pool, named.machine.pools, &Pool::name)},
          {"lost_to_sharing_ps", timeline.tasks[task].lost_to_sharing.count()},
          {"bound_by",
           name_or_null(timeline.tasks[task].bound_by, named.machine.resources, &Resource::name)}};
}

Json lane_json(const NamedGraph& named, const Timeline& timeline, LaneId lane) {
  const LaneUse use = use_of_lane(named.graph, timeline, lane);
  return {{"lane", named.machine.lanes[lane].name},
          {"tasks", use.tasks},
          {"busy_ps", use.busy.count()},
          {"waits_for_tasks_ps", use.waits_for_tasks.count()},
          {"waits_for_memory_ps", use.waits_for_memory.count()},
          {"done_early_ps", use.done.count()}};
}

Json pool_json(const NamedGraph& named, const Timeline& timeline, PoolId id) {
  const Pool& pool = named.machine.pools[id];
  const Timeline::PoolPeak& peak = timeline.peaks[id];
  Json owners = Json::object();
  for (OwnerId owner = 0; owner < pool.owners.size(); ++owner) {
    owners[pool.owners[owner]] = peak.owners[owner];
  }
  return {{"pool", pool.name},
          {"mode", pool.mode == PoolMode::stall ? "stall" : "record"},
          {"capacity_bytes", pool.capacity},
          {"peak_bytes", peak.bytes},
          {"peak_ps", peak.time.count()},
          {"peak_task", name_or_null(peak.task, named.task_names, std::identity{})},
          {"peak_owners", owners},
          {"final_bytes", timeline.final_bytes[id]}};
}

} // namespace

LaneUse use_of_lane(const TaskGraph& graph, const Timeline& timeline, LaneId lane) {
  LaneUse use;
  SimTime free{0};
  for (const TaskId task : graph.tasks_of(lane)) {
    const SimTime could_start = std::max(free, timeline.tasks[task].ready);
    use.waits_for_tasks += could_start - free;
    use.waits_for_memory += timeline.tasks[task].start - could_start;
    use.busy += timeline.tasks[task].end - timeline.tasks[task].start;
    free = timeline.tasks[task].end;
    ++use.tasks;
  }
  use.done = timeline.makespan - free;
  return use;
}

std::vector<ResourceLoss> losses(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<ResourceLoss> losses;
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    const ResourceId resource = timeline.tasks[task].bound_by;
    if (resource == no_id) {
      continue;
    }
    auto found = std::ranges::find(losses, resource, &ResourceLoss::resource);
    if (found == losses.end()) {
      found = losses.insert(found, {resource, SimTime{0}, {}});
    }
    found->lost += timeline.tasks[task].lost_to_sharing;
    found->tasks.push_back(task);
  }
  for (ResourceLoss& loss : losses) {
    std::ranges::stable_sort(loss.tasks, std::greater<>{},
                             [&](TaskId task) { return timeline.tasks[task].lost_to_sharing; });
  }
  std::ranges::stable_sort(losses, std::greater<>{}, &ResourceLoss::lost);
  return losses;
}

std::string replay_text(const std::string& title, const NamedGraph& named, const Timeline& timeline,
                        std::size_t top) {
  std::string text =
      fmt::format("{}: {} on {}, {}\n", title, plural(named.graph.task_count(), "task"),
                  plural(named.machine.lanes.size(), "lane"), time_text(timeline.makespan));
  // Rounding may take the bound a little above what it bounds.
  const SimTime bound = std::min(timeline.makespan, longest_path(named.graph, named.machine));
  text += bound == timeline.makespan
              ? "no sharing and no full pool makes it longer\n"
              : fmt::format("{} if no flow shared and every pool had room\n", time_text(bound));
  if (named.graph.task_count() > 0) {
    text += critical_text(named, timeline, top);
  }
  return text + sharing_text(named, timeline, top) + lanes_text(named, timeline, top) +
         pools_text(named, timeline);
}

std::string replay_json(const NamedGraph& named, const Timeline& timeline) {
  Json json;
  json["makespan_s"] = to_seconds(timeline.makespan).count();
  json["makespan_ps"] = timeline.makespan.count();
  json["longest_path_ps"] =
      std::min(timeline.makespan, longest_path(named.graph, named.machine)).count();
  json["critical"] = Json::array();
  for (const TaskId task : critical_tasks(named, timeline)) {
    json["critical"].push_back(named.task_names[task]);
  }
  json["sharing"] = Json::array();
  for (const ResourceLoss& loss : losses(named.graph, timeline)) {
    json["sharing"].push_back({{"resource", named.machine.resources[loss.resource].name},
                               {"tasks", loss.tasks.size()},
                               {"lost_ps", loss.lost.count()}});
  }
  json["lanes"] = Json::array();
  for (LaneId lane = 0; lane < named.machine.lanes.size(); ++lane) {
    json["lanes"].push_back(lane_json(named, timeline, lane));
  }
  json["pools"] = Json::array();
  for (PoolId pool = 0; pool < named.machine.pools.size(); ++pool) {
    json["pools"].push_back(pool_json(named, timeline, pool));
  }
  json["tasks"] = Json::array();
  for (TaskId task = 0; task < named.graph.task_count(); ++task) {
    json["tasks"].push_back(task_json(named, timeline, task));
  }
  return json.dump(2) + '\n';
}

std::vector<std::string> replay_remarks(const NamedGraph& named, const Timeline& timeline) {
  std::vector<std::string> remarks;
  for (LaneId lane = 0; lane < named.machine.lanes.size(); ++lane) {
    if (named.graph.tasks_of(lane).empty()) {
      remarks.push_back(fmt::format("lane '{}' has no tasks", named.machine.lanes[lane].name));
    }
  }
  for (ResourceId id = 0; id < named.machine.resources.size(); ++id) {
    if (std::ranges::find(named.graph.route_uses, id, &Use::resource) ==
        named.graph.route_uses.end()) {
      remarks.push_back(
          fmt::format("resource '{}' is used by no task", named.machine.resources[id].name));
    }
  }
  for (PoolId id = 0; id < named.machine.pools.size(); ++id) {
    const Pool& pool = named.machine.pools[id];
    if (timeline.peaks[id].bytes > pool.capacity) {
      remarks.push_back(fmt::format("pool '{}' holds up to {}, more than its {}", pool.name,
                                    bytes_text(timeline.peaks[id].bytes),
                                    bytes_text(pool.capacity)));
    }
  }
  return remarks;
}

} // namespace spillway
