#include "sim/lower/scenario.hpp"

#include "tests/support/dense_scenario.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

using namespace spillway;
using namespace spillway::testing;

namespace {

const std::string moe = R"(kind: scenario
model: {extends: qwen3-30b-a3b, layers: 2}
hardware: gb200-nvl72
gpus: 8
parallel: {fsdp: 4, expert: 2}
batch: {micro: 1, sequence: 4096}
runtime: {framework: maxtext}
policies:
  remat: {preset: full}
)";

std::string reports(const std::string& text, const std::vector<std::string>& assignments = {}) {
  return messages_of([&] { static_cast<void>(scenario_from(text, assignments)); });
}

std::string dense_report(const std::string& assignment) {
  return reports(dense, {assignment});
}
std::string moe_report(const std::string& assignment) {
  return reports(moe, {assignment});
}

// What a user sees of one wrong assignment.
std::string what(const std::string& text, const std::string& assignment) {
  try {
    static_cast<void>(scenario_from(text, {assignment}));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

} // namespace

TEST_CASE("The two base scenarios of this file are correct") {
  CHECK(reports(dense).empty());
  CHECK(reports(moe).empty());
}

TEST_CASE("Every committed scenario is correct") {
  for (const std::string& name : Catalog({"."}).names(CatalogKind::scenario)) {
    CAPTURE(name);
    CHECK(messages_of([&] { static_cast<void>(catalogue(name)); }).empty());
  }
}

TEST_CASE("A sequence longer than the table of learned positions is refused") {
  CHECK(reports(dense, {"model.positions={type: learned, count: 1000}"}) ==
        "a sequence of 4096 tokens, and the model has positions for 1000 | a longer table is "
        "model.positions.count");
  CHECK(reports(dense, {"model.positions={type: learned, count: 4096}"}).empty());
}

// ---- names ----

TEST_CASE("Unknown names are reported with the nearest known one") {
  CHECK(dense_report("model=llama-3.1-405") ==
        "unknown model 'llama-3.1-405' | did you mean 'llama-3.1-405b'?");
  CHECK(dense_report("hardware=gb200-nvl7") ==
        "unknown hardware 'gb200-nvl7' | did you mean 'gb200-nvl72'?");
  CHECK(dense_report("runtime.framework=maxtxt") ==
        "unknown framework 'maxtxt' | did you mean 'maxtext'?");
  CHECK(messages_of([] { static_cast<void>(catalogue("deepseek-v3-gb20")); }) ==
        "unknown scenario 'deepseek-v3-gb20' | did you mean 'deepseek-v3-gb200'?");
  CHECK(messages_of([] { static_cast<void>(scenario_from(dense).policy("remt")); }) ==
        "scenario 'test' has no policy 'remt' | did you mean 'remat'?");
}

TEST_CASE("A name that is near nothing is reported with all known ones") {
  const Catalog catalog({"."});
  std::string known;
  for (const std::string& name : catalog.names(CatalogKind::framework)) {
    known += (known.empty() ? "" : ", ") + name;
  }
  CHECK(dense_report("runtime.framework=zzzzzzzzzz") ==
        "unknown framework 'zzzzzzzzzz' | known: " + known);
}

TEST_CASE("An unknown name points at the place that says it") {
  CHECK(what(dense, "model=llama-3.1-405") == "--set:1:7: error: unknown model 'llama-3.1-405'\n"
                                              "    1 | model=llama-3.1-405\n"
                                              "      |       ^ did you mean 'llama-3.1-405b'?");
  CHECK(what(dense, "runtime.framework=maxtxt") ==
        "--set:1:19: error: unknown framework 'maxtxt'\n"
        "    1 | runtime.framework=maxtxt\n"
        "      |                   ^ did you mean 'maxtext'?");
}

// ---- the split ----

TEST_CASE("The number of GPUs must be the product of the split") {
  CHECK(dense_report("gpus=9") ==
        "9 GPUs cannot be split into fsdp 8 x expert 1 | gpus must equal the product, 8");
  CHECK(moe_report("parallel.expert=4") ==
        "8 GPUs cannot be split into fsdp 4 x expert 4 | gpus must equal the product, 16");
  CHECK(what(dense, "gpus=9") == "--set:1:6: error: 9 GPUs cannot be split into fsdp 8 x expert 1\n"
                                 "    1 | gpus=9\n"
                                 "      |      ^ gpus must equal the product, 8");
}

TEST_CASE("Without 'parallel' all GPUs shard the model") {
  std::string text = dense;
  text.erase(text.find("parallel: {fsdp: 8}\n"), 20);
  const Scenario scenario = scenario_from(text);
  CHECK(scenario.parallel.fsdp == 8);
  CHECK(scenario.parallel.expert == 1);
}

TEST_CASE("Experts must divide over the GPUs that hold them") {
  CHECK(reports(dense, {"parallel={fsdp: 4, expert: 2}"}) ==
        "model 'llama-3.1-405b' has no experts to split over expert 2 | remove 'expert'");
  CHECK(reports(moe, {"parallel={fsdp: 1, expert: 3}", "gpus=3"}) ==
        "128 experts cannot be divided over expert 3 | expert must divide the number of experts");
}

// 1 x 100 tokens x 8 experts each = 800 rows over 128 / 2 = 64 experts of a GPU.
TEST_CASE("Routed rows must divide over the experts of a GPU") {
  CHECK(moe_report("batch.sequence=100") ==
        "800 routed rows cannot be divided evenly over 64 experts of a GPU | balanced routing "
        "needs micro x sequence x experts per token divisible by them");
}

TEST_CASE("Routing is balanced unless an imbalance says how many rows the busiest GPU gets") {
  const auto imbalance = [](const std::vector<std::string>& assignments) {
    return scenario_from(moe, assignments).batch.routing_imbalance;
  };
  CHECK(imbalance({}) == 1);
  CHECK(imbalance({"routing={}"}) == 1);
  CHECK(imbalance({"routing=null"}) == 1);
  CHECK(imbalance({"routing.imbalance=1.5"}) == 1.5);
  CHECK(imbalance({"routing.imbalance=2"}) == 2); // all rows of expert 2
  CHECK(scenario_from(dense, {"routing=null"}).batch.routing_imbalance == 1);
}

TEST_CASE("An imbalance that the split cannot have is refused where it stands") {
  CHECK(what(moe, "routing.imbalance=2.5") ==
        "--set:1:19: error: a GPU cannot get 2.5 times the mean of 2 expert-parallel GPUs\n"
        "    1 | routing.imbalance=2.5\n"
        "      |                   ^ imbalance must be between 1 and expert, 2");
  CHECK(reports(moe, {"parallel={fsdp: 8}", "routing.imbalance=1.01"}) ==
        "a GPU cannot get 1.01 times the mean of 1 expert-parallel GPU | with expert 1 the only "
        "imbalance is 1");
  CHECK(reports(moe, {"parallel={fsdp: 8}", "routing.imbalance=1"}).empty());
  CHECK(moe_report("routing.imbalance=0.9") ==
        "'imbalance' must be between 1 and 1000000, not 0.9");
  CHECK(moe_report("routing.imbalnce=1.5") ==
        "unknown key 'imbalnce' in 'routing' | did you mean 'imbalance'?");
  CHECK(what(dense, "routing={imbalance: 1}") ==
        "--set:1:9: error: model 'llama-3.1-405b' has no experts to route rows to\n"
        "    1 | routing={imbalance: 1}\n"
        "      |         ^ remove 'routing'");
}

TEST_CASE("A scenario is called what it was asked for as, without .yaml") {
  CHECK(load_scenario(Catalog({"."}), "llama-3.1-405b-gb200").name == "llama-3.1-405b-gb200");
  CHECK(load_scenario(Catalog({"."}), "workloads/scenarios/llama-3.1-405b-gb200.yaml").name ==
        "llama-3.1-405b-gb200");
}

// ---- batch and size ----

TEST_CASE("Batch sizes must be positive integers") {
  CHECK(dense_report("batch.micro=0") == "'micro' must be between 1 and 65536, not 0");
  CHECK(dense_report("batch.micro=-1") == "'micro' must be between 1 and 65536, not -1");
  CHECK(dense_report("batch.sequence=0") == "'sequence' must be between 1 and 16777216, not 0");
  CHECK(dense_report("batch.accumulation=0") == "'accumulation' must be between 1 and 4096, not 0");
  CHECK(dense_report("gpus=0").starts_with("'gpus' must be between 1 and 1000000, not 0"));
  CHECK(dense_report("batch.micro=1.5") == "'micro' must be an integer, not '1.5'");
}

// Widest activation 128256 logits: 65536 x 16777216 x 128256 is above 1e16.
TEST_CASE("A batch that cannot be counted in 64 bits is refused") {
  CHECK(reports(dense, {"batch.micro=65536", "batch.sequence=16777216"}) ==
        "this batch is too large to simulate | micro x accumulation x sequence x the widest "
        "activation must stay below 1e16");
}

// 1024 x 262144 tokens x 8 rows x 2048 wide are 4.4e12 elements, and 4096 times as many above 1e16.
TEST_CASE("Rows that cannot be counted in 64 bits are refused, however few there are on the mean") {
  const std::vector<std::string> large{"gpus=4096", "parallel={fsdp: 1, expert: 4096}",
                                       "model.experts.count=4096",
                                       "batch={micro: 1024, sequence: 262144}"};
  const auto with = [&](const std::string& imbalance) {
    std::vector<std::string> assignments = large;
    assignments.push_back("routing.imbalance=" + imbalance);
    return reports(moe, assignments);
  };
  CHECK(with("1").empty());
  CHECK(with("4096").starts_with("this batch is too large to simulate | "));
}

// ---- runtime ----

TEST_CASE("Contradictory runtime switches are reported") {
  CHECK(reports(dense, {"runtime.command_buffers=true", "runtime.schedule=pipelined"}) ==
        "'command_buffers: true' serializes copies, but 'schedule' is pipelined | set "
        "command_buffers: false, or schedule: serialized");
  CHECK(reports(dense, {"runtime.pipelined_host_offloading=false", "runtime.schedule=pipelined"}) ==
        "schedule pipelined needs 'pipelined_host_offloading: true' | or set schedule: loop_bound");
  CHECK(reports(dense, {"runtime.framework=pytorch", "runtime.command_buffers=true"}) ==
        "'command_buffers' is a switch of XLA, not of framework 'pytorch'");
  CHECK(reports(dense, {"runtime.framework=pytorch", "runtime.pipelined_host_offloading=true"}) ==
        "'pipelined_host_offloading' is a switch of XLA, not of framework 'pytorch'");
}

TEST_CASE("Switches of the framework map to a schedule") {
  const auto schedule = [](const std::vector<std::string>& assignments) {
    return std::string(schedule_name(scenario_from(dense, assignments).runtime.schedule));
  };
  CHECK(schedule({}) == "pipelined");
  CHECK(schedule({"runtime.command_buffers=true"}) == "serialized");
  CHECK(schedule({"runtime.pipelined_host_offloading=false"}) == "loop_bound");
  CHECK(schedule({"runtime.framework=pytorch"}) == "streamed");
  CHECK(schedule({"runtime.schedule=loop_bound"}) == "loop_bound");
  CHECK(schedule({"runtime.command_buffers=true", "runtime.schedule=serialized"}) == "serialized");
  CHECK_FALSE(
      scenario_from(dense, {"runtime.latency_hiding_scheduler=false"}).runtime.overlap_collectives);
  CHECK(scenario_from(dense,
                      {"runtime.latency_hiding_scheduler=false", "runtime.collectives=overlapped"})
            .runtime.overlap_collectives);
}

TEST_CASE("A schedule that the switches do not mean is noted") {
  CHECK(scenario_from(dense).runtime.notes.empty());
  CHECK(scenario_from(dense, {"runtime.schedule=streamed"}).runtime.notes ==
        std::vector<std::string>{
            "schedule streamed was set; the framework's switches mean pipelined"});
}

TEST_CASE("A published speed-up says over what") {
  const Scenario scenario =
      scenario_from(dense, {"published={remat: {speedup: 1.5, over: none, source: paper}}"});
  REQUIRE(scenario.published.at("remat").size() == 1);
  CHECK(scenario.published.at("remat")[0].field == "speedup");
  CHECK(scenario.published.at("remat")[0].over == "none");
  CHECK(dense_report("published={remat: {speedup: 1.5, source: paper}}") ==
        "missing key 'over' in 'remat'");
}

TEST_CASE("Keys of the streamed schedule do not apply to others") {
  CHECK(dense_report("runtime.prefetch_layers=2") ==
        "'prefetch_layers' applies to schedule streamed, not pipelined");
  CHECK(dense_report("runtime.in_flight_layers=2") ==
        "'in_flight_layers' applies to schedule streamed, not pipelined");
  CHECK(reports(dense, {"runtime.schedule=loop_bound", "runtime.offload_last_layer=false"}) ==
        "'offload_last_layer' applies to schedule streamed, not loop_bound");
  CHECK(reports(dense, {"runtime.schedule=streamed", "runtime.in_flight_layers=2"}).empty());
}

TEST_CASE("Values of the runtime have ranges and units") {
  CHECK(dense_report("runtime.memory_fraction=0") ==
        "'memory_fraction' must be greater than 0 and at most 1, not 0");
  CHECK(dense_report("runtime.memory_fraction=1.01") ==
        "'memory_fraction' must be greater than 0 and at most 1, not 1.01");
  CHECK(dense_report("runtime.host_memory_limit=64") ==
        "'host_memory_limit' needs a unit | write for example \"80 GiB\"");
  CHECK(dense_report("runtime.host_memory_limit=0 GB") ==
        "'host_memory_limit' must be greater than 0 B and at most 1000 PB, not 0 GB");
  CHECK(dense_report("runtime.schedule=pipelind") ==
        "unknown value 'pipelind' for 'schedule' | did you mean 'pipelined'?");
  CHECK(dense_report("runtime.collectives=hidden") ==
        "unknown value 'hidden' for 'collectives' | known: overlapped, exposed");
  CHECK(dense_report("runtime.async_compute_limit=0") ==
        "'async_compute_limit' must be between 1 and 1024, not 0");
}

TEST_CASE("The head's gradient is automatic, early or late") {
  CHECK(dense_report("runtime.head_gradient=erly") ==
        "unknown value 'erly' for 'head_gradient' | did you mean 'early'?");
  CHECK(dense_report("runtime.head_gradient=whenever") ==
        "unknown value 'whenever' for 'head_gradient' | known: automatic, early, late");
  const auto head = [](const std::vector<std::string>& assignments) {
    return scenario_from(dense, assignments).runtime.head_gradient;
  };
  CHECK(head({}) == HeadGradient::automatic);
  CHECK(head({"runtime.head_gradient=automatic"}) == HeadGradient::automatic);
  CHECK(head({"runtime.head_gradient=early"}) == HeadGradient::early);
  CHECK(head({"runtime.head_gradient=late"}) == HeadGradient::late);
}

TEST_CASE("A head gradient that the step cannot have is refused") {
  CHECK(reports(dense, {"runtime.framework=pytorch", "runtime.head_gradient=early"}) ==
        "'head_gradient' is the order of a compiled step; framework 'pytorch' uses gradients at "
        "once");
  CHECK(reports(dense, {"runtime.loss_chunks=4", "runtime.head_gradient=late"}) ==
        "head_gradient late keeps whole logits, but 'loss_chunks' is above 1 | use loss_chunks: "
        "1, or head_gradient: early");
}

TEST_CASE("The loop is rotated only where its schedule rotates it") {
  const auto rotated = [](const std::vector<std::string>& assignments) {
    return scenario_from(dense, assignments).runtime.rotated;
  };
  CHECK(rotated({}));
  CHECK(rotated({"runtime.command_buffers=true"}));
  CHECK(!rotated({"runtime.command_buffers=true", "runtime.pipelined_host_offloading=false"}));
  CHECK(!rotated({"runtime.pipelined_host_offloading=false"}));
  CHECK(!rotated({"runtime.schedule=loop_bound"}));
  CHECK(!rotated({"runtime.schedule=streamed"}));
}

TEST_CASE("States have one of two precisions, or none where they can be left out") {
  CHECK(dense_report("precision.weights=none") ==
        "unknown value 'none' for 'weights' | known: fp32, bf16");
  CHECK(dense_report("precision.compute=fp8") == "unknown value 'fp8' for 'compute' | known: bf16");
  CHECK(dense_report("precision.master=pf32") ==
        "unknown value 'pf32' for 'master' | did you mean 'fp32'?");
  const PrecisionSpec p =
      scenario_from(dense, {"precision={weights: bf16, gradients: fp32, master: fp32, moment1: "
                            "none, moment2: bf16}"})
          .precision;
  CHECK(p.weights == 2);
  CHECK(p.gradients == 4);
  CHECK(p.master == 4);
  CHECK(p.moment1 == 0);
  CHECK(p.moment2 == 2);
}

// ---- keys and policies ----

TEST_CASE("Unknown and missing keys are reported") {
  CHECK(dense_report("batch.micr=2") == "unknown key 'micr' in 'batch' | did you mean 'micro'?");
  CHECK(dense_report("gpu=2") == "unknown key 'gpu' in 'scenario' | did you mean 'gpus'?");
  CHECK(dense_report("kind=scenari") ==
        "unknown value 'scenari' for 'kind' | did you mean 'scenario'?");
  std::string text = dense;
  text.erase(text.find("batch: {micro: 1, sequence: 4096}\n"), 34);
  CHECK(reports(text) == "missing key 'batch' in 'scenario'");
}

TEST_CASE("A misspelt key is matched with keys that are not in the file") {
  CHECK(dense_report("runtime.shedule=serialized") ==
        "unknown key 'shedule' in 'runtime' | did you mean 'schedule'?");
  CHECK(dense_report("runtime.host_memory_limt=64 GB") ==
        "unknown key 'host_memory_limt' in 'runtime' | did you mean 'host_memory_limit'?");
  CHECK(dense_report("precision.weight=bf16") ==
        "unknown key 'weight' in 'precision' | did you mean 'weights'?");
}

TEST_CASE("Several mistakes are reported in one run") {
  CHECK(reports(dense, {"batch.micro=0", "gpus=9", "runtime.memory_fraction=0"}) ==
        "9 GPUs cannot be split into fsdp 8 x expert 1 | gpus must equal the product, 8\n"
        "'micro' must be between 1 and 65536, not 0\n"
        "'memory_fraction' must be greater than 0 and at most 1, not 0");
}

TEST_CASE("Policies are a map with at least one entry") {
  CHECK(dense_report("policies={}") == "'policies' must be a map with at least one policy");
  CHECK(dense_report("policies=[remat]") == "'policies' must be a map with at least one policy");
  CHECK(dense_report("policies=remat") == "'policies' must be a map with at least one policy");
}

TEST_CASE("Policies name tensors that exist and fates that are possible") {
  CHECK(dense_report("policies.remat.tensors.query_prj=offload") ==
        "unknown tensor 'query_prj' in this model | did you mean 'query_proj'?");
  CHECK(dense_report("policies.remat.tensors.query_proj=ofload") ==
        "unknown value 'ofload' for 'query_proj' | did you mean 'offload'?");
  CHECK(dense_report("policies.remat.tensors.decoder_layer_input=recompute") ==
        "'decoder_layer_input' cannot be recomputed | a layer is recomputed from it: keep or "
        "offload it");
  CHECK(dense_report("policies.own={preset: custom}") ==
        "policy 'own' is custom but lists no tensors | add 'tensors', or use preset full or none");
  CHECK(dense_report("policies.own={preset: ful}") ==
        "unknown value 'ful' for 'preset' | did you mean 'full'?");
}

// ---- published and assumed ----

TEST_CASE("Published values belong to policies that exist") {
  CHECK(dense_report("published={remt: {model_tflops_per_gpu: 500, source: s}}") ==
        "'published' names the unknown policy 'remt'");
  CHECK(dense_report("published=[1]") ==
        "'published' must be a map of policies to {field: value, source}");
  const Scenario scenario =
      scenario_from(dense, {"published={remat: {model_tflops_per_gpu: 500, source: paper}}"});
  REQUIRE(scenario.published.at("remat").size() == 1);
  CHECK(scenario.published.at("remat")[0].field == "model_tflops_per_gpu");
  CHECK(scenario.published.at("remat")[0].value == 500);
  CHECK(scenario.published.at("remat")[0].source == "paper");
}

TEST_CASE("An assumption shows the value that the scenario has") {
  const Scenario scenario = scenario_from(
      dense, {"assumed=[{what: batch.sequence, why: a}, {what: parallel.fsdp, why: b}, {what: "
              "routing, why: c}, {what: batch, why: d}, {what: gpus, why: e}]"});
  REQUIRE(scenario.assumed.size() == 5);
  CHECK(scenario.assumed[0].value == "4096");
  CHECK(scenario.assumed[0].why == "a");
  CHECK(scenario.assumed[1].value == "8");
  CHECK(scenario.assumed[2].value.empty()); // nothing of that name
  CHECK(scenario.assumed[3].value.empty()); // a map has no single value
  CHECK(scenario.assumed[4].value == "8");
  CHECK(scenario_from(dense, {"assumed=[{what: batch.sequence, why: a}]", "batch.sequence=8192"})
            .assumed[0]
            .value == "8192");
  CHECK(dense_report("assumed=batch") == "'assumed' must be a list of {what, why}");
}

// ---- --set ----

// Matrix products at 0.6 instead of 0.75 of the micro-benchmark's rate: those
// kernels take 1.25 times as long, all others the same.
TEST_CASE("A coefficient of named hardware can be set") {
  const Scenario plain = scenario_from(dense);
  const Scenario slower = scenario_from(dense, {"hardware.gpu.matmul_derate=0.6"});
  CHECK(slower.device.matmul_derate.value == 0.6);
  CHECK_FALSE(slower.device.matmul_derate.has_range());
  CHECK(slower.device.matmul_derate.kind == "assumed");
  CHECK(slower.device.matmul_derate.source == "set by the user");
  CHECK(slower.device.name == plain.device.name);
  const double overhead = plain.device.kernel_overhead.value;
  const Simulation before = run(plain, "remat");
  const Simulation after = run(slower, "remat");
  const StepView a(before);
  const StepView b(after);
  const auto seconds = [](const StepView& step, const std::string& label) {
    return to_seconds(step.took(step.find(label, 1, Phase::forward))).count();
  };
  CHECK(seconds(b, "mlp gate") - overhead ==
        doctest::Approx((seconds(a, "mlp gate") - overhead) * 1.25));
  CHECK(seconds(b, "attention") == seconds(a, "attention"));
  CHECK(after.result.step_time_s > before.result.step_time_s);
}

TEST_CASE("A coefficient with a wrong unit or name is reported") {
  CHECK(dense_report("hardware.host.d2h.rate=64") ==
        "'rate' needs a unit | write for example \"193 GB/s\"");
  CHECK(dense_report("hardware.host.d2h.rat=64 GB/s") ==
        "unknown key 'rat' in 'd2h' | did you mean 'rate'?");
  CHECK(dense_report("hardware.gpu.matmul_derate=0") ==
        "'matmul_derate' must be greater than 0 and at most 1.5, not 0");
}

TEST_CASE("Whole hardware can be replaced by name") {
  const Scenario other = catalogue("deepseek-v3-gb200", {"hardware=h200"});
  CHECK(other.device.name == "h200");
  CHECK(other.published.size() == 2);
}

// Per GPU: the smaller of the setting and the share, 480 GB / 2.
TEST_CASE("Limits of a scenario are the smaller of setting and capacity") {
  const auto host = [](const std::vector<std::string>& assignments) {
    const Scenario scenario = scenario_from(dense, assignments);
    return host_limit(scenario.runtime, scenario.device);
  };
  CHECK(host({}) == 240e9);
  CHECK(host({"runtime.host_memory_limit=100 GB"}) == 100e9);
  CHECK(host({"runtime.host_memory_limit=300 GB"}) == 240e9);
  CHECK(host_share(scenario_from(dense).device) == 240e9);
  // 188729 MiB, of which the framework takes half.
  const Scenario half = scenario_from(dense, {"runtime.memory_fraction=0.5"});
  CHECK(hbm_limit(half.runtime, half.device) == doctest::Approx(0.5 * 188729.0 * 1048576.0));
}
