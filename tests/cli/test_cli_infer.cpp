#include "tests/cli/cli.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace spillway;

namespace {

std::string question(const std::string& verdict) {
  return "kind: question\n"
         "title: does it fit\n"
         "source: a test\n"
         "scenario: deepseek-v3-gb200\n"
         "vary: {model.layers: [6]}\n"
         "tensors: [query_proj]\n"
         "facts: [{fate: offload, verdict: " +
         verdict +
         ", says: so}]\n"
         "predict: {base: remat}\n";
}

} // namespace

TEST_CASE("infer shows which settings agree, and exits with 1 if none does") {
  const TemporaryFolder folder;
  const std::string yes = folder.write("yes.yaml", question("fits"));
  const ProgramResult found = ask({"infer", yes});
  CHECK(found.exit_code == 0);
  CHECK(found.out.find("1 of 1 settings agree with all facts.") != std::string::npos);
  CHECK(found.out.find("model.layers        6: 1") != std::string::npos);
  CHECK(found.err == "infer: 1 of 1 combinations\n");
  const ProgramResult none =
      ask({"infer", folder.write("no.yaml", question("hbm_oom")), "--quiet"});
  CHECK(none.exit_code == 1);
  CHECK(none.out.find("0 of 1 settings agree with all facts.") != std::string::npos);
  CHECK(none.err.empty());
}

TEST_CASE("infer says what is not possible, what the rest predicts and how much it left out") {
  const TemporaryFolder folder;
  std::string text = question("fits");
  text = replaced(text, "{model.layers: [6]}", "{model.layers: [6], parallel.expert: [8, 7]}");
  text = replaced(text, "[query_proj]", "[query_proj, key_proj]");
  const ProgramResult found = ask({"infer", folder.write("q.yaml", text), "--quiet", "--top", "1"});
  CHECK(contains(found.out, "1 of 2 combinations are not possible at all, the first because: "));
  CHECK(contains(found.out, "3 of 3 settings agree with all facts.\nThey predict "));
  CHECK(
      contains(found.out,
               "  (largest speed-up first; 2 more: --top 3 shows all, --csv FILE writes them)\n"));
}

TEST_CASE("infer writes all settings that agree as CSV and JSON") {
  const TemporaryFolder folder;
  const std::string file = folder.write("q.yaml", question("fits"));
  const ProgramResult csv = ask({"infer", file, "-q", "--csv", "-"});
  CHECK(csv.out.starts_with("model.layers,tensors,base_verdict,base_tflops_per_gpu,"));
  CHECK(csv.out.find("\n6,query_proj,fits,") != std::string::npos);
  const ProgramResult json = ask({"infer", file, "-q", "--json", "-"});
  CHECK(json.out.find("\"tensors\": [\n        \"query_proj\"") != std::string::npos);
}

TEST_CASE("infer without a question says what it needs") {
  check_refused({"infer"}, "error: 'infer' needs a question, a YAML file\n"
                           "      README says what is in one; results/studies has one\n");
}
