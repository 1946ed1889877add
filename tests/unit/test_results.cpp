#include "results/explanation.hpp"
#include "results/report_text.hpp"
#include "results/text_table.hpp"
#include "results/write.hpp"
#include "tests/support/json_keys.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/step.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

RunResult sample() {
  RunResult r;
  r.scenario = "demo";
  r.policy = "offload";
  r.step_time_s = 2.5;
  r.step_time_low_s = 2.0;
  r.step_time_high_s = 3.25;
  r.tokens_per_s_per_gpu = 1000;
  r.model_tflops_per_gpu = 500.5;
  r.hardware_tflops_per_gpu = 600;
  r.mfu = 0.25;
  r.peak_hbm_bytes = 100;
  r.hbm_limit_bytes = 200;
  r.peak_hbm_moment = "attention in layer 3";
  r.hbm_owners = {{"weights", 60}, {"workspace", 40}};
  r.peak_host_bytes = 7;
  r.host_limit_bytes = 70;
  r.host_owners = {{"query_proj", 7}};
  r.time[0] = 1.5;
  r.time[1] = 1.0;
  r.d2h_bytes = 7;
  r.h2d_bytes = 7;
  r.offload_hidden_fraction = 0.75;
  r.assumptions = {{"hardware.gpu.memory", "80 GB", "measured", "a \"source\""}};
  r.warnings = {"careful"};
  return r;
}

const std::vector<std::string> contract{"scenario",
                                        "policy",
                                        "verdict",
                                        "step_time_s",
                                        "step_time_low_s",
                                        "step_time_high_s",
                                        "tokens_per_s_per_gpu",
                                        "model_tflops_per_gpu",
                                        "hardware_tflops_per_gpu",
                                        "mfu",
                                        "peak_hbm_bytes",
                                        "hbm_limit_bytes",
                                        "peak_hbm_moment",
                                        "hbm_owners",
                                        "peak_host_bytes",
                                        "host_limit_bytes",
                                        "host_owners",
                                        "time",
                                        "d2h_bytes",
                                        "h2d_bytes",
                                        "offload_hidden_fraction",
                                        "assumptions",
                                        "warnings"};

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

} // namespace

// ---- JSON and CSV ----

TEST_CASE("JSON of a run has the fields of the contract, in order") {
  const std::string text = run_json(sample());
  CHECK(text.ends_with("}\n"));
  const Json json = Json::parse(text);
  CHECK(keys_of(json) == contract);
  CHECK(json["verdict"] == "fits");
  CHECK(json["step_time_s"] == 2.5);
  CHECK(json["peak_hbm_bytes"].is_number_integer());
  CHECK(json["hbm_owners"] == Json::parse(R"({"weights": 60, "workspace": 40})"));
  CHECK(keys_of(json["time"]) ==
        std::vector<std::string>{"forward_s", "backward_s", "recompute_s", "exposed_offload_s",
                                 "exposed_collective_s", "bubble_s", "optimizer_s", "other_s"});
  CHECK(json["assumptions"] ==
        Json::parse(R"([{"what": "hardware.gpu.memory", "value": "80 GB", "kind": "measured",
                         "source": "a \"source\""}])"));
  CHECK(json["warnings"] == Json::parse(R"(["careful"])"));
  CHECK(json["offload_hidden_fraction"] == 0.75);
}

TEST_CASE("Without offload the hidden fraction is null") {
  RunResult r = sample();
  r.offload_hidden_fraction.reset();
  r.verdict = Verdict::host_oom;
  const Json json = Json::parse(run_json(r));
  CHECK(json["offload_hidden_fraction"].is_null());
  CHECK(json["verdict"] == "host_oom");
  CHECK(keys_of(json) == contract);
}

TEST_CASE("JSON of a comparison lists its results in the order asked") {
  RunResult first = sample();
  first.policy = "z";
  RunResult second = sample();
  second.policy = "a";
  const Json json = Json::parse(compare_json({{{}, first}, {{}, second}}));
  CHECK(keys_of(json) == std::vector<std::string>{"results"});
  REQUIRE(json["results"].size() == 2);
  CHECK(json["results"][0]["policy"] == "z");
  CHECK(json["results"][1]["policy"] == "a");
  CHECK(keys_of(json["results"][1]) == contract);
}

