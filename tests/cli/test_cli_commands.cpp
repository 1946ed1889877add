// compare, validate, catalog and fields of the built program.
#include "tests/cli/cli.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const Arguments compare_quickly{"compare", gb200, "--no-band"};

std::vector<std::string> policies_of(const ProgramResult& result) {
  std::vector<std::string> policies;
  const Json json = Json::parse(result.out);
  for (const Json& one : json["results"]) {
    policies.push_back(one["policy"]);
  }
  return policies;
}

std::string case_text(const std::string& metric, const std::string& observed,
                      const std::string& more = "") {
  return "kind: case\nid: one\nsource: a test\nscenario: deepseek-v3-gb200\npolicy: offload\n"
         "metric: " +
         metric + "\nobserved: " + observed + "\ntolerance_percent: 0\n" + more;
}

} // namespace

// ---- run ----

// An imbalance of 1 is the default: the same bytes.
TEST_CASE("run --set routing.imbalance=V simulates the busiest GPU and says so") {
  const Arguments question{"run", gb200, "--policy", "remat", "--no-band"};
  const auto with = [&](const std::string& imbalance) {
    return ask(question + Arguments{"--json", "-", "--set", "routing.imbalance=" + imbalance});
  };
  const ProgramResult even = ask(question + Arguments{"--json", "-"});
  CHECK(with("1").out == even.out);
  const Json before = Json::parse(even.out);
  const Json busy = Json::parse(with("1.5").out);
  CHECK(busy["step_time_s"] > before["step_time_s"]);
  CHECK(busy["hbm_owners"]["dispatch_buffers"] > before["hbm_owners"]["dispatch_buffers"]);
  const auto is_said = [](const Json& run) {
    return std::any_of(run["assumptions"].begin(), run["assumptions"].end(), [](const Json& one) {
      return one["what"] == "routing.imbalance" && one["value"] == "1.5";
    });
  };
  CHECK(is_said(busy));
  CHECK_FALSE(is_said(before));
  check_refused_with(question + Arguments{"--set", "routing.imbalance=9"},
                     "--set:1:19: error: a GPU cannot get 9 times the mean of 8 expert-parallel "
                     "GPUs\n");
}

// ---- compare ----

TEST_CASE("compare gives results in the order asked for") {
  const Arguments json = compare_quickly + Arguments{"--json", "-"};
  using Names = std::vector<std::string>;
  CHECK(policies_of(ask(json)) == Names{"save", "remat", "offload"}); // the scenario's
  const ProgramResult two = ask(json + Arguments{"--policy", "offload", "--policy", "remat"});
  CHECK(two.exit_code == 0);
  CHECK(policies_of(two) == Names{"offload", "remat"});
  check_refused_with(json + Arguments{"--policy", "unheard_of"},
                     "error: scenario 'deepseek-v3-gb200' has no policy 'unheard_of'\n"
                     "      known: save, remat, offload, none, full, minimal, ");
  check_refused(json + Arguments{"--policy", "minimal_ofloaded"},
                "error: scenario 'deepseek-v3-gb200' has no policy 'minimal_ofloaded'\n"
                "      did you mean 'minimal_offloaded'?\n");
}

TEST_CASE("catalog shows which tensors a framework's presets save") {
  const std::string text = ask({"catalog", "maxtext"}).out;
  CHECK(contains(text, "  save_out_proj                          keep     out_proj\n"));
  CHECK(contains(text, "  qkv_proj_offloaded                     offload  query_proj, key_proj, "
                       "value_proj, kv_proj\n"));
  CHECK_FALSE(contains(ask({"catalog", "pytorch"}).out, "preset"));
}

// What 'save' keeps is a part of what the preset keeps: products spared, memory spent.
TEST_CASE("A preset of the framework is a policy of every scenario") {
  const ProgramResult result =
      ask(compare_quickly + Arguments{"--json", "-", "--policy", "remat", "--policy", "minimal"});
  CHECK(policies_of(result) == std::vector<std::string>{"remat", "minimal"});
}

TEST_CASE("compare shows what was published beside what is predicted") {
  const std::vector<std::string> lines = lines_of(ask(compare_quickly).out);
  // The article's figures of the scenario file, and their ratio 908.2 / 578.3 = 1.570.
  const auto row_after = [&](const std::string& head) {
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
      if (lines[i].starts_with(head)) {
        return lines[i + 1];
      }
    }
    return std::string();
  };
  const std::string rates = row_after("model TFLOP/s per GPU");
  CHECK(rates.starts_with("  published"));
  CHECK(contains(rates, "578.3 ("));
  CHECK(contains(rates, "908.2 ("));
  const std::string ratio = row_after("speed-up over remat");
  CHECK(ratio.starts_with("  published"));
  CHECK(contains(ratio, "1.570"));
}

