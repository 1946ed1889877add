// validate --profiles of the built program.
#include "tests/cli/cli.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const std::string profiles = "results/reference/h200/profiles.jsonl";

} // namespace

// Every record is within 5 % of step time and 2.5 % of peak memory, so the answer is yes.
TEST_CASE("validate --profiles compares measured steps, per class and metric") {
  const Arguments question{"validate", "--profiles", profiles, "--hardware", "h200"};
  const ProgramResult text = ask(question);
  CHECK(text.exit_code == 0);
  CHECK(text.err.empty());
  const std::vector<std::string> lines = lines_of(text.out);
  CHECK(lines.front().starts_with("record "));
  const auto summary = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("absolute error  metric ");
  });
  REQUIRE(lines.end() - summary >= 2 + 16 + 2 + 4);
  auto row = summary + 2;
  for (const auto& [name, records] : std::vector<std::pair<std::string, std::string>>{
           {"no offload", "38"}, {"serialized", "35"}, {"overlapped", "18"}, {"all", "91"}}) {
    for (const char* metric : {"step_time", "peak_hbm", "temp", "host"}) {
      INFO(*row);
      CHECK(std::regex_match(*row, std::regex(name + " +" + metric + " +" + records +
                                              "( +[0-9.]+ %){2} +[+-][0-9.]+ %")));
      ++row;
    }
  }
  CHECK(std::regex_match(*++row, std::regex("of 257 pairs of policies that differ by more than "
                                            "1\\.5 %, [0-9]+ are ordered as measured")));
  ++row;
  CHECK(row[1].starts_with("of 24 choices of a policy, in 7 groups of one shape "));
}

TEST_CASE("validate --profiles --json has four cases for each record, and their summary") {
  const ProgramResult result =
      ask({"validate", "--profiles", profiles, "--hardware", "h200", "--json", "-"});
  CHECK(result.exit_code == 0);
  const Json json = Json::parse(result.out);
  CHECK(json["cases"].size() == std::size_t{4} * 91);
  std::map<std::string, std::vector<double>> errors;
  for (const Json& one : json["cases"]) {
    const double error = std::abs(one["error_percent"].get<double>());
    errors[one["metric"]].push_back(error);
    CHECK(one["pass"].get<bool>() == (error <= one["tolerance_percent"].get<double>()));
  }
  CHECK(json["summary"].size() == 4);
  for (const char* metric : {"step_time", "peak_hbm", "temp", "host"}) {
    const std::vector<double>& list = errors[metric];
    const Json& summary = json["summary"][metric];
    REQUIRE(list.size() == 91);
    CHECK(summary["n"] == 91);
    CHECK(summary["mean_abs_error_percent"].get<double>() ==
          doctest::Approx(std::accumulate(list.begin(), list.end(), 0.0) / 91));
    CHECK(summary["max_abs_error_percent"] == *std::max_element(list.begin(), list.end()));
  }
  CHECK(json["summary"]["host"]["max_abs_error_percent"] == 0);
}

// Most groups hold 30 GB and more of weights and moments, so that little fits under half of a peak.
TEST_CASE("validate --profiles --json has the choice of a policy under every limit") {
  const ProgramResult result =
      ask({"validate", "--profiles", profiles, "--hardware", "h200", "--json", "-"});
  const Json choices = Json::parse(result.out)["choices"];
  REQUIRE(choices.size() == 24);
  std::set<std::string> groups;
  for (const Json& choice : choices) {
    groups.insert(choice["group"].get<std::string>());
    CHECK(choice["limit_bytes"].get<double>() > 0);
    CHECK(choice["regret_percent"].is_null() != choice["fits"].get<bool>());
    CHECK((choice["regret_percent"].is_null() || choice["regret_percent"].get<double>() >= 0));
    if (choice["chosen"] == choice["fastest"]) {
      CHECK(choice["regret_percent"] == 0);
    }
  }
  CHECK(groups.size() == 7);
}

