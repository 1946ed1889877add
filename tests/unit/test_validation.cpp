// Published cases: reading them, comparing and reporting.
#include "results/validation.hpp"

#include "tests/support/json_keys.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/step.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

CaseResult made(const std::string& id, Metric metric, double observed, double predicted,
                double tolerance) {
  CaseResult result;
  result.given.id = id;
  result.given.metric = metric;
  result.given.observed = observed;
  result.given.tolerance_percent = tolerance;
  result.given.note = "note of " + id;
  result.predicted = predicted;
  result.error_percent = 100 * (predicted / observed - 1);
  result.pass = std::abs(result.error_percent) <= tolerance;
  return result;
}

} // namespace

TEST_CASE("Every committed case can be read and names its metric") {
  const std::vector<ValidationCase> cases = load_cases("results/reference");
  CHECK(cases.size() >= 16);
  for (const ValidationCase& one : cases) {
    CAPTURE(one.id);
    CHECK_FALSE(one.source.empty());
    CHECK(fs::exists("results/reference/" + one.id + ".yaml"));
  }
}

TEST_CASE("Mistakes in case files are reported") {
  const TemporaryFolder folder;
  CHECK(messages_of([&] { static_cast<void>(load_cases(folder.path())); }) ==
        "no case files in '" + folder.path() + "' | a case file is YAML with kind: case");
  CHECK(messages_of([&] { static_cast<void>(load_cases(folder.path("none"))); }) ==
        "no case files in '" + folder.path("none") + "' | a case file is YAML with kind: case");
  const auto report = [&](const std::string& text) {
    std::ofstream(folder.path("case.yaml")) << text;
    return messages_of([&] { static_cast<void>(load_cases(folder.path())); });
  };
  const std::string head = "kind: case\nid: one\nsource: s\nscenario: x\npolicy: p\n";
  CHECK(report(head + "metric: step_tim\nobserved: 1 s\ntolerance_percent: 1\n") ==
        "unknown value 'step_tim' for 'metric' | did you mean 'step_time'?");
  CHECK(report(head + "metric: step_time\nobserved: 20\ntolerance_percent: 1\n")
            .starts_with("'observed' needs a unit | "));
  CHECK(report(head + "metric: tflops_per_gpu\nobserved: 0\ntolerance_percent: 1\n")
            .starts_with("'observed' must be between"));
  CHECK(report(head + "metric: tflops_per_gpu\nobserved: 5\n") ==
        "missing key 'tolerance_percent' in 'case'");
  CHECK(report(head + "metric: tflops_per_gpu\nobserved: 5\ntolerance_percent: -1\n") ==
        "'tolerance_percent' must be between 0 and 1000, not -1");
  CHECK(report(head + "metric: speedup\nobserved: 1.1\ntolerance_percent: 1\n") ==
        "missing key 'base' in 'case'");
  CHECK(report(head + "metric: speedup\nbase: q\nobserved: 1\ntolerance_percent: 1\n") ==
        "a 'speedup' of exactly 1 has no gain to compare with");
  CHECK(report(head + "metric: fits\nobserved: 1\ntolerance_percent: 0\n") ==
        "'observed' must be true or false, not '1'");
  CHECK(report(head + "metric: fits\ntolerance_percent: 0\n") ==
        "missing key 'observed' in 'case'");
  CHECK(report(head + "metric: fits\nobserved: true\ntolerance_percent: 0\nbase: q\n")
            .starts_with("unknown key 'base' in 'case'"));
  CHECK(report("kind: cases\nid: one\nsource: s\nscenario: x\npolicy: p\nmetric: fits\n"
               "observed: true\ntolerance_percent: 0\n") ==
        "unknown value 'cases' for 'kind' | did you mean 'case'?");
}

TEST_CASE("Cases come in the order of their file names, others are left alone") {
  const TemporaryFolder folder;
  const auto add = [&](const std::string& name, const std::string& id) {
    std::ofstream(folder.path(name))
        << "kind: case\nid: " << id
        << "\nsource: s\nscenario: x\npolicy: p\nmetric: peak_hbm\nobserved: 3 GB\n"
           "tolerance_percent: 1\nset: [\"batch.micro=2\"]\nnote: why\n";
  };
  add("b.yaml", "second");
  add("a.yaml", "first");
  std::ofstream(folder.path("c.txt")) << "not a case";
  const std::vector<ValidationCase> cases = load_cases(folder.path());
  REQUIRE(cases.size() == 2);
  CHECK(cases[0].id == "first");
  CHECK(cases[1].id == "second");
  CHECK(cases[0].observed == 3e9);
  CHECK(cases[0].metric == Metric::peak_hbm);
  CHECK(cases[0].set == std::vector<std::string>{"batch.micro=2"});
  CHECK(cases[0].note == "why");
}

