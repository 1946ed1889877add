// The settings that agree with facts, against simulations of each of them.
#include "results/inference.hpp"
#include "results/simulate.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace spillway;

namespace {

// Six layers instead of 61. The query kept on the device needs 47.9 GB, offloaded 46.4 GB; the
// second memory has 47.3 GB.
const std::string small = "kind: question\n"
                          "title: small\n"
                          "source: a test\n"
                          "scenario: deepseek-v3-gb200\n"
                          "vary:\n"
                          "  model.layers: [6]\n"
                          "  runtime.memory_fraction: [0.2, 0.238]\n"
                          "  parallel.expert: [8, 7]\n"
                          "tensors: [query_proj, moe_mlpwi_0]\n"
                          "facts:\n"
                          "  - {fate: keep, set: {batch.micro: 8}, verdict: hbm_oom, says: a}\n"
                          "  - {fate: offload, set: {batch.micro: 8}, verdict: fits, says: b}\n"
                          "predict: {base: remat, set: {batch.micro: 8}}\n";

Question question(const std::string& text) {
  const TemporaryFolder folder;
  return load_question(folder.write("q.yaml", text));
}

Inference answer(const Question& q, unsigned threads = 2) {
  return infer(Catalog({"."}), q, threads, [](std::size_t) {});
}

Verdict verdict_of(const Question& q, const Setting& setting, const Question::Fact& fact) {
  std::vector<std::string> set = fact.set;
  const std::vector<std::size_t> values = q.values_of(setting.combination);
  for (std::size_t d = 0; d < values.size(); ++d) {
    const Question::Settings& more = q.dimensions[d].values[values[d]].set;
    set.insert(set.end(), more.begin(), more.end());
  }
  std::string tensors;
  for (const std::string& tensor : q.tensors_of(setting.set)) {
    tensors += (tensors.empty() ? "" : ", ") + tensor + ": " + fate_name(fact.fate);
  }
  set.push_back("policies.probe={preset: full, tensors: {" + tensors + "}}");
  const Scenario scenario = load_scenario(Catalog({"."}), q.scenario, set);
  RateCache cache;
  return simulate(scenario, scenario.policy("probe"), cache).result.verdict;
}

} // namespace

TEST_CASE("Each setting is held against each fact until one is contradicted") {
  const Question q = question(small);
  const Inference found = answer(q);
  CHECK(found.impossible.size() == 2); // 7 expert-parallel ranks, whatever the memory
  CHECK(found.impossible.front().combination == 1);
  REQUIRE(found.settings.size() == 2 * 3);
  std::size_t agree = 0;
  std::size_t contradict = 0;
  for (const Setting& setting : found.settings) {
    CAPTURE(setting.combination);
    CAPTURE(setting.set);
    const std::size_t reached = setting.contradicts.value_or(q.facts.size());
    for (std::size_t fact = 0; fact < reached; ++fact) {
      CHECK(verdict_of(q, setting, q.facts[fact]) == q.facts[fact].verdict);
    }
    if (setting.contradicts) {
      CHECK(verdict_of(q, setting, q.facts[reached]) != q.facts[reached].verdict);
      ++contradict;
    } else {
      CHECK(setting.predicted.speedup > 0.5);
      CHECK(setting.predicted.base_tflops > 0);
      CHECK(setting.predicted.peak_host_bytes > 0);
      ++agree;
    }
  }
  CHECK(agree > 0);
  CHECK(contradict > 0);
}

TEST_CASE("The answer does not depend on the number of threads") {
  const Question q = question(small);
  CHECK(inference_json(q, answer(q, 1)) == inference_json(q, answer(q, 3)));
}

TEST_CASE(
    "A tensor that the model lacks, an unknown base and settings that never hold are errors") {
  const auto error_of = [](const std::string& what, const std::string& by) {
    std::string text = small;
    text.replace(text.find(what), what.size(), by);
    try {
      static_cast<void>(answer(question(text)));
    } catch (const InputError& error) {
      return error.diagnostics().front().message;
    }
    return std::string();
  };
  CHECK(error_of("moe_mlpwi_0]", "moe_mlpwi_9]") == "unknown tensor 'moe_mlpwi_9' in this model");
  CHECK(error_of("base: remat", "base: remt") ==
        "scenario 'deepseek-v3-gb200' has no policy 'remt'");
  CHECK(error_of("[8, 7]", "[7]") != "");
}
