#include "results/inference.hpp"

#include "results/parallel.hpp"
#include "results/simulate.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace spillway {
namespace {

PolicySpec policy_of(const std::vector<std::string>& tensors, Fate fate) {
  PolicySpec policy;
  policy.name = fate_name(fate);
  for (const std::string& tensor : tensors) {
    policy.tensors.emplace(tensor, fate);
  }
  return policy;
}

// One combination of values, all sets of tensors.
class Combination {
public:
  Combination(const Catalog& catalog, const Question& question, std::size_t index)
      : catalog_(catalog), question_(question) {
    const std::vector<std::size_t> values = question.values_of(index);
    for (std::size_t d = 0; d < values.size(); ++d) {
      const Question::Settings& set = question.dimensions[d].values[values[d]].set;
      settings_.insert(settings_.end(), set.begin(), set.end());
    }
    for (std::size_t set = 0; set < question.sets(); ++set) {
      found.push_back({index, set, std::nullopt, {}});
    }
  }

  void run() {
    const Scenario predicted = scenario_with(question_.predict_set);
    for (std::size_t fact = 0; fact < question_.facts.size(); ++fact) {
      check(fact);
    }
    predict(predicted);
  }

  std::vector<Setting> found;

private:
  [[nodiscard]] Scenario scenario_with(const Question::Settings& more) const {
    std::vector<std::string> assignments = settings_;
    assignments.insert(assignments.end(), more.begin(), more.end());
    return load_scenario(catalog_, question_.scenario, assignments);
  }

  void check(std::size_t index) {
    const Question::Fact& fact = question_.facts[index];
    const Scenario scenario = scenario_with(fact.set);
    RateCache cache; // of this scenario's tables
    for (Setting& setting : found) {
      if (!setting.contradicts) {
        const PolicySpec policy = policy_of(question_.tensors_of(setting.set), fact.fate);
        if (simulate(scenario, policy, cache).result.verdict != fact.verdict) {
          setting.contradicts = index;
        }
      }
    }
  }

  void predict(const Scenario& scenario) {
    RateCache cache;
    std::optional<RunResult> base;
    for (Setting& setting : found) {
      if (setting.contradicts) {
        continue;
      }
      if (!base) {
        base = simulate(scenario, scenario.policy(question_.base), cache).result;
      }
      const PolicySpec policy = policy_of(question_.tensors_of(setting.set), Fate::offload);
      const RunResult run = simulate(scenario, policy, cache).result;
      setting.predicted = {base->verdict,
                           base->model_tflops_per_gpu,
                           run.model_tflops_per_gpu,
                           base->step_time_s / run.step_time_s,
                           run.offload_hidden_fraction.value_or(0),
                           run.peak_hbm_bytes,
                           run.peak_host_bytes};
    }
  }

  const Catalog& catalog_;
  const Question& question_;
  std::vector<std::string> settings_;
};

// A tensor that the model lacks would silently do nothing.
void check_tensors(const Catalog& catalog, const Question& question) {
  const Scenario scenario = load_scenario(catalog, question.scenario);
  static_cast<void>(scenario.policy(question.base));
  std::vector<std::string> known;
  for (const LayerKind& kind : scenario.trace.kinds) {
    for (const Tensor& tensor : kind.tensors) {
      if (kind.checkpointed) {
        known.insert(known.end(), tensor.policy_names.begin(), tensor.policy_names.end());
      }
    }
  }
  for (const std::string& tensor : question.tensors) {
    if (std::find(known.begin(), known.end(), tensor) == known.end()) {
      throw InputError("unknown tensor '" + tensor + "' in this model", suggestion(tensor, known));
    }
  }
}

} // namespace

Inference infer(const Catalog& catalog, const Question& question, unsigned threads,
                const std::function<void(std::size_t done)>& progress) {
  check_tensors(catalog, question);
  std::vector<std::vector<Setting>> found(question.combinations());
  std::vector<std::optional<InputError>> mistakes(question.combinations());
  std::atomic<std::size_t> done{0};
  const auto nothing = [] { return 0; };
  run_jobs(found.size(), threads, nothing, [&](std::size_t index, int) {
    Combination combination(catalog, question, index);
    try {
      combination.run();
      found[index] = std::move(combination.found);
    } catch (const InputError& error) {
      mistakes[index] = error;
    }
    progress(++done);
  });
  Inference inference;
  for (std::size_t index = 0; index < found.size(); ++index) {
    if (mistakes[index]) {
      inference.impossible.push_back({index, mistakes[index]->diagnostics().front().message});
    }
    inference.settings.insert(inference.settings.end(), found[index].begin(), found[index].end());
  }
  if (inference.settings.empty()) {
    throw InputError(*mistakes.front());
  }
  return inference;
}

} // namespace spillway