TEST_CASE("The field table is what every writer walks") {
  std::vector<std::string> names;
  for (const Field& field : field_table()) {
    names.emplace_back(field.name);
    CHECK_FALSE(std::string(field.meaning).empty());
  }
  CHECK(names == contract);
  CHECK(numeric_field(sample(), "mfu") == 0.25);
  CHECK(numeric_field(sample(), "peak_hbm_bytes") == 100.0);
  CHECK_FALSE(numeric_field(sample(), "policy"));
  CHECK_FALSE(numeric_field(sample(), "nothing"));
  CHECK(std::string(verdict_name(Verdict::hbm_oom)) == "hbm_oom");
}

TEST_CASE("CSV has a header, one row per result and one column per key of a map") {
  RunResult second = sample();
  second.policy = "remat";
  second.hbm_owners = {{"gradients", 5}, {"weights", 60}};
  second.host_owners.clear();
  second.offload_hidden_fraction.reset();
  const RunResult first = sample();
  const std::string text =
      results_csv({{{{"batch.micro", "1"}}, first}, {{{"batch.micro", "2"}}, second}});
  CHECK(text ==
        "batch.micro,scenario,policy,verdict,step_time_s,step_time_low_s,step_time_high_s,"
        "tokens_per_s_per_gpu,model_tflops_per_gpu,hardware_tflops_per_gpu,mfu,peak_hbm_bytes,"
        "hbm_limit_bytes,peak_hbm_moment,hbm_owners.weights,hbm_owners.workspace,"
        "hbm_owners.gradients,peak_host_bytes,host_limit_bytes,host_owners.query_proj,"
        "time.forward_s,time.backward_s,time.recompute_s,time.exposed_offload_s,"
        "time.exposed_collective_s,time.bubble_s,time.optimizer_s,time.other_s,d2h_bytes,"
        "h2d_bytes,offload_hidden_fraction\n"
        "1,demo,offload,fits,2.5,2,3.25,1000,500.5,600,0.25,100,200,attention in layer 3,60,40,,"
        "7,70,7,1.5,1,0,0,0,0,0,0,7,7,0.75\n"
        "2,demo,remat,fits,2.5,2,3.25,1000,500.5,600,0.25,100,200,attention in layer 3,60,,5,"
        "7,70,,1.5,1,0,0,0,0,0,0,7,7,\n");
}

// RFC 4180: a cell with a comma, a quote or a line break stands in quotes, and
// quotes inside are doubled.
TEST_CASE("CSV cells are quoted where they must be") {
  RunResult r = sample();
  r.scenario = "a,b";
  r.policy = "say \"hi\"";
  r.peak_hbm_moment = "two\nlines";
  const std::string text = results_csv({{{}, r}});
  CHECK(text.find("\n\"a,b\",\"say \"\"hi\"\"\",fits,") != std::string::npos);
  CHECK(text.find(",\"two\nlines\",") != std::string::npos);
  CHECK(results_csv({}).empty());
}

TEST_CASE("An absent hidden fraction leaves its column in place when it comes first") {
  RunResult none = sample();
  none.offload_hidden_fraction.reset();
  const RunResult some = sample();
  const std::string text = results_csv({{{}, none}, {{}, some}});
  CHECK(text.find(",offload_hidden_fraction\n") != std::string::npos);
  CHECK(text.ends_with(",0.75\n"));
}

// ---- files ----

TEST_CASE("Output is written whole, and nothing else is left behind") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out.json");
  write_output(path, "first\n");
  CHECK(content(path) == "first\n");
  write_output(path, "second\n");
  CHECK(content(path) == "second\n");
  CHECK(folder.names().size() == 1);
}

TEST_CASE("Behind a symbolic link the target is written, and the link stays") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("below"));
  fs::create_symlink("below/target.txt", folder.path("first"));
  fs::create_symlink("first", folder.path("second"));
  for (const char* text : {"new\n", "again\n"}) { // at first there is no target
    write_output(folder.path("second"), text);
    CHECK(content(folder.path("below/target.txt")) == text);
  }
  CHECK(fs::is_symlink(folder.path("first")));
  CHECK(fs::is_symlink(folder.path("second")));
  CHECK(folder.names().size() == 3);
  fs::create_symlink("loop", folder.path("loop"));
  CHECK(messages_of([&] { write_output(folder.path("loop"), "x"); }) ==
        "cannot write '" + folder.path("loop") + "': Too many levels of symbolic links");
  CHECK(fs::is_symlink(folder.path("loop")));
}

