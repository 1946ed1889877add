#include "results/task_report.hpp"
#include "sim/base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace spillway {
namespace {

constexpr std::size_t most_names = 12;

// Tasks of one GPU with one description, in the order in which they were added.
struct NamedTasks {
  std::string name;
  std::vector<TaskId> tasks;
};

std::vector<NamedTasks> named_tasks(const Lowered& lowered, const Timeline& timeline,
                                    std::int64_t rank) {
  std::map<std::tuple<std::uint32_t, std::int32_t, bool>, std::size_t> places;
  std::vector<NamedTasks> list;
  for (TaskId task = 0; task < lowered.tasks.size(); ++task) {
    const TaskInfo& info = lowered.tasks[task];
    if (info.rank != rank) {
      continue;
    }
    const auto [place, is_new] =
        places.try_emplace({info.label, info.layer, info.phase == Phase::recompute}, list.size());
    if (is_new) {
      list.push_back({lowered.describe(task, timeline), {}});
    }
    list[place->second].tasks.push_back(task);
  }
  return list;
}

[[noreturn]] void refuse_unknown(const Lowered& lowered, const std::vector<NamedTasks>& all,
                                 const std::string& text, std::int64_t rank) {
  std::vector<std::string> names;
  for (const NamedTasks& one : all) {
    names.push_back(one.name);
    names.push_back(one.name.substr(0, one.name.rfind(" ("))); // as it may be asked for
  }
  const std::string message = fmt::format("no task of gpu {} is called '{}'", rank, text);
  throw InputError(message, nearest_name(text, names).empty() ? suggestion(text, lowered.labels)
                                                              : suggestion(text, names));
}

// All of them contain the text, so that the shortest are the nearest.
[[noreturn]] void refuse_ambiguous(std::vector<const NamedTasks*> fitting,
                                   const std::string& text) {
  std::stable_sort(fitting.begin(), fitting.end(), [](const NamedTasks* a, const NamedTasks* b) {
    return a->name.size() < b->name.size();
  });
  std::string names;
  for (std::size_t i = 0; i < std::min(most_names, fitting.size()); ++i) {
    names += (names.empty() ? "" : ", ") + fitting[i]->name;
  }
  throw InputError(fmt::format("'{}' could be any of {} tasks", text, fitting.size()),
                   fmt::format("nearest: {}{}", names, fitting.size() > most_names ? ", ..." : ""));
}

const NamedTasks& one_fitting(const Lowered& lowered, const std::vector<NamedTasks>& all,
                              const std::string& text, std::int64_t rank) {
  std::vector<const NamedTasks*> fitting;
  for (const NamedTasks& one : all) {
    if (one.name == text || one.name.starts_with(text + " (")) {
      return one;
    }
    if (one.name.find(text) != std::string::npos) {
      fitting.push_back(&one);
    }
  }
  if (fitting.empty()) {
    refuse_unknown(lowered, all, text, rank);
  }
  if (fitting.size() > 1) {
    refuse_ambiguous(std::move(fitting), text);
  }
  return *fitting.front();
}

} // namespace

FoundTask find_task(const Lowered& lowered, const Timeline& timeline, const std::string& text,
                    std::int64_t rank, std::int64_t occurrence) {
  const auto ranks = static_cast<std::int64_t>(lowered.lanes.size());
  if (rank < 0 || rank >= ranks) {
    throw InputError(fmt::format("--rank {} is not simulated", rank),
                     ranks == 1 ? std::string("only gpu 0 is")
                                : fmt::format("gpus 0 to {} are, all of one CPU", ranks - 1));
  }
  const std::vector<NamedTasks> all = named_tasks(lowered, timeline, rank);
  const NamedTasks& named = one_fitting(lowered, all, text, rank);
  const auto count = static_cast<std::int64_t>(named.tasks.size());
  if (occurrence < 1 || occurrence > count) {
    throw InputError(fmt::format("there is no --occurrence {} of '{}'", occurrence, named.name),
                     count == 1 ? std::string("it occurs once in a step")
                                : fmt::format("it occurs {} times in a step", count));
  }
  std::vector<TaskId> tasks = named.tasks;
  std::stable_sort(tasks.begin(), tasks.end(), [&](TaskId a, TaskId b) {
    return timeline.tasks[a].start < timeline.tasks[b].start;
  });
  return {tasks[static_cast<std::size_t>(occurrence - 1)], occurrence, count};
}

} // namespace spillway
