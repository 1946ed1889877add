// Everything about one task of a simulated step: when it ran and why then, what it waited
// for, at what rate it moved and what held it back, what memory it took, what waits for it.
#pragma once

#include "results/simulate.hpp"

#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct FoundTask {
  TaskId task = no_id;
  std::int64_t occurrence = 1; // from 1, in order of time
  std::int64_t occurrences = 1;
};

// Of an unfolded run: the task of a GPU that `text` names: its description (Lowered::describe),
// with or without the kind of its layer, or a part that only one description has. InputError for an
// unknown or ambiguous text, a GPU that is not simulated, an occurrence that there is not.
[[nodiscard]] FoundTask find_task(const Lowered& lowered, const Timeline& timeline,
                                  const std::string& text, std::int64_t rank,
                                  std::int64_t occurrence);

// A task that another one has to do with.
struct TaskLine {
  std::string what, lane;
  SimTime start{0}, end{0};
  Cause cause = Cause::beginning; // what started it
};

struct WaitingTask {
  TaskLine line;
  Cause through = Cause::dependency; // how it is tied: dependency, lane or memory
  bool started = false;              // the end of the reported task started it
};

struct TaskMemory {
  std::string pool, owner;
  std::int64_t bytes = 0;
};

// Of a task that moves bytes over shared resources. Rates are without the latency.
struct TaskFlow {
  double bytes = 0; // a collective's: the size of what is gathered, reduced or exchanged
  SimTime latency{0};
  double rate = 0; // bytes per second, on average
  double rate_alone = 0;
  std::string alone_bound_by; // resource, or empty: what one copy reaches at most
  SimTime lost{0};            // to sharing
  std::string bound_by;       // the resource that cost most of it; empty = nothing lost
};

// Of a kernel; zero where it does not apply.
struct TaskCompute {
  std::string what; // "product [4096, 7168] x [7168, 2048]"
  double flops = 0;
  double bytes = 0; // read and written, of a kernel bound by HBM
};

struct TaskReport {
  std::string what, phase, lane; // phase: class_of
  std::int64_t rank = 0, occurrence = 1, occurrences = 1;
  SimTime ready{0}, start{0}, end{0}, slack{0};
  bool critical = false;
  Cause cause = Cause::beginning;
  std::string cause_pool;      // with Cause::memory
  std::vector<TaskLine> chain; // causes, earliest first; the last one started it
  // How long it was held, by what: its lane stood still until the last dependency ended,
  // it was ready and its lane busy, or neither held it and room was short.
  SimTime by_dependency{0}, by_lane{0}, by_memory{0};
  std::vector<TaskLine> dependencies; // last to end first
  std::optional<TaskFlow> flow;
  std::optional<TaskCompute> compute;
  std::vector<TaskMemory> takes, gives_back; // at its start, at its end
  std::vector<WaitingTask> waiting;          // earliest start first
};

[[nodiscard]] TaskReport report_task(const Simulation& run, const FoundTask& found);

// At most `top` lines per table.
[[nodiscard]] std::string task_text(const RunResult& result, const TaskReport& report,
                                    std::size_t top);
[[nodiscard]] std::string task_json(const RunResult& result, const TaskReport& report);

} // namespace spillway