TEST_CASE("A case compares a prediction with what was observed") {
  const Catalog catalog({"."});
  ValidationCase given;
  given.id = "fits";
  given.scenario = "deepseek-v3-gb200";
  given.set = {"batch.micro=4"};
  given.policy = "save";
  given.metric = Metric::fits;
  given.observed = 0;
  CaseResult result = check_case(catalog, given);
  CHECK(result.predicted == 0);
  CHECK(result.error_percent == 0);
  CHECK(result.pass);
  given.observed = 1; // as if it had fitted
  result = check_case(catalog, given);
  CHECK(result.error_percent == 100);
  CHECK_FALSE(result.pass);

  const Scenario scenario = catalogue("llama-3.1-405b-gb200");
  const RunResult remat = run(scenario, "remat").result;
  const RunResult offload = run(scenario, "offload").result;
  ValidationCase speedup;
  speedup.scenario = "llama-3.1-405b-gb200";
  speedup.policy = "offload";
  speedup.base = "remat";
  speedup.metric = Metric::speedup;
  // What counts is the gain. Observed a quarter above: 1 / 1.25 - 1 = -20 %.
  const double gain = remat.step_time_s / offload.step_time_s - 1;
  speedup.observed = 1 + 1.25 * gain;
  speedup.tolerance_percent = 20.1;
  result = check_case(catalog, speedup);
  CHECK(result.predicted == remat.step_time_s / offload.step_time_s);
  CHECK(result.error_percent == doctest::Approx(-20.0));
  CHECK(result.pass);
  speedup.tolerance_percent = 19.9;
  CHECK_FALSE(check_case(catalog, speedup).pass);
  speedup.metric = Metric::peak_hbm_over_base;
  CHECK(check_case(catalog, speedup).predicted ==
        static_cast<double>(offload.peak_hbm_bytes - remat.peak_hbm_bytes));
}

TEST_CASE("A case with an unknown policy or scenario is an input error") {
  const Catalog catalog({"."});
  ValidationCase given;
  given.scenario = "deepseek-v3-gb200";
  given.policy = "remt";
  given.id = "spelt";
  given.file = "cases/spelt.yaml";
  CHECK(messages_of([&] { static_cast<void>(check_case(catalog, given)); }) ==
        "case 'spelt' of cases/spelt.yaml cannot be run\n"
        "scenario 'deepseek-v3-gb200' has no policy 'remt' | did you mean 'remat'?");
}

// Errors of step_time: -10, +5, +30 and -1 %; absolute 1, 5, 10, 30: mean 11.5,
// median (5 + 10) / 2 = 7.5, maximum 30. Of tflops: one, 50 %.
TEST_CASE("The summary has mean, median and maximum of absolute errors by metric") {
  const std::vector<CaseResult> results{
      made("a", Metric::step_time, 1.0, 0.9, 15), made("b", Metric::step_time, 1.0, 1.05, 15),
      made("c", Metric::step_time, 1.0, 1.3, 15), made("d", Metric::step_time, 1.0, 0.99, 15),
      made("e", Metric::tflops_per_gpu, 100, 150, 60)};
  const Json json = Json::parse(validation_json(results));
  CHECK(keys_of(json) == std::vector<std::string>{"cases", "summary"});
  REQUIRE(json["cases"].size() == 5);
  CHECK(keys_of(json["cases"][0]) == std::vector<std::string>{"id", "metric", "observed",
                                                              "predicted", "error_percent",
                                                              "tolerance_percent", "pass"});
  CHECK(json["cases"][0]["metric"] == "step_time");
  CHECK(json["cases"][0]["pass"] == true);
  CHECK(json["cases"][2]["pass"] == false);
  const Json& summary = json["summary"]["step_time"];
  CHECK(keys_of(summary) == std::vector<std::string>{"n", "mean_abs_error_percent",
                                                     "median_abs_error_percent",
                                                     "max_abs_error_percent"});
  CHECK(summary["n"] == 4);
  CHECK(summary["mean_abs_error_percent"].get<double>() == doctest::Approx(11.5));
  CHECK(summary["median_abs_error_percent"].get<double>() == doctest::Approx(7.5));
  CHECK(summary["max_abs_error_percent"].get<double>() == doctest::Approx(30));
  CHECK(json["summary"]["tflops_per_gpu"]["n"] == 1);
  CHECK(json["summary"]["tflops_per_gpu"]["median_abs_error_percent"].get<double>() ==
        doctest::Approx(50));
}

TEST_CASE("The table of cases marks misses and prints their notes") {
  CaseResult fits = made("f", Metric::fits, 1, 1, 0);
  const std::string text = validation_text({made("near", Metric::step_time, 1.0, 1.1, 15),
                                            made("far", Metric::speedup, 2.0, 1.0, 25), fits});
  CHECK(text == "case  metric     observed  predicted    error  tolerance\n"
                "--------------------------------------------------------------\n"
                "near  step_time       1 s      1.1 s  +10.0 %       15 %  ok\n"
                "far   speedup       2.000      1.000  -50.0 %       25 %  MISS\n"
                "f     fits            yes        yes        -        0 %  ok\n"
                "\n2 of 3 cases within their tolerance\n"
                "absolute error by metric  n    mean  median     max\n"
                "fits                      1   0.0 %   0.0 %   0.0 %\n"
                "speedup                   1  50.0 %  50.0 %  50.0 %\n"
                "step_time                 1  10.0 %  10.0 %  10.0 %\n"
                "\nfar: note of far\n");
}
