#include "results/question.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace spillway;

namespace {

using Names = std::vector<std::string>;

const std::string text = "kind: question\n"
                         "title: small\n"
                         "source: a test\n"
                         "scenario: some\n"
                         "vary:\n"
                         "  batch.sequence: [2048, 4096]\n"
                         "  mesh:\n"
                         "    1 x 8: {parallel.fsdp: 1, parallel.expert: 8}\n"
                         "    8 x 1: {parallel.fsdp: 8, parallel.expert: 1}\n"
                         "    2 x 4: {parallel.fsdp: 2, parallel.expert: 4}\n"
                         "tensors: [a, b, c]\n"
                         "facts:\n"
                         "  - {fate: keep, set: {batch.micro: 8}, verdict: hbm_oom, says: no}\n"
                         "  - {fate: offload, verdict: fits, says: yes}\n"
                         "predict: {base: remat, set: {batch.micro: 4}}\n";

std::string replaced_in(const std::string& what, const std::string& by) {
  std::string other = text;
  const std::size_t at = other.find(what);
  REQUIRE(at != std::string::npos);
  return other.replace(at, what.size(), by);
}

Question question(const std::string& file_text = text) {
  const TemporaryFolder folder;
  return load_question(folder.write("q.yaml", file_text));
}

// The first mistake, its place and its hint.
std::string mistake(const std::string& file_text) {
  try {
    static_cast<void>(question(file_text));
  } catch (const InputError& error) {
    const Diagnostic& first = error.diagnostics().front();
    return std::to_string(first.place.line) + ": " + first.message +
           (first.hint.empty() ? "" : " | " + first.hint);
  }
  return "";
}

} // namespace

TEST_CASE("A question is read with what varies, what may be offloaded and what is known") {
  const Question q = question();
  CHECK(q.title == "small");
  CHECK(q.scenario == "some");
  CHECK(q.combinations() == 6);
  REQUIRE(q.dimensions.size() == 2);
  CHECK(q.dimensions[0].values[1].label == "4096");
  CHECK(q.dimensions[0].values[1].set == Names{"batch.sequence=4096"});
  CHECK(q.dimensions[1].values[0].label == "1 x 8");
  CHECK(q.dimensions[1].values[0].set == Names{"parallel.fsdp=1", "parallel.expert=8"});
  CHECK(q.values_of(0) == std::vector<std::size_t>{0, 0});
  CHECK(q.values_of(2) == std::vector<std::size_t>{0, 2});
  CHECK(q.values_of(3) == std::vector<std::size_t>{1, 0});
  REQUIRE(q.facts.size() == 2);
  CHECK(q.facts[0].fate == Fate::keep);
  CHECK(q.facts[0].verdict == Verdict::hbm_oom);
  CHECK(q.facts[0].set == Names{"batch.micro=8"});
  CHECK(q.facts[1].set.empty());
  CHECK(q.base == "remat");
  CHECK(q.predict_set == Names{"batch.micro=4"});
}

TEST_CASE("Sets of tensors are all but the empty one") {
  const Question q = question();
  CHECK(q.sets() == 7);
  CHECK(q.tensors_of(0) == Names{"a"});
  CHECK(q.tensors_of(2) == Names{"a", "b"});
  CHECK(q.tensors_of(6) == Names{"a", "b", "c"});
}

TEST_CASE("Mistakes of a question are reported where they stand") {
  CHECK(mistake(replaced_in("[2048, 4096]", "[]")) ==
        "6: 'batch.sequence' has no values | a list of values of a key, or a map of labels to "
        "settings");
  CHECK(mistake(replaced_in("[2048, 4096]", "[[1]]")) == "6: 'batch.sequence' must be one value");
  CHECK(mistake(replaced_in("{parallel.fsdp: 1, parallel.expert: 8}", "8")) ==
        "8: settings must be a map of keys to values");
  CHECK(mistake(replaced_in("[a, b, c]", "[]")) == "11: 'tensors' must name 1 to 12 tensors");
  CHECK(mistake(replaced_in("hbm_oom", "hbm_om")) ==
        "13: unknown value 'hbm_om' for 'verdict' | did you mean 'hbm_oom'?");
  CHECK(mistake(replaced_in("fate: keep", "fate: recompute")) ==
        "13: unknown value 'recompute' for 'fate' | known: keep, offload");
  CHECK(mistake("kind: question\ntitle: t\nsource: s\nscenario: x\ntensors: [a]\nfacts: []\n"
                "predict: {base: r}\n") == "6: 'facts' must be a list with at least one fact");
  CHECK(mistake("kind: question\ntitle: t\nsource: s\nscenario: x\nvary: [a]\ntensors: [a]\n"
                "facts: [{fate: keep, verdict: fits, says: x}]\npredict: {base: r}\n") ==
        "5: 'vary' must be a map of keys or names to values");
}

TEST_CASE("What is varied twice, or set beside, would belie its label") {
  CHECK(mistake(replaced_in("[2048, 4096]", "[2048, 2048]")) ==
        "5: of 'batch.sequence' the value '2048' is there twice");
  CHECK(mistake(replaced_in("[a, b, c]", "[a, b, a]")) == "11: the tensor 'a' is there twice");
  CHECK(mistake(replaced_in("8 x 1: {parallel.fsdp: 8,", "8 x 1: {batch.sequence: 8,")) ==
        "5: 'batch.sequence' and 'mesh' both set 'batch.sequence'");
  CHECK(mistake(replaced_in("{batch.micro: 8}", "{parallel.fsdp: 8}")) ==
        "5: 'parallel.fsdp' is varied, and set by a fact or by 'predict'");
}

TEST_CASE("More combinations than anyone waits for are refused") {
  std::string values = "[0";
  for (int i = 1; i < 200; ++i) {
    values += ", " + std::to_string(i);
  }
  values += "]";
  CHECK(mistake(replaced_in("[2048, 4096]", values + "\n  batch.micro: " + values)) ==
        "5: more than 10000 combinations");
}