TEST_CASE("compare agrees with run") {
  const Json all = Json::parse(ask({"compare", gb200, "--policy", "remat", "--json", "-"}).out);
  const Json one = Json::parse(ask({"run", gb200, "--policy", "remat", "--json", "-"}).out);
  CHECK(all == Json{{"results", {one}}});
}

TEST_CASE("Two axes give every combination, the last one fastest") {
  const ProgramResult result =
      ask(compare_quickly + Arguments{"--policy", "remat", "--axis", "batch.micro=1,2", "--axis",
                                      "batch.sequence=2048,4096", "--csv", "-"});
  CHECK(result.exit_code == 0);
  const std::vector<std::string> lines = lines_of(result.out);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].starts_with("batch.micro,batch.sequence,scenario,policy,verdict,"));
  CHECK(lines[1].starts_with("1,2048,deepseek-v3-gb200,remat,fits,"));
  CHECK(lines[2].starts_with("1,4096,"));
  CHECK(lines[3].starts_with("2,2048,"));
  CHECK(lines[4].starts_with("2,4096,"));
}

TEST_CASE("An axis equals setting its values one by one") {
  const Json all =
      Json::parse(ask(compare_quickly + Arguments{"--axis", "batch.micro=1,2", "--json", "-"}).out);
  REQUIRE(all["results"].size() == 6);
  for (std::size_t i = 0; i < 2; ++i) {
    const Json one =
        Json::parse(ask(compare_quickly +
                        Arguments{"--set", "batch.micro=" + std::to_string(i + 1), "--json", "-"})
                        .out);
    for (std::size_t policy = 0; policy < 3; ++policy) {
      Json row = all["results"][3 * i + policy];
      CHECK(row["settings"] == Json{{"batch.micro", std::to_string(i + 1)}});
      row.erase("settings");
      CHECK(row == one["results"][policy]);
    }
  }
}

TEST_CASE("A malformed axis is refused") {
  for (const char* axis : {"batch.micro", "=1", "batch.micro=", ""}) {
    check_refused(compare_quickly + Arguments{"--axis", axis},
                  std::string("error: --axis '") + axis +
                      "' is not PATH=V1,V2,...\n      for example --axis batch.micro=1,2,4\n");
  }
  check_refused_with(compare_quickly + Arguments{"--axis", "batch.micro=1,,2"}, "missing value");
  check_refused_with(compare_quickly + Arguments{"--axis", "batch.micro=1,x"},
                     "error: 'micro' must be an integer, not 'x'\n");
  check_refused_with(compare_quickly + Arguments{"--axis", "batch.mciro=1"},
                     "did you mean 'micro'?");
}

TEST_CASE("Axes that cannot mean anything, or never end, are refused") {
  // The second would win, and the table name values that were not simulated.
  check_refused_with(compare_quickly +
                         Arguments{"--axis", "batch.micro=1,2", "--axis", "batch.micro=4"},
                     "--axis");
  std::string thousand = "1";
  for (int i = 2; i <= 1000; ++i) {
    thousand += "," + std::to_string(i);
  }
  const ProgramResult result =
      ask(compare_quickly + Arguments{"--axis", "batch.micro=" + thousand, "--axis",
                                      "batch.sequence=" + thousand, "--axis",
                                      "batch.accumulation=" + thousand}); // 10^9 rows
  CHECK(result.exit_code == 2);
  CHECK(contains(result.err, "--axis"));
  CHECK(result.seconds < 5);
}

TEST_CASE("compare measures against --base, else against the first policy that fits") {
  CHECK(contains(ask(compare_quickly).out, "speed-up over remat")); // save does not fit
  CHECK(contains(ask(compare_quickly + Arguments{"--base", "save"}).out, "speed-up over save"));
  check_refused_with(compare_quickly + Arguments{"--base", "nope"},
                     "error: --base 'nope' is not among the compared policies\n");
  check_refused_with(compare_quickly + Arguments{"--policy", "remat", "--base", "save"},
                     "error: --base 'save' is not among the compared policies\n");
}

TEST_CASE("compare exits with 1 only if nothing fits") {
  CHECK(ask(compare_quickly + Arguments{"--policy", "save"}).exit_code == 1);
  CHECK(ask(compare_quickly + Arguments{"--policy", "save", "--policy", "remat"}).exit_code == 0);
  CHECK(
      ask(compare_quickly + Arguments{"--policy", "save", "--axis", "batch.micro=2,8"}).exit_code ==
      0); // fits at 2
}