// The first committed record alone is within every tolerance; one record has no pair.
TEST_CASE("validate --profiles exits with 0 when every record is within tolerance") {
  const TemporaryFolder folder;
  const std::string all = read_text(profiles);
  const std::string path = folder.write("one.jsonl", all.substr(0, all.find('\n') + 1));
  const ProgramResult result = ask({"validate", "--profiles", path, "--hardware", "h200"});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "\n1 of 1 records within tolerance: step time 5 %, peak HBM 2.5 %, "
                             "temporaries 10 %, host 0 %\n"));
  CHECK(!contains(result.out, "MISS"));
  CHECK(contains(result.out, "\nof 0 pairs of policies "));
  const ProgramResult named =
      ask({"validate", "--profiles", path, "--hardware", "h200", "--framework", "jax-scan"});
  CHECK(named.out == result.out);
  const ProgramResult other =
      ask({"validate", "--profiles", path, "--hardware", "h200", "--framework", "pytorch"});
  CHECK(other.out != result.out);
}

// The same record with twice the step time is 50 % off.
TEST_CASE("validate --profiles exits with 1 when a record misses its tolerance") {
  const TemporaryFolder folder;
  const std::string all = read_text(profiles);
  Json record = Json::parse(all.substr(0, all.find('\n')));
  record["step_s"] = 2 * record["step_s"].get<double>();
  const std::string path = folder.write("slow.jsonl", record.dump() + "\n");
  const ProgramResult result = ask({"validate", "--profiles", path, "--hardware", "h200"});
  CHECK(result.exit_code == 1);
  CHECK(contains(result.out, "MISS"));
  CHECK(contains(result.out, "\n0 of 1 records within tolerance: "));
}

// A catalogue of one's own comes first, so its frameworks are asked first.
TEST_CASE("Profiles are run by the framework that says so") {
  const TemporaryFolder folder;
  const std::string all = read_text(profiles);
  const std::string path = folder.write("one.jsonl", all.substr(0, all.find('\n') + 1));
  std::filesystem::create_directories(folder.path("c/workloads/frameworks"));
  static_cast<void>(
      folder.write("c/workloads/frameworks/a-first.yaml",
                   "kind: framework\nextends: pytorch\nname: a-first\nruns_profiles: true\n"));
  const Arguments question{"validate", "--profiles", path, "--hardware", "h200"};
  const ProgramResult own = ask(question + Arguments{"--catalog", folder.path("c")});
  CHECK(own.out == ask(question + Arguments{"--framework", "pytorch"}).out);
  CHECK(own.out != ask(question).out);
}

TEST_CASE("A record that holds a deep list is refused like any other") {
  const TemporaryFolder folder;
  const std::string all = read_text(profiles);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const char* key : {"\"batch\": 2", "\"offloaded\": []", "\"policy\": \"full\""}) {
    CAPTURE(key);
    const std::string name = std::string(key).substr(0, std::string(key).find(':'));
    const std::string path = folder.write(
        "deep.jsonl", replaced(all.substr(0, all.find('\n') + 1), key, name + ": [" + deep + "]"));
    const ProgramResult result = ask({"validate", "--profiles", path, "--hardware", "h200"});
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, "error: nested more than 64 levels deep"));
  }
}

TEST_CASE("validate --profiles refuses what it cannot use") {
  check_refused_with({"validate", "--profiles", profiles},
                     "error: --profiles needs --hardware: what the steps were measured on\n"
                     "      known: a100, b200, ");
  check_refused_with({"validate", "--profiles", profiles, "--hardware", "h20"},
                     "did you mean 'h200'?\n");
  check_refused_with(
      {"validate", "--profiles", profiles, "--hardware", "h200", "--framework", "jax-scam"},
      "did you mean 'jax-scan'?\n");
  const TemporaryFolder folder;
  const std::string missing = folder.path("missing.jsonl");
  check_refused({"validate", "--profiles", missing, "--hardware", "h200"},
                missing + ": error: cannot open: no such file or directory\n");
  const std::string broken = folder.write("broken.jsonl", "{\"model\": 3}\n[]\n");
  check_refused({"validate", "--profiles", broken, "--hardware", "h200"},
                broken +
                    ":1:1: error: 'model' must be text, not 3\n"
                    "    1 | {\"model\": 3}\n      | ^\n" +
                    broken +
                    ":2:1: error: a record must be a JSON object\n"
                    "    2 | []\n      | ^\n");
}

TEST_CASE("Options of validate that do not go together are refused") {
  check_refused({"validate", "--hardware", "h200"}, "error: --hardware goes with --profiles\n");
  check_refused({"validate", "--framework", "maxtext"},
                "error: --framework goes with --profiles\n");
  check_refused({"validate", "--profiles", "results/reference/h200/profiles.jsonl", "--hardware",
                 "h200", "--cases", "results/reference"},
                "error: --profiles and --cases are two runs\n");
}