// The file beside the final name cannot be made: a folder has its name.
TEST_CASE("A file that cannot be replaced keeps its content") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out.json");
  write_output(path, "precious\n");
  fs::create_directory(path + "." + std::to_string(getpid()) + ".part");
  CHECK(messages_of([&] { write_output(path, "new\n"); }) ==
        "cannot write '" + path + "': Is a directory");
  CHECK(content(path) == "precious\n");
}

TEST_CASE("Places that cannot be written are reported by name") {
  const TemporaryFolder folder;
  CHECK(messages_of([&] { write_output(folder.path(), "x"); }) ==
        "cannot write '" + folder.path() + "': it is a directory");
  const std::string nowhere = folder.path("no/such/out.json");
  CHECK(messages_of([&] { write_output(nowhere, "x"); }) ==
        "cannot write '" + nowhere + "': No such file or directory");
  CHECK(folder.names().size() == 0);
}

TEST_CASE("A full device is an error and stays a device") {
  if (!fs::is_character_file("/dev/full")) {
    return;
  }
  CHECK(messages_of([] { write_output("/dev/full", "x"); }) ==
        "cannot write '/dev/full': No space left on device");
  CHECK(fs::is_character_file("/dev/full"));
}

// The same file by its name, another spelling, a symbolic link to it or to its folder, and
// a hard link. A file that is not there yet is known by its place.
TEST_CASE("An output that is also an input is refused, whatever links lead to it") {
  const TemporaryFolder folder;
  const std::string input = folder.write("in.jsonl", "precious\n");
  fs::create_symlink(input, folder.path("link"));
  fs::create_directory_symlink(folder.path(), folder.path("here"));
  fs::create_hard_link(input, folder.path("hard"));
  const auto refusal = [](const std::string& output, const std::string& of) {
    return messages_of([&] { check_output_is_no_input(output, {"", "else", of}); });
  };
  for (const std::string name : {"in.jsonl", "./in.jsonl", "link", "here/in.jsonl", "hard"}) {
    const std::string path = folder.path(name);
    CHECK(refusal(path, input) == "'" + path + "' would overwrite its own input | '" + input +
                                      "' is read; write to another file");
    CHECK(refusal(input, path) == "'" + input + "' would overwrite its own input | '" + path +
                                      "' is read; write to another file");
  }
  CHECK_FALSE(refusal(folder.path("new"), folder.path("here/new")).empty());
  for (const std::string& fine : {folder.path("new"), std::string("-"), std::string()}) {
    CHECK(refusal(fine, input).empty());
  }
}

// ---- tables ----

TEST_CASE("A table aligns its columns and ends lines without blanks") {
  TextTable table;
  table.add({"name", "n", "note"});
  table.add_rule();
  table.add({"a", "100", ""});
  table.add({"longer", "7", "x"});
  CHECK(table.render() == "name      n  note\n"
                          "-----------------\n"
                          "a       100\n"
                          "longer    7     x\n");
  CHECK(table.render("  ") == "  name      n  note\n"
                              "  -----------------\n"
                              "  a       100\n"
                              "  longer    7     x\n");
}

TEST_CASE("A table counts letters, not bytes, and can align more columns left") {
  TextTable table;
  table.left_columns = 2;
  table.add({"\xC3\xA4\xC3\xB6", "b", "1"}); // two letters of two bytes each
  table.add({"xyz", "bcd", "10"});
  CHECK(table.render() == "\xC3\xA4\xC3\xB6   b     1\n"
                          "xyz  bcd  10\n");
  CHECK(TextTable().render().empty());
}

// ---- bands ----

// Expected 4 / 2 = 2. The first coefficient moves the ratio to 3.6 / 2 = 1.8 and
// 4.6 / 2 = 2.3, the second to 4 / 2.5 = 1.6 and 4 / 2 = 2; the third is only the
// base's, the fourth only the other's. Low: 2 - sqrt(0.2^2 + 0.4^2), high: 2 + 0.3.
TEST_CASE("The band of a speed-up varies both runs by the same coefficients") {
  RunResult base;
  base.step_time_s = 4;
  base.sensitivities = {{"one", 3.6, 4.6}, {"two", 4, 4}, {"three", 1, 9}};
  RunResult of;
  of.step_time_s = 2;
  of.sensitivities = {{"two", 2.5, 2}, {"one", 2, 2}, {"four", 1, 9}};
  const RatioBand band = speedup_band(base, of);
  CHECK(band.expected == doctest::Approx(2));
  CHECK(band.low == doctest::Approx(2 - std::sqrt(0.04 + 0.16)));
  CHECK(band.high == doctest::Approx(2.3));
}

