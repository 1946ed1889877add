// explain of the built program: the step as a whole, and one task of it.
#include "tests/cli/cli.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const Arguments explain_offload{"explain", gb200, "--policy", "offload"};
const Arguments explain_store =
    explain_offload + Arguments{"--task", "store query_proj in layer 12"};

} // namespace

// ---- The whole step ----

TEST_CASE("explain names the CPU's memory, which two GPUs share while they offload") {
  const ProgramResult result = ask(explain_offload);
  CHECK(result.exit_code == 0);
  CHECK(result.out.starts_with("deepseek-v3-gb200, policy offload: "));
  CHECK(contains(result.out, "\nWhat sharing costs (2 GPUs use one CPU's memory)\n"));
  CHECK(contains(result.out, "x store query_proj: "));
  CHECK(contains(result.out, "held back by CPU memory\n"));
  // Recomputing copies nothing, so that nothing is shared.
  CHECK_FALSE(
      contains(ask({"explain", gb200, "--policy", "remat"}).out, "held back by CPU memory"));
}

TEST_CASE("explain --top bounds the lines of a section") {
  const auto sharing = [](const std::string& top) {
    std::size_t count = 0;
    for (const std::string& line : lines_of(ask(explain_offload + Arguments{"--top", top}).out)) {
      count += contains(line, ", held back by ") ? 1U : 0U;
    }
    return count;
  };
  CHECK(sharing("1") == 1);
  CHECK(sharing("2") == 2);
  CHECK(sharing("0") == 0);
  CHECK(sharing("100") > 2);
}

TEST_CASE("explain --json explains the step of run --json") {
  const Json json = Json::parse(ask(explain_offload + Arguments{"--json", "-"}).out);
  const Json run =
      Json::parse(ask({"run", gb200, "--policy", "offload", "--no-band", "--json", "-"}).out);
  CHECK(json["scenario"] == gb200);
  CHECK(json["policy"] == "offload");
  CHECK(json["step_time_s"] == run["step_time_s"]);
  // The tasks of the critical sequence follow each other without a gap, so that
  // they fill the step.
  double seconds = 0;
  std::int64_t tasks = 0;
  for (const Json& line : json["critical"]) {
    seconds += line["seconds"].get<double>();
    tasks += line["count"].get<std::int64_t>();
  }
  CHECK(tasks == json["critical_tasks"].get<std::int64_t>());
  CHECK(std::abs(seconds - json["step_time_s"].get<double>()) < 1e-6);
  CHECK(json["sharing"].size() > 0);
}

TEST_CASE("explain --json has the causes, what is exposed and what has room") {
  const Json json = Json::parse(ask(explain_offload + Arguments{"--json", "-"}).out);
  const Json run =
      Json::parse(ask({"run", gb200, "--policy", "offload", "--no-band", "--json", "-"}).out);
  std::int64_t started = 0;
  for (const auto& [cause, count] : json["critical_started_by"].items()) {
    started += count.get<std::int64_t>();
  }
  CHECK(started == json["critical_tasks"].get<std::int64_t>());
  CHECK(json["critical_started_by"]["beginning"] == 1);
  double by_class = 0;
  for (const Json& line : json["critical_classes"]) {
    by_class += line["seconds"].get<double>();
  }
  CHECK(by_class == doctest::Approx(json["step_time_s"].get<double>()));
  double lost = 0;
  for (const Json& line : json["critical"]) {
    lost += line["seconds_lost"].get<double>();
  }
  REQUIRE(json["critical_lost"].size() == 1);
  CHECK(json["critical_lost"][0]["resource"] == "CPU memory");
  CHECK(json["critical_lost"][0]["seconds"].get<double>() == doctest::Approx(lost));

  double copies = 0;
  for (const Json& line : json["exposure"]) {
    copies += line["class"] == "copy" ? line["seconds_exposed"].get<double>() : 0.0;
    CHECK(line["seconds"].get<double>() == doctest::Approx(line["seconds_exposed"].get<double>() +
                                                           line["seconds_hidden"].get<double>()));
  }
  CHECK(copies == doctest::Approx(run["time"]["exposed_offload_s"].get<double>()));
  REQUIRE(json["room"].size() > 1);
  for (std::size_t i = 1; i < json["room"].size(); ++i) {
    CHECK(json["room"][i - 1]["least_room_s"] <= json["room"][i]["least_room_s"]);
    CHECK(json["room"][i]["least_room_s"] <= json["room"][i]["most_room_s"]);
  }
}

