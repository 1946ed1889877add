#include "results/explanation.hpp"
#include "results/explanation_words.hpp"
#include "results/report_parts.hpp"
#include "results/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

// The first lines of a list that has its own heading.
template <class Group>
std::span<const Group> first(const std::vector<Group>& groups, std::size_t top) {
  return std::span<const Group>(groups).first(std::min(top, groups.size()));
}

// "lane", or with the number of each where they differ: "lane 57, dependency 4".
std::string started_text(const StartCounts& counts) {
  const std::array<std::pair<const char*, std::int64_t>, 4> all{{{"lane", counts.lane},
                                                                 {"dependency", counts.dependency},
                                                                 {"memory", counts.memory},
                                                                 {"beginning", counts.beginning}}};
  std::string names;
  std::string numbers;
  std::size_t kinds = 0;
  for (const auto& [name, count] : all) {
    if (count > 0) {
      names += kinds == 0 ? name : fmt::format(", {}", name);
      numbers += fmt::format("{}{} {}", kinds == 0 ? "" : ", ", name, count);
      ++kinds;
    }
  }
  return kinds > 1 ? numbers : names;
}

// Where its time went: by class, and of that what sharing took.
std::string classes_text(const Explanation& explanation, SimTime step) {
  TextTable table;
  for (const auto& [name, time] : time_by_class(explanation)) {
    table.add({name, time_text(time), share_text(time, step)});
  }
  for (const LostGroup& lost : explanation.lost) {
    table.add({"of it lost to sharing: " + lost.resource, time_text(lost.time),
               share_text(lost.time, step)});
  }
  return table.render("  ");
}

std::string critical_text(const Explanation& explanation, SimTime step, std::size_t top) {
  const StartCounts& counts = explanation.started;
  std::string text =
      fmt::format("\nWhat the step waits for: the critical sequence of {} tasks, each started "
                  "by the end of the one before\n",
                  explanation.critical_tasks);
  text += classes_text(explanation, step);
  text +=
      fmt::format("  {} were started by the task before them on their lane, {} by a dependency, "
                  "{} by freed memory\n\n",
                  counts.lane, counts.dependency, counts.memory);
  TextTable table;
  table.left_columns = 2;
  table.last_column_left = true;
  table.add({"operation", "class", "times", "time", "share", "lost", "started by"});
  table.add_rule();
  for (const CriticalGroup& group : first(explanation.critical, top)) {
    table.add({group.what, group.phase, fmt::format("{}", group.count), time_text(group.time),
               share_text(group.time, step), group.lost > SimTime{0} ? time_text(group.lost) : "-",
               started_text(group.started)});
  }
  return text + table.render("  ");
}

std::string waits_text(const Explanation& explanation, SimTime step, std::size_t top) {
  const std::string text = "\nWhen the GPU computes nothing, and what it waits for\n";
  if (explanation.waits.empty()) {
    return text + "  never: the compute lane is always busy\n";
  }
  TextTable table;
  table.left_columns = 3;
  table.add({"waits", "for", "class", "times", "time", "share"});
  table.add_rule();
  for (const WaitGroup& wait : first(explanation.waits, top)) {
    table.add({wait.before, wait.cause, bin_title(wait.bin), fmt::format("{}", wait.count),
               time_text(wait.time), share_text(wait.time, step)});
  }
  return text + table.render("  ");
}

void add_exposure(TextTable& table, const ExposureGroup& group) {
  table.add({group.what, group.phase, fmt::format("{}", group.count), time_text(group.time),
             time_text(group.exposed), time_text(group.hidden()),
             share_text(group.hidden(), group.time)});
}

std::string exposure_text(const Explanation& explanation, std::size_t top) {
  if (explanation.exposure.empty()) {
    return {};
  }
  TextTable table;
  table.left_columns = 2;
  table.add({"operation", "class", "times", "time", "exposed", "hidden", "share"});
  table.add_rule();
  for (const ExposureGroup& group : first(explanation.exposure, top)) {
    add_exposure(table, group);
  }
  table.add_rule();
  for (const ExposureGroup& all : totals_of(explanation.exposure)) {
    add_exposure(table, all);
  }
  return "\nCopies and collectives: exposed while the GPU waits for them, hidden otherwise\n" +
         table.render("  ");
}

std::string room_text(const Simulation& run, const Explanation& explanation, std::size_t top) {
  if (explanation.room.empty()) {
    return {};
  }
  TextTable table;
  table.left_columns = 2;
  table.add({"operation", "class", "times", "with room", "time", "least room", "most room"});
  table.add_rule();
  for (const RoomGroup& group : first(explanation.room, top)) {
    table.add({group.what, group.phase, fmt::format("{}", group.count),
               fmt::format("{}", group.with_room), time_text(group.time), time_text(group.least),
               time_text(group.most)});
  }
  const char* limit = run.micro_batches > 1 ? ", at most a micro-batch's time" : "";
  return fmt::format(
             "\nWhat has room: how much later it could end, alone, without a longer step{}\n",
             limit) +
         table.render("  ");
}