// What slows both runs alike leaves their ratio alone.
TEST_CASE("A coefficient that both runs feel alike does not widen a speed-up") {
  RunResult base;
  base.step_time_s = 4;
  base.sensitivities = {{"clock", 8, 2}};
  RunResult of;
  of.step_time_s = 2;
  of.sensitivities = {{"clock", 4, 1}};
  const RatioBand band = speedup_band(base, of);
  CHECK(band.low == doctest::Approx(2));
  CHECK(band.high == doctest::Approx(2));
}

TEST_CASE("A published speed-up is the stated one or the ratio of published rates") {
  const Scenario main_job = catalogue("deepseek-v3-gb200");
  REQUIRE(published_speedup(main_job, "offload", "remat"));
  CHECK(*published_speedup(main_job, "offload", "remat") == doctest::Approx(908.2 / 578.3));
  CHECK_FALSE(published_speedup(main_job, "offload", "save"));
  const Scenario dense = catalogue("llama-3.1-405b-gb200");
  CHECK(*published_speedup(dense, "offload", "remat") == doctest::Approx(1.029));
  REQUIRE(published_value(main_job, "remat", "model_tflops_per_gpu") != nullptr);
  CHECK(published_value(main_job, "remat", "mfu") == nullptr);
  CHECK(published_value(main_job, "save", "model_tflops_per_gpu") == nullptr);
}

// ---- explanation ----

// Copies of 134 MB at 2 GB/s take 67 ms, far more than their windows: attention
// waits for the reload, and the next layer for the store.
TEST_CASE("The explanation names what waits for which copy") {
  const Scenario scenario = scenario_from(R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 2}
hardware: {extends: gb200-nvl72, host: {d2h: {rate: "2 GB/s"}, h2d: {rate: "2 GB/s"}}}
gpus: 1
batch: {micro: 1, sequence: 4096}
precision: {weights: bf16, gradients: bf16, master: none, moment1: bf16, moment2: bf16}
runtime: {schedule: loop_bound}
policies:
  offload: {preset: full, tensors: {query_proj: offload}}
  remat: {preset: full}
)");
  const Simulation simulation = run(scenario, "offload");
  const Explanation explanation = explain(simulation);
  REQUIRE(explanation.waits.size() == 3);
  double waited = 0;
  bool for_reload = false;
  for (const WaitGroup& wait : explanation.waits) {
    CHECK(wait.bin == TimeBin::exposed_offload);
    waited += to_seconds(wait.time).count();
    if (wait.before == "attention") {
      CHECK(wait.cause == "reload query_proj");
      CHECK(wait.count == 2);
      for_reload = true;
    } else { // the next layer's first kernel and the head's
      CHECK(wait.cause == "store query_proj");
    }
  }
  CHECK(for_reload);
  CHECK(waited == doctest::Approx(
                      simulation.result.time[static_cast<std::size_t>(TimeBin::exposed_offload)]));
  const std::string text = explanation_text(scenario, simulation, explanation, 10);
  CHECK(text.find("\nWhen the GPU computes nothing, and what it waits for\n") != std::string::npos);
  CHECK(text.find("  reload query_proj  exposed_offload      2  ") != std::string::npos);
  CHECK(text.find("  store query_proj   exposed_offload      1  ") != std::string::npos);
  // The critical sequence has no gap: its groups sum to the step.
  double critical = 0;
  for (const CriticalGroup& group : explanation.critical) {
    critical += to_seconds(group.time).count();
  }
  CHECK(critical == doctest::Approx(simulation.result.step_time_s));
  const Json json = Json::parse(explanation_json(simulation, explanation));
  CHECK(json["waits"].size() == 3);
  CHECK(json["policy"] == "offload");

  const Simulation remat = run(scenario, "remat");
  CHECK(explanation_text(scenario, remat, explain(remat), 10)
            .find("\n  never: the compute lane is always busy\n") != std::string::npos);
}
