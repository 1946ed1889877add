// `spillway plan` as a user calls it.
#include "tests/cli/cli.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

Json plan_of(const Arguments& more) {
  const ProgramResult result = ask(Arguments{"plan", gb200, "--json", "-"} + more);
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.empty()); // progress is for terminals
  return Json::parse(result.out);
}

} // namespace

TEST_CASE("plan beats every named policy, within the scenario's limits and a proven gap") {
  const Json plan = plan_of({"--brief"});
  CHECK(plan["gap_percent"].get<double>() < 0.501); // --gap, and rounding
  CHECK(plan["ended_by"] == "bound");
  const Json& result = plan["plan"]["result"];
  CHECK(result["verdict"] == "fits");
  const double best = result["tokens_per_s_per_gpu"];
  CHECK(best > plan["best_named"]["result"]["tokens_per_s_per_gpu"].get<double>());
  REQUIRE(plan["settings"].size() == 4); // 1, 2, 4 and 8 sequences
  for (const Json& setting : plan["settings"]) {
    CHECK(setting["tokens_per_s_per_gpu"].get<double>() <= best);
    CHECK(setting["bound_tokens_per_s_per_gpu"].get<double>() >=
          setting["tokens_per_s_per_gpu"].get<double>());
  }
}

TEST_CASE("What plan prints can be pasted into a scenario and runs as it says") {
  const Json plan = plan_of({"--brief", "--micro-batch", "8"});
  const std::string yaml = plan["plan"]["policy_yaml"];
  const ProgramResult run = ask({"run", gb200, "--policy", "own", "--set", "policies.own=" + yaml,
                                 "--no-band", "--json", "-"});
  CHECK(run.exit_code == 0);
  const Json result = Json::parse(run.out);
  for (const char* field : {"step_time_s", "peak_hbm_bytes", "peak_host_bytes"}) {
    CHECK(result[field] == plan["plan"]["result"][field]);
  }
}

TEST_CASE("A named policy that no choice of fates beats is the plan, as it is written") {
  const Json plan = Json::parse(
      ask({"plan", "qwen3-30b-a3b-slice-gb200", "--micro-batch", "24", "--json", "-"}).out);
  CHECK(plan["plan"]["result"]["policy"] == "none");
  CHECK(plan["plan"]["policy_yaml"] == "{preset: none}");
  CHECK(plan["tensors"].empty());
  CHECK(plan["gap_percent"].get<double>() < 0.501); // --gap, and rounding
}

TEST_CASE("plan says the same on any number of threads") {
  const Arguments question{"plan", gb200, "--micro-batch", "4,8", "--gap", "1", "--json", "-"};
  CHECK(ask(question + Arguments{"--jobs", "1"}).out ==
        ask(question + Arguments{"--jobs", "3"}).out);
}

TEST_CASE("plan respects pins and limits") {
  const Json free = plan_of({"--brief", "--micro-batch", "8", "--gap", "1"});
  const Json pinned = plan_of({"--brief", "--micro-batch", "8", "--gap", "1", "--pin",
                               "query_proj=offload", "--pin", "dense.query_proj=recompute"});
  CHECK(contains(pinned["plan"]["policy_yaml"].get<std::string>(), "query_proj: offload"));
  CHECK_FALSE(contains(free["plan"]["policy_yaml"].get<std::string>(), "query_proj: offload"));
  CHECK(pinned["plan"]["result"]["step_time_s"] > free["plan"]["result"]["step_time_s"]);
  const Json small = plan_of({"--brief", "--micro-batch", "8", "--gap", "3", "--hbm-limit",
                              "130 GB", "--host-limit", "150 GB"});
  CHECK(small["plan"]["result"]["peak_hbm_bytes"].get<double>() <= 130e9);
  CHECK(small["plan"]["result"]["peak_host_bytes"].get<double>() <= 150e9);
  CHECK(small["plan"]["result"]["step_time_s"] > free["plan"]["result"]["step_time_s"]);
}

TEST_CASE("plan says why, and what else there is") {
  const ProgramResult result = ask({"plan", gb200, "--micro-batch", "8", "--gap", "1"});
  CHECK(result.exit_code == 0);
  for (const char* part :
       {"times as fast as the best named policy", "in 1 setting", "spares ", "behind ",
        "operations per byte to carry", "over HBM",
        "Free transfers: ", "Time against memory: ", "Largest micro-batch that fits",
        "save does not fit at the scenario's own setting; the smallest change found",
        "If one thing were different", "the host link at half its rate",
        "one more GPU on each CPU"}) {
    CAPTURE(part);
    CHECK(contains(result.out, part));
  }
}

TEST_CASE("plan varies other keys, and lists what cannot be") {
  const Json plan = plan_of({"--brief", "--micro-batch", "8", "--axis", "parallel.fsdp=16,32",
                             "--axis", "parallel.expert=4,8"});
  REQUIRE(plan["settings"].size() == 4);
  CHECK(contains(plan["settings"][0]["impossible"].get<std::string>(), "128 GPUs cannot be split"));
  CHECK(plan["settings"][1].contains("tokens_per_s_per_gpu")); // 16 x 8
  CHECK(plan["settings"][2].contains("tokens_per_s_per_gpu")); // 32 x 4
}

TEST_CASE("A setting that cannot be is an error where it is the only one") {
  check_refused({"plan", gb200, "--axis", "parallel.fsdp=7"},
                ask({"run", gb200, "--set", "parallel.fsdp=7", "--policy", "remat"}).err);
}