std::string sharing_text(const Explanation& explanation, std::size_t top) {
  if (explanation.sharing.empty()) {
    return {};
  }
  std::string text = fmt::format("\nWhat sharing costs ({} GPUs use one CPU's memory)\n",
                                 explanation.sharing_gpus);
  for (const SharingGroup& group : first(explanation.sharing, top)) {
    const auto count = static_cast<double>(group.count);
    text +=
        fmt::format("  {} x {}: {} each instead of {} alone, held back by {}\n", group.count,
                    group.what, format_seconds(to_seconds(group.time).count() / count),
                    format_seconds(to_seconds(group.time_alone).count() / count), group.resource);
  }
  return text;
}

// Below this a change would print as none.
bool is_small(const WhatIf& faster, SimTime step) {
  return std::abs(faster.change(step)) < 0.0005;
}

std::string faster_text(const WhatIf& faster, std::size_t top) {
  TextTable table;
  std::vector<std::string> small;
  std::size_t rows = 0;
  for (const FasterResource& one : faster.changed) {
    if (is_small(faster, one.step)) {
      small.push_back(one.resource);
    } else if (rows++ < top) {
      table.add({fmt::format("{} {} % {}:", one.resource, faster.percent,
                             one.resource == power_limit ? "higher" : "faster"),
                 fmt::format("step {} ->", time_text(faster.step)), time_text(one.step),
                 fmt::format("({:+.1f} %)", 100 * faster.change(one.step))});
    }
  }
  std::string text = fmt::format(
      "\nWhat would help: one resource {} % faster, the step simulated anew\n", faster.percent);
  text += table.render("  ");
  if (!small.empty()) {
    text += fmt::format("  less than 0.05 %: {}\n", fmt::join(small, ", "));
  }
  if (!faster.unchanged.empty()) {
    text += fmt::format("  no change: {}\n", fmt::join(faster.unchanged, ", "));
  }
  return text;
}

std::string peak_text(const RunResult& r) {
  std::string text = fmt::format("\nPeak HBM {} of {}, at {}\n", bytes_text(r.peak_hbm_bytes),
                                 bytes_text(r.hbm_limit_bytes), r.peak_hbm_moment);
  TextTable owners;
  for (const auto& [owner, bytes] : r.hbm_owners) {
    owners.add({owner, bytes_text(bytes),
                fmt::format("{:.1f} %", 100 * static_cast<double>(bytes) /
                                            static_cast<double>(r.peak_hbm_bytes))});
  }
  return text + owners.render("  ");
}

// As the layers come, each as often as loops have it.
std::vector<std::uint32_t> kinds_in_order(const Plan& plan) {
  std::vector<std::uint32_t> kinds;
  for (const LayerBlock& block : plan.blocks) {
    kinds.insert(kinds.end(), block.kinds.begin(), block.kinds.end());
  }
  return kinds;
}

// What happens to every tensor that a policy can name, and why.
std::string decisions_text(const StepTrace& trace, const Plan& plan) {
  std::string text;
  std::set<std::string> named; // windowed layers share the fates of others of their name
  for (const std::uint32_t k : kinds_in_order(plan)) {
    const LayerKind& kind = trace.kinds[plan.kinds[k].kind];
    const std::string title = kind.name + " layer" + where_text(plan, trace, k);
    if (!kind.checkpointed || !named.insert(title).second) {
      continue;
    }
    TextTable table;
    table.left_columns = 2;
    table.last_column_left = true;
    table.add({"tensor", "shape", "bytes", "fate", "why"});
    table.add_rule();
    for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
      const Tensor& tensor = kind.tensors[t];
      if (!tensor.policy_names.empty()) {
        const TensorDecision& decision = plan.kinds[k].tensors[t];
        table.add({tensor.policy_names.front(), shape_text(tensor),
                   format_bytes(static_cast<double>(tensor.bytes.count())),
                   decision.needed ? fate_name(decision.fate) : "-", decision.reason});
      }
    }
    text += fmt::format("\nWhat happens to the tensors of a {}, one micro-batch\n", title) +
            table.render("  ");
  }
  return text;
}

} // namespace

std::string explanation_text(const Scenario& scenario, const Simulation& run,
                             const Explanation& explanation, std::size_t top) {
  const RunResult& r = run.result;
  const SimTime step = run.timeline.makespan;
  std::string text = fmt::format("{}, policy {}: {} a step, {}\n", r.scenario, r.policy,
                                 format_seconds(r.step_time_s), verdict_name(r.verdict));
  text += critical_text(explanation, step, top) + waits_text(explanation, step, top) +
          exposure_text(explanation, top) + room_text(run, explanation, top) +
          sharing_text(explanation, top);
  if (explanation.faster) {
    text += faster_text(*explanation.faster, top);
  }
  return text + peak_text(r) + decisions_text(scenario.trace, run.plan);
}

} // namespace spillway