TEST_CASE("A published value must name a field of a result, whatever the command") {
  for (const Arguments& arguments :
       {Arguments{"compare", gb200}, Arguments{"run", gb200, "--policy", "remat"}}) {
    check_refused_with(arguments +
                           Arguments{"--set", "published={remat: {step_tme_s: 1, source: a}}"},
                       "error: unknown field 'step_tme_s'\n");
    check_refused_with(arguments + Arguments{"--set", "published={nope: {source: a}}"},
                       "error: 'published' names the unknown policy 'nope'\n");
  }
}

// ---- validate ----

TEST_CASE("validate states its four known misses and exits with 1") {
  const ProgramResult text = ask({"validate"});
  CHECK(text.exit_code == 1);
  CHECK(text.err.empty());
  const ProgramResult result = ask({"validate", "--json", "-"});
  CHECK(result.exit_code == 1);
  const Json json = Json::parse(result.out);
  std::vector<std::string> missed;
  std::map<std::string, std::vector<double>> errors;
  for (const Json& one : json["cases"]) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : one.items()) {
      keys.push_back(key);
    }
    CHECK(keys == std::vector<std::string>{"id", "metric", "observed", "predicted", "error_percent",
                                           "tolerance_percent", "pass"});
    CHECK(contains(text.out, one["id"]));
    const double error = std::abs(one["error_percent"].get<double>());
    errors[one["metric"]].push_back(error);
    CHECK(one["pass"].get<bool>() == (error <= one["tolerance_percent"].get<double>()));
    if (!one["pass"].get<bool>()) {
      missed.push_back(one["id"]);
    }
  }
  CHECK(missed == std::vector<std::string>{"deepseek-v3-gb200-offload", "deepseek-v3-gb200-speedup",
                                           "llama-3.1-405b-gb200-full-pipelined",
                                           "qwen3-30b-a3b-slice-gb200-speedup"});
  CHECK(json["summary"].size() == errors.size());
  for (auto& [metric, list] : errors) {
    const Json& summary = json["summary"][metric];
    std::sort(list.begin(), list.end());
    const double mean =
        std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
    const double median = (list[(list.size() - 1) / 2] + list[list.size() / 2]) / 2;
    CHECK(summary["n"] == list.size());
    CHECK(summary["mean_abs_error_percent"].get<double>() == doctest::Approx(mean));
    CHECK(summary["median_abs_error_percent"].get<double>() == doctest::Approx(median));
    CHECK(summary["max_abs_error_percent"] == list.back());
  }
}

TEST_CASE("validate --cases judges the files of another folder") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("pass/a.yaml", case_text("fits", "true")));
  static_cast<void>(folder.write("pass/README.md", "not a case"));
  const ProgramResult pass = ask({"validate", "--cases", folder.path("pass")});
  CHECK(pass.exit_code == 0);
  CHECK(contains(pass.out, "\n1 of 1 cases within their tolerance\n"));
  static_cast<void>(folder.write("miss/a.yaml", case_text("fits", "false", "note: why not\n")));
  const ProgramResult miss = ask({"validate", "--cases", folder.path("miss")});
  CHECK(miss.exit_code == 1);
  CHECK(contains(miss.out, "\n0 of 1 cases within their tolerance\n"));
  CHECK(contains(miss.out, "\none: why not\n"));
}

TEST_CASE("validate refuses folders without cases and broken cases, and names the file") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("empty"));
  for (const std::string& wrong : {folder.path("empty"), folder.path("missing")}) {
    check_refused({"validate", "--cases", wrong},
                  "error: no case files in '" + wrong +
                      "'\n      a case file is YAML with kind: case\n");
  }
  const std::vector<std::pair<std::string, std::string>> broken{
      {"kind: case\nid: [\n", "error: '[' is never closed\n"},
      {"kind: case\n", "error: missing key 'scenario' in 'case'\n"},
      {case_text("fist", "1"), "did you mean 'fits'?\n"},
      {case_text("step_time", "13"), "error: 'observed' needs a unit\n"},
      {case_text("step_time", "\"0 s\""), "error: 'observed' must be between 1 ps and "},
      {case_text("tflops_per_gpu", "5e-324"), "error: 'observed' must be "},
      {case_text("speedup", "2"), "error: missing key 'base' in 'case'\n"},
      {case_text("speedup", "1", "base: remat\n"), "error: a 'speedup' of exactly 1 has no gain"},
      {case_text("speedup", "2", "base: nope\n"), "has no policy 'nope'\n"},
      {case_text("fits", "true", "set: [batch.mciro=1]\n"), "did you mean 'micro'?\n"},
      {replaced(case_text("fits", "true"), "deepseek-v3-gb200", "nope"),
       "error: unknown scenario 'nope'\n"},
      {replaced(case_text("fits", "true"), "policy: offload", "policy: nope"),
       "has no policy 'nope'\n"}};
  for (std::size_t i = 0; i < broken.size(); ++i) {
    const std::string name = "broken" + std::to_string(i);
    const std::string file = folder.write(name + "/a.yaml", broken[i].first);
    INFO(broken[i].first);
    check_refused_with({"validate", "--cases", folder.path(name)}, broken[i].second);
    check_refused_with({"validate", "--cases", folder.path(name)}, file);
  }
}