TEST_CASE("A policy with fates of its own in the first layers competes with plan") {
  const std::string same = "policies.a={preset: full, tensors: {decoder_layer_input: offload}}";
  const std::string deep =
      "policies.b={preset: full, tensors: {decoder_layer_input: offload}, first: {layers: 50, "
      "moe: {tensors: {out_proj: keep, moe_mlpwi_0: keep, moe_mlpwi_1: keep}}}}";
  const ProgramResult result = ask(
      {"plan", gb200, "--micro-batch", "4", "--brief", "--set", same, "--set", deep, "--csv", "-"});
  CHECK(contains(result.out, "\n4,2,deepseek-v3-gb200,a,"));
  CHECK(contains(result.out, "\n4,2,deepseek-v3-gb200,b,"));
}

TEST_CASE("The gap that a search stops at is what it claims") {
  const Arguments question{
      "plan", "llama-3.1-405b-gb200", "--set", "runtime.schedule=loop_bound", "--brief", "--json",
      "-"};
  const Json soon = Json::parse(ask(question).out);
  const Json best = Json::parse(ask(question + Arguments{"--gap", "0"}).out);
  const double found = soon["plan"]["result"]["tokens_per_s_per_gpu"];
  const double most = best["plan"]["result"]["tokens_per_s_per_gpu"];
  CHECK(most <= found / (1 - soon["gap_percent"].get<double>() / 100));
  CHECK(best["gap_percent"] == 0);
}

TEST_CASE("plan ends with status 1 where nothing fits") {
  const ProgramResult result = ask({"plan", gb200, "--micro-batch", "8", "--hbm-limit", "20 GB"});
  CHECK(result.exit_code == 1);
  CHECK(contains(result.out, "Nothing that was looked at fits"));
}

TEST_CASE("plan stops at limits of its own, and says so") {
  const Json few = plan_of({"--brief", "--micro-batch", "8", "--gap", "0", "--replays", "60"});
  CHECK(few["ended_by"] == "replays");
  CHECK(few["gap_percent"].get<double>() > 0);
  const Json soon = plan_of({"--brief", "--micro-batch", "8", "--gap", "0", "--time-limit", "0"});
  CHECK(soon["ended_by"] == "time limit");
}

TEST_CASE("plan writes every replay as CSV") {
  const ProgramResult result = ask({"plan", gb200, "--micro-batch", "8", "--brief", "--csv", "-"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.starts_with("batch.micro,batch.accumulation,scenario,policy,verdict,"));
  CHECK(contains(result.out, "\n8,1,deepseek-v3-gb200,plan,fits,"));
}

TEST_CASE("Mistakes in the options of plan") {
  const auto refused = [](const Arguments& more, const std::string& text) {
    check_refused(Arguments{"plan", gb200} + more, text);
  };
  refused({"--pin", "query_proj"},
          "error: --pin 'query_proj' is not NAME=keep, recompute or offload\n"
          "      for example --pin query_proj=offload or --pin moe.query_proj=keep\n");
  refused({"--pin", "=keep"}, "error: --pin '=keep' is not NAME=keep, recompute or offload\n"
                              "      for example --pin query_proj=offload or --pin "
                              "moe.query_proj=keep\n");
  refused({"--micro-batch", "1:65", "--free-batch"},
          "error: --micro-batch 1:65: between 1 and 64 of them\n"
          "      for example --micro-batch 1,2,4 or --micro-batch 1:16\n");
  refused({"--pin", "query_prj=keep"}, "error: --pin query_prj=keep: no such tensor\n"
                                       "      did you mean 'query_proj'?\n");
  refused({"--pin", "mla_q=keep", "--pin", "mla_q=offload"},
          "error: --pin: 'mla_q' is pinned twice\n");
  refused({"--pin", "decoder_layer_input=recompute"},
          "error: --pin decoder_layer_input=recompute: a layer is recomputed from it\n"
          "      keep or offload it\n");
  refused({"--micro-batch", "3"},
          "error: --micro-batch 3: the global batch, 8 sequences a GPU, is no multiple of it\n"
          "      --free-batch lets the global batch vary\n");
  refused({"--micro-batch", "1:x"},
          "error: --micro-batch: 'x' is not a number of sequences\n"
          "      for example --micro-batch 1,2,4 or --micro-batch 1:16\n");
  refused({"--micro-batch", "9:8"},
          "error: --micro-batch 9:8: between 1 and 64 of them\n"
          "      for example --micro-batch 1,2,4 or --micro-batch 1:16\n");
  refused({"--axis", "batch.micro=1,2"},
          "error: --axis batch.micro=1,2: micro-batches are varied by --micro-batch\n"
          "      for example --micro-batch 1,2,4 or --micro-batch 1:16\n");
  refused({"--hbm-limit", "120"}, "error: --hbm-limit needs a unit\n"
                                  "      for example --hbm-limit '120 GB'\n");
  refused({"--micro-batch", "4,4"}, "error: --micro-batch 4,4: 4 is there twice\n");
  refused({"--micro-batch", "0"}, "error: --micro-batch: '0' is not a number of sequences\n"
                                  "      for example --micro-batch 1,2,4 or --micro-batch 1:16\n");
  refused({"--gap", "300"}, "error: --gap must be below 100, not 300\n");
  refused({"--gap", "few"}, "error: --gap 'few' is no number of percent\n"
                            "      for example --gap 1\n");
  refused({"--time-limit", "-1"}, "error: --time-limit '-1' is no number of seconds\n"
                                  "      for example --time-limit 1\n");
  refused({"--replays", "0"}, "error: --replays must be at least 1, not 0\n");
}
