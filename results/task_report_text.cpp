#include "results/explanation_words.hpp"
#include "results/report_parts.hpp"
#include "results/task_report.hpp"
#include "results/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

std::string head_text(const RunResult& result, const TaskReport& report) {
  std::string text = fmt::format("{}, policy {}: {}, {}\n", result.scenario, result.policy,
                                 report.what, report.phase);
  text += report.occurrences == 1
              ? fmt::format("the only one of gpu {}\n", report.rank)
              : fmt::format("number {} of {} of gpu {} in a step; --occurrence N shows another\n",
                            report.occurrence, report.occurrences, report.rank);
  return text;
}

std::string slack_text(const TaskReport& report) {
  if (report.critical) {
    return "none: it is on the critical sequence";
  }
  return report.slack == SimTime{0}
             ? std::string("none: as critical as the critical sequence")
             : time_text(report.slack) + ": it alone could end so much later without a longer step";
}

std::string times_text(const TaskReport& report) {
  TextTable table;
  table.last_column_left = true;
  table.add({"lane", report.lane});
  if (!report.dependencies.empty()) {
    table.add({"ready", moment_text(report.ready) + ": all that it depends on had ended"});
  }
  table.add({"start", moment_text(report.start) + " into the step"});
  table.add({"end", moment_text(report.end)});
  table.add({"took", time_text(report.end - report.start)});
  table.add({"slack", slack_text(report)});
  return "\n" + table.render("  ");
}

std::string lines_text(const std::vector<TaskLine>& lines, std::size_t top) {
  TextTable table;
  table.left_columns = 2;
  table.last_column_left = true;
  table.add({"task", "lane", "start", "end", "took", "started by"});
  table.add_rule();
  for (std::size_t i = 0; i < std::min(top, lines.size()); ++i) {
    const TaskLine& line = lines[i];
    table.add({line.what, line.lane, moment_text(line.start), moment_text(line.end),
               time_text(line.end - line.start), cause_name(line.cause)});
  }
  return table.render("  ");
}

std::string cause_text(const TaskReport& report) {
  switch (report.cause) {
  case Cause::beginning: return "nothing held it: it started with the step";
  case Cause::dependency: return "the end of a task that it depends on";
  case Cause::lane: return "the end of the task before it on its lane";
  case Cause::memory: break;
  }
  return fmt::format("room that was given back in {}", report.cause_pool);
}

std::string started_text(const TaskReport& report, std::size_t top) {
  std::string text = fmt::format("\nWhat started it: {}\n", cause_text(report));
  if (!report.chain.empty()) {
    const std::vector<TaskLine> last(
        report.chain.end() - static_cast<std::ptrdiff_t>(std::min(top, report.chain.size())),
        report.chain.end());
    text += lines_text(last, top);
  }
  return text;
}

std::string waited_text(const TaskReport& report, std::size_t top) {
  std::string text = "\nWhat it waited for\n";
  if (report.by_dependency > SimTime{0}) {
    text += fmt::format("  {} for its last dependency, its lane was free\n",
                        time_text(report.by_dependency));
  }
  if (report.dependencies.empty()) {
    text += "  its turn on its lane; it depends on nothing else\n";
  } else if (report.by_lane > SimTime{0}) {
    text +=
        fmt::format("  {} for its lane, all dependencies had ended\n", time_text(report.by_lane));
  }
  if (report.by_memory > SimTime{0}) {
    text += fmt::format("  {} for room in {}\n", time_text(report.by_memory), report.cause_pool);
  }
  if (!report.dependencies.empty() &&
      report.by_dependency + report.by_lane + report.by_memory == SimTime{0}) {
    text += "  nothing: its dependencies ended when its lane was free\n";
  }
  if (!report.dependencies.empty()) {
    text += "\nWhat it depends on, the last to end first\n" + lines_text(report.dependencies, top);
  }
  return text;
}

std::string flops_text(double flops) {
  std::string text = format_flop_rate(flops);
  text.resize(text.size() - 2); // without "/s"
  return text;
}

std::string flow_text(const TaskFlow& flow) {
  std::string text = fmt::format("\nWhat it moved: {} at {}", format_bytes(flow.bytes),
                                 format_byte_rate(flow.rate));
  text += flow.latency > SimTime{0}
              ? fmt::format(", after a latency of {}\n", time_text(flow.latency))
              : "\n";
  text += fmt::format("  alone {}, bound by {}\n", format_byte_rate(flow.rate_alone),
                      flow.alone_bound_by.empty() ? "what one copy reaches at most"
                                                  : flow.alone_bound_by);
  text += flow.lost > SimTime{0} ? fmt::format("  {} lost to sharing, held back by {}\n",
                                               time_text(flow.lost), flow.bound_by)
                                 : "  nothing lost to sharing\n";
  return text;
}

std::string work_text(const TaskReport& report) {
  if (report.flow) {
    return flow_text(*report.flow);
  }
  if (!report.compute) {
    return {};
  }
  const double seconds = to_seconds(report.end - report.start).count();
  const TaskCompute& compute = *report.compute;
  const std::string amount =
      compute.flops > 0 ? fmt::format("{} at {}", flops_text(compute.flops),
                                      format_flop_rate(compute.flops / seconds))
                        : fmt::format("{} read and written at {}", format_bytes(compute.bytes),
                                      format_byte_rate(compute.bytes / seconds));
  return fmt::format("\nWhat it did: {}, {}\n", compute.what, amount);
}

std::string memory_text(const TaskReport& report) {
  if (report.takes.empty() && report.gives_back.empty()) {
    return {};
  }
  TextTable table;
  table.left_columns = 3;
  for (const auto& [list, when] : {std::pair{&report.takes, "takes at its start"},
                                   std::pair{&report.gives_back, "gives back at its end"}}) {
    for (const TaskMemory& memory : *list) {
      table.add({when, memory.pool, memory.owner, bytes_text(memory.bytes)});
    }
  }
  return "\nMemory\n" + table.render("  ");
}

std::string waiting_text(const TaskReport& report, std::size_t top) {
  if (report.waiting.empty()) {
    return "\nWhat waits for it: nothing\n";
  }
  TextTable table;
  table.left_columns = 2;
  table.last_column_left = true;
  table.add({"task", "lane", "through", "starts later by", "started by it"});
  table.add_rule();
  for (std::size_t i = 0; i < std::min(top, report.waiting.size()); ++i) {
    const WaitingTask& waiting = report.waiting[i];
    table.add({waiting.line.what, waiting.line.lane, cause_name(waiting.through),
               time_text(waiting.line.start - report.end), waiting.started ? "yes" : "no"});
  }
  return "\nWhat waits for it\n" + table.render("  ");
}

} // namespace

std::string task_text(const RunResult& result, const TaskReport& report, std::size_t top) {
  return head_text(result, report) + times_text(report) + started_text(report, top) +
         waited_text(report, top) + work_text(report) + memory_text(report) +
         waiting_text(report, top);
}

} // namespace spillway