TEST_CASE("validate refuses two cases of one name") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("a.yaml", case_text("fits", "true")));
  static_cast<void>(folder.write("b.yaml", case_text("fits", "true")));
  check_refused_with({"validate", "--cases", folder.path()}, "'one'");
}

// ---- catalog and fields ----

TEST_CASE("catalog lists every file of its folders") {
  const ProgramResult result = ask({"catalog"});
  CHECK(result.exit_code == 0);
  std::size_t files = 0;
  for (const char* folder : {"workloads/catalog", "hw_models/catalog", "workloads/frameworks",
                             "workloads/scenarios", "results/trace_formats"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      INFO(entry.path().string());
      CHECK(contains(result.out, "\n  " + entry.path().stem().string() + " "));
      ++files;
    }
  }
  std::size_t listed = 0;
  for (const std::string& line : lines_of(result.out)) {
    listed += line.starts_with("  ") ? 1U : 0U;
  }
  CHECK(listed == files);
}

TEST_CASE("catalog shows one entry of each kind with its sources") {
  const auto shown = [](const std::string& name) {
    const ProgramResult result = ask({"catalog", name});
    CHECK(result.exit_code == 0);
    return result.out;
  };
  const std::string model = shown("deepseek-v3-671b");
  CHECK(model.starts_with("model deepseek-v3-671b: DeepSeek-V3 671B\n"));
  CHECK(contains(model, "671.0")); // billion parameters, as its name says
  CHECK(contains(model, "\n  source: https://"));
  const std::string hardware = shown("gb200-nvl72");
  CHECK(hardware.starts_with("hardware gb200-nvl72: "));
  CHECK(contains(hardware, "host.d2h.rate"));
  CHECK(contains(hardware, "\n    host.d2h.rate: "));
  CHECK(contains(hardware, "https://"));
  CHECK(contains(hardware, "\n      driver total 189471 MiB less 742 MiB reserved\n"));
  CHECK(contains(hardware, "\n      rates times gpu.rate_factors.grouped_of_b200 1.044\n"));
  const std::string framework = shown("maxtext");
  CHECK(framework.starts_with("framework maxtext"));
  CHECK(contains(framework, "norm_forward"));
  // A source is what one can look up, not its short name in the file.
  CHECK(contains(framework, "measured training steps"));
  const std::string format = shown("jax");
  CHECK(format.starts_with("trace_format jax: JAX profiler"));
  CHECK(contains(format, "\n  matmul "));
  CHECK(contains(format, "\n  source: 14 traces"));
  const std::string scenario = shown(gb200);
  CHECK(scenario.starts_with("scenario deepseek-v3-gb200: "));
  CHECK(contains(scenario, "\n  policy offload\n"));
  CHECK(contains(scenario, "\n  assumed batch.sequence: not stated"));
}

TEST_CASE("An unknown name of the catalogue is refused with the nearest one") {
  check_refused({"catalog", "deepseek-v3-671"},
                "error: nothing in the catalogue is named 'deepseek-v3-671'\n"
                "      did you mean 'deepseek-v3-671b'?\n");
  check_refused_with({"catalog", "zzz"}, "error: nothing in the catalogue is named 'zzz'\n"
                                         "      known: deepseek-v3-671b, ");
}

TEST_CASE("--catalog adds a folder whose entries come first") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("workloads/scenarios/mine.yaml",
                                 "kind: scenario\nextends: deepseek-v3-gb200\ntitle: My own\n"));
  const Arguments own{"--catalog", folder.path()};
  CHECK(contains(ask(Arguments{"catalog"} + own).out, "  mine "));
  const ProgramResult result =
      ask(Arguments{"run", "mine", "--policy", "remat", "--no-band"} + own);
  CHECK(result.exit_code == 0);
  CHECK(result.out.starts_with("My own\n"));
}

TEST_CASE("fields says a meaning of every field, once") {
  const ProgramResult result = ask({"fields"});
  CHECK(result.exit_code == 0);
  const std::vector<std::string> names = field_names();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  CHECK(names.size() >= 20);
  for (const std::string& line : lines_of(result.out)) {
    CHECK(line.size() > 30);
  }
}
