// Policies with other fates in the first layers, as a user writes and varies them.
#include "tests/cli/cli.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const std::string policy =
    "policies.deep={preset: full, first: {layers: 20, tensors: {query_proj: offload}, "
    "moe: {tensors: {moe_mlpwi_0: offload}}}}";

Arguments deep(const std::string& command, const std::string& setting) {
  return {command, gb200, "--policy", "deep", "--set", policy, "--set", setting};
}

Json run_of(const std::string& layers, const Arguments& more = {}) {
  const ProgramResult result = ask(deep("run", "policies.deep.first.layers=" + layers) +
                                   Arguments{"--no-band", "--json", "-"} + more);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}

} // namespace

// The query of 61 layers and the experts' gate of the 58 that are not dense.
TEST_CASE("--set varies how many first layers offload") {
  const double query = run_of("3")["d2h_bytes"].get<double>() / 3;
  const double gate = run_of("4")["d2h_bytes"].get<double>() - 4 * query;
  CHECK(gate > 0);
  CHECK(run_of("10")["d2h_bytes"].get<double>() == 10 * query + 7 * gate);
  CHECK(run_of("50 %")["d2h_bytes"].get<double>() == 31 * query + 28 * gate); // 30.5
  CHECK(run_of("61")["d2h_bytes"].get<double>() == 61 * query + 58 * gate);
  CHECK(run_of("0")["d2h_bytes"] == 0);
}

TEST_CASE("--no-fold changes nothing where the first layers have fates of their own") {
  CHECK(run_of("10") == run_of("10", {"--no-fold"}));
}

TEST_CASE("run warns that layers in one scan need two for it") {
  const std::string warning = "need two scans over moe layers";
  CHECK(contains(run_of("10")["warnings"].dump(), warning));
  CHECK_FALSE(contains(run_of("3")["warnings"].dump(), warning));
}

TEST_CASE("An axis may be the number of first layers") {
  const ProgramResult result =
      ask({"compare", gb200, "--policy", "deep", "--set", policy, "--axis",
           "policies.deep.first.layers=10,30,61", "--no-band", "--json", "-"});
  CHECK(result.exit_code == 0);
  const Json results = Json::parse(result.out)["results"];
  REQUIRE(results.size() == 3);
  CHECK(results[0]["d2h_bytes"] < results[1]["d2h_bytes"]);
  CHECK(results[1]["d2h_bytes"] < results[2]["d2h_bytes"]);
}

TEST_CASE("explain tells the fates of the first layers apart") {
  const ProgramResult result = ask(deep("explain", "policies.deep.first.layers=10"));
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "What happens to the tensors of a moe layer among the first 10, "));
  CHECK(contains(result.out, "What happens to the tensors of a moe layer after the first 10, "));
}

TEST_CASE("Mistakes in first layers are shown with their place") {
  check_refused(deep("run", "policies.deep.first.layers=62"),
                "--set:1:28: error: 'layers' must be between 0 and 61, not 62\n"
                "    1 | policies.deep.first.layers=62\n"
                "      |                            ^ the model has 61 decoder layers\n");
  check_refused(deep("run", "policies.deep.first.moe.tensors.moe_mlpwi_2=offload"),
                "--set:1:33: error: unknown tensor 'moe_mlpwi_2' in 'moe' layers\n"
                "    1 | policies.deep.first.moe.tensors.moe_mlpwi_2=offload\n"
                "      |                                 ^ did you mean 'moe_mlpwi_0'?\n");
  check_refused(deep("run", "policies.deep.first.layers=101 %"),
                "--set:1:28: error: 'layers' must be between 0 % and 100 %, not '101 %'\n"
                "    1 | policies.deep.first.layers=101 %\n"
                "      |                            ^ write a number of layers, or for example "
                "\"50 %\"\n");
}
