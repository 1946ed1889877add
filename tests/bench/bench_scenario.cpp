// What one answer costs: the stages of a run, and the program as a whole process.
// Prints medians; compare ratios within one run, machines are noisy.
//
//   bench_scenario SCENARIO POLICY PROGRAM
#include "results/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr int repetitions = 15;

double median_ms(const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Runs the program with its output thrown away.
void run_process(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  if (posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) {
    fmt::print(stderr, "cannot run {}\n", words[0]);
    std::exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
}

} // namespace

int main(int argc, char** argv) {
  using namespace spillway;
  if (argc != 4) {
    fmt::print(stderr, "usage: bench_scenario SCENARIO POLICY PROGRAM\n");
    return 2;
  }
  const std::string name = argv[1];
  const Catalog catalog({"."});
  const double load = median_ms([&] { static_cast<void>(load_scenario(catalog, name)); });
  const Scenario scenario = load_scenario(catalog, name);
  const PolicySpec& policy = scenario.policy(argv[2]);
  RateCache cache;
  const Plan plan = decide(policy, scenario.trace, scenario.framework);
  const Lowered lowered = lower(scenario, plan, cache);
  const double lowering = median_ms([&] { static_cast<void>(lower(scenario, plan, cache)); });
  const double replaying =
      median_ms([&] { static_cast<void>(replay(lowered.graph, lowered.machine)); });
  const double band =
      median_ms([&] { static_cast<void>(simulate_with_band(scenario, policy, cache, 1)); });
  const double process = median_ms([&] {
    run_process({argv[3], "run", name, "--policy", argv[2]});
  });
  const auto tasks = static_cast<double>(lowered.graph.task_count());

  fmt::print("{} {}: {} tasks\n", name, argv[2], lowered.graph.task_count());
  fmt::print("  load scenario           {:8.2f} ms\n", load);
  fmt::print("  lower                   {:8.2f} ms   {:5.0f} ns a task\n", lowering,
             lowering * 1e6 / tasks);
  fmt::print("  replay                  {:8.2f} ms   {:5.0f} ns a task\n", replaying,
             replaying * 1e6 / tasks);
  fmt::print("  run with band, 1 thread {:8.2f} ms   {:5.1f} replays\n", band, band / replaying);
  fmt::print("  run as a process        {:8.2f} ms\n", process);
  return 0;
}
