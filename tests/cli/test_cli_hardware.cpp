// compare --hardware: one scenario on several systems.
#include "tests/cli/cli.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const Arguments two_policies{"compare", gb200,      "--no-band", "--policy",
                             "remat",   "--policy", "offload"};
const Arguments two_systems = two_policies + Arguments{"--hardware", "gb300-nvl72,h200"};

Json results_of(const Arguments& arguments) {
  return Json::parse(ask(arguments + Arguments{"--json", "-"}).out)["results"];
}

} // namespace

TEST_CASE("--hardware gives what --set hardware gives, system by system") {
  const Json both = results_of(two_systems);
  REQUIRE(both.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string name = i < 2 ? "gb300-nvl72" : "h200";
    Json row = both[i];
    CHECK(row["settings"] == Json{{"hardware", name}});
    row.erase("settings");
    CHECK(row == results_of(two_policies + Arguments{"--set", "hardware=" + name})[i % 2]);
  }
}

TEST_CASE("The table of systems has a line each, against the base on the same system") {
  const ProgramResult result = ask(two_systems);
  CHECK(result.exit_code == 0);
  const std::vector<std::string> lines = lines_of(result.out);
  REQUIRE(lines.size() == 9);
  CHECK(lines[0] == "DeepSeek-V3 671B: 128 GPUs = fsdp 16 x expert 8, micro-batch 8 x 4096 tokens");
  CHECK(lines[2].starts_with("hardware "));
  CHECK(contains(lines[2], "  speed-up over remat  hidden  "));
  CHECK(lines[4].starts_with("gb300-nvl72  remat    fits  "));
  CHECK(lines[5].starts_with("gb300-nvl72  offload  fits  "));
  CHECK(lines[7].starts_with("h200         remat    fits  "));
  CHECK(contains(lines[7], "  0 B of "));
  const Json rows = results_of(two_systems);
  const double speedup =
      rows[2]["step_time_s"].get<double>() / rows[3]["step_time_s"].get<double>();
  CHECK(contains(lines[8], "  " + std::to_string(speedup).substr(0, 4))); // not against GB300
  CHECK(contains(lines[8], " GB of "));
  CHECK_FALSE(contains(result.out, "published")); // on a system that is none of these
}

TEST_CASE("--set refines every system of --hardware") {
  const std::string slower = "hardware.host.d2h.rate={value: 20 GB/s, low: 20 GB/s, high: 20 GB/s, "
                             "kind: assumed}";
  const Json both = results_of(two_systems + Arguments{"--set", slower});
  const Json one = results_of(two_policies + Arguments{"--set", "hardware=h200", "--set", slower});
  CHECK(both[3]["step_time_s"] == one[1]["step_time_s"]);
  CHECK(both[3]["step_time_s"] > results_of(two_systems)[3]["step_time_s"]);
}

TEST_CASE("--hardware goes with other axes, in the layout of axes") {
  const ProgramResult result = ask(two_systems + Arguments{"--axis", "batch.micro=1,2"});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "\nhardware     micro  policy   "));
  CHECK(contains(result.out, "\nh200         2      offload  "));
  CHECK_FALSE(contains(result.out, "published"));
}

TEST_CASE("Systems that cannot be named so are refused") {
  check_refused_with(two_policies + Arguments{"--hardware", "gb300-nvl72,h20"},
                     "did you mean 'h200'?");
  for (const char* names : {"h200,,h100", "a100,", ",a100", "a100, "}) {
    check_refused(two_policies + Arguments{"--hardware", names},
                  std::string("error: --hardware '") + names +
                      "' has an empty name\n"
                      "      write names or files with a comma between two\n");
  }
  check_refused(two_policies + Arguments{"--hardware", "h200,a100, h200"},
                "error: --hardware: 'h200' is named twice\n");
  check_refused_with(two_systems + Arguments{"--base", "nope"}, "known: remat, offload\n");
  check_refused(two_policies + Arguments{"--hardware", ""},
                "error: --hardware must not be empty\n");
  check_refused(two_systems + Arguments{"--set", "hardware=h200"},
                "error: --hardware and --set hardware=h200 both name the system\n"
                "      leave one of them out\n");
  check_refused_with(two_systems + Arguments{"--axis", "hardware=h100"},
                     "--axis: two axes vary 'hardware'");
}