TEST_CASE("explain --faster says what each resource would gain, the most first") {
  const auto answer = [](const std::string& percent) {
    return Json::parse(
        ask(explain_offload + Arguments{"--faster", percent, "--json", "-"}).out)["faster"];
  };
  const Json ten = answer("10");
  CHECK(ten["percent"] == 10);
  CHECK(Json::parse(ask(explain_offload + Arguments{"--json", "-"}).out)["faster"] == ten);
  CHECK(Json::parse(ask(explain_offload + Arguments{"--jobs", "1", "--json", "-"}).out)["faster"] ==
        ten);
  const std::vector<Json> lines(ten["resources"].begin(), ten["resources"].end());
  CHECK(lines.size() == 10);
  CHECK(lines.front()["resource"] == "matrix products");
  CHECK(std::is_sorted(lines.begin(), lines.end(), [](const Json& a, const Json& b) {
    return a["step_time_s"] < b["step_time_s"];
  }));
  // The same as setting the coefficient: 0.75 of the tables' rate, 20 % more is 0.9.
  const Json twenty = answer("20");
  const double derate = 0.75;
  const Json set =
      Json::parse(ask({"run", gb200, "--policy", "offload", "--no-band", "--set",
                       "hardware.gpu.matmul_derate=" + std::to_string(derate * 1.2), "--json", "-"})
                      .out);
  CHECK(twenty["resources"][0]["step_time_s"].get<double>() ==
        doctest::Approx(set["step_time_s"].get<double>()).epsilon(1e-6));

  const std::string text = ask(explain_offload).out;
  CHECK(contains(text, "\nWhat would help: one resource 10 % faster, the step simulated anew\n"
                       "  matrix products 10 % faster:  step "));
  CHECK(contains(text, "\n  no change: D2H link, "));
}

TEST_CASE("explain --faster takes whole percents from 1 to 1000") {
  for (const std::string wrong : {"0", "-5", "1001"}) {
    check_refused(explain_offload + Arguments{"--faster=" + wrong},
                  "error: --faster must be between 1 and 1000, not " + wrong + "\n");
  }
}

// ---- One task ----

TEST_CASE("explain --task tells when a task ran, and why then") {
  const ProgramResult result = ask(explain_store);
  CHECK(result.exit_code == 0);
  CHECK(result.out.starts_with(
      "deepseek-v3-gb200, policy offload: store query_proj in layer 12 "
      "(moe), copy\nthe only one of gpu 0\n\n  lane   D2H copies of gpu 0\n"));
  for (const char* part :
       {"\nWhat started it: ", "\nWhat it waited for\n", "\nWhat it moved: 1.611 GB",
        "held back by CPU memory\n", "\nWhat waits for it\n"}) {
    INFO(part);
    CHECK(contains(result.out, part));
  }
  const ProgramResult other = ask(explain_store + Arguments{"--rank", "1"});
  CHECK(contains(other.out, "\n  lane   D2H copies of gpu 1\n"));
  const Json json = Json::parse(ask(explain_store + Arguments{"--json", "-"}).out);
  CHECK(json["task"] == "store query_proj in layer 12 (moe)");
  CHECK(json["flow"]["bound_by"] == "CPU memory");
}

TEST_CASE("explain --task looks at the first micro-batch, and at others by number") {
  const Arguments twice = explain_store + Arguments{"--set", "batch.accumulation=2"};
  const auto start = [&](const Arguments& more) {
    const Json json = Json::parse(ask(twice + more + Arguments{"--json", "-"}).out);
    CHECK(json["occurrences"] == 2);
    return json["start_s"].get<double>();
  };
  CHECK(start({}) == start({"--occurrence", "1"}));
  CHECK(start({"--occurrence", "2"}) > start({}));
  CHECK(contains(ask(twice).out, "\nnumber 1 of 2 of gpu 0 in a step; "));
  check_refused(twice + Arguments{"--occurrence", "3"},
                "error: there is no --occurrence 3 of 'store query_proj in layer 12 (moe)'\n"
                "      it occurs 2 times in a step\n");
}

TEST_CASE("explain refuses a task that is not there, and options that do not fit together") {
  check_refused(explain_offload + Arguments{"--task", "stroe query_proj in layer 12"},
                "error: no task of gpu 0 is called 'stroe query_proj in layer 12'\n"
                "      did you mean 'store query_proj in layer 12'?\n");
  check_refused_with(explain_offload + Arguments{"--task", "attention"},
                     "error: 'attention' could be any of ");
  check_refused_with(explain_offload + Arguments{"--task", "frobnicate"},
                     "error: no task of gpu 0 is called 'frobnicate'\n      known: ");
  check_refused(explain_offload + Arguments{"--task", ""}, "error: --task must not be empty\n");
  check_refused(explain_store + Arguments{"--rank", "2"},
                "error: --rank 2 is not simulated\n      gpus 0 to 1 are, all of one CPU\n");
  for (const std::string option : {"rank", "occurrence"}) {
    check_refused(explain_offload + Arguments{"--" + option, "1"},
                  "error: --" + option + " belongs to --task, which is missing\n");
  }
  check_refused(explain_store + Arguments{"--faster", "10"},
                "error: --faster is about the whole step, --task about one task of it\n"
                "      ask for one of them\n");
}
