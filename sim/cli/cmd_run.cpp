#include "results/explanation.hpp"
#include "results/report_text.hpp"
#include "results/task_report.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

namespace spillway {
namespace {

Simulation simulate_as_asked(const Scenario& scenario, const PolicySpec& policy, RateCache& cache,
                             const CommonOptions& options) {
  return options.no_band ? simulate(scenario, policy, cache, options.folding())
                         : simulate_with_band(scenario, policy, cache, thread_count(options),
                                              options.folding());
}

// run and explain look at one policy: the chosen one, else the scenario's first.
const PolicySpec& one_policy(const Scenario& scenario, const CommonOptions& options,
                             const char* command) {
  const std::vector<const PolicySpec*> policies = chosen_policies(scenario, options);
  if (policies.size() > 1) {
    std::string names;
    for (const PolicySpec* policy : policies) {
      names += (names.empty() ? "" : ", ") + policy->name;
    }
    if (!options.policies.empty()) {
      throw InputError(fmt::format("'{}' looks at one policy, not at {}", command, names),
                       "use `spillway compare` for several");
    }
    if (!options.quiet) {
      fmt::print(stderr, "policy {} of {}; --policy picks another\n", policies.front()->name,
                 names);
    }
  }
  return *policies.front();
}

void explain_step(const Scenario& scenario, const Simulation& run, const RateCache& cache,
                  const CommonOptions& options) {
  Explanation explanation = explain(run);
  explanation.faster = what_if_faster(scenario, run, cache, options.faster, thread_count(options));
  if (!options.json.empty()) {
    write_output(options.json, explanation_json(run, explanation));
  }
  if (options.prints_text()) {
    write_output(
        "-", explanation_text(scenario, run, explanation, static_cast<std::size_t>(options.top)));
  }
}

void explain_task(const Simulation& run, const CommonOptions& options) {
  const TaskReport report = report_task(
      run, find_task(run.lowered, run.timeline, options.task, options.rank, options.occurrence));
  if (!options.json.empty()) {
    write_output(options.json, task_json(run.result, report));
  }
  if (options.prints_text()) {
    write_output("-", task_text(run.result, report, static_cast<std::size_t>(options.top)));
  }
}

} // namespace

ExitCode run_run(const CommonOptions& options) {
  const Scenario scenario = load_from(options);
  RateCache cache;
  const Simulation run =
      simulate_as_asked(scenario, one_policy(scenario, options, "run"), cache, options);
  if (!options.json.empty()) {
    write_output(options.json, run_json(run.result));
  }
  if (!options.csv.empty()) {
    write_output(options.csv, results_csv({{{}, run.result}}));
  }
  if (options.prints_text()) {
    write_output("-",
                 scenario_text(scenario) + runtime_text(scenario) + "\n" + run_text(scenario, run));
  }
  return run.result.verdict == Verdict::fits ? ExitCode::done : ExitCode::no;
}

ExitCode run_explain(const CommonOptions& options) {
  const Scenario scenario = load_from(options);
  RateCache cache;
  // A single task may be of any micro-batch, and slack goes from layer to layer.
  const Folding folding =
      options.no_fold || !options.task.empty() ? Folding::off : Folding::micro_batches;
  const Simulation run =
      simulate(scenario, one_policy(scenario, options, "explain"), cache, folding);
  if (options.task.empty()) {
    explain_step(scenario, run, cache, options);
  } else {
    explain_task(run, options);
  }
  return ExitCode::done;
}

} // namespace spillway
