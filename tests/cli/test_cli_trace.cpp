// validate --against of the built program.
#include "tests/cli/cli.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <regex>
#include <string>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const std::string profiles = "results/reference/h200/profiles.jsonl";
const std::string traces = "results/reference/h200/traces/";
const std::string overlap = traces + "llama8b-l8_2_4096_off_mlp_overlap.perfetto.json.gz";

const Arguments measured{"validate", "--profiles", profiles, "--hardware", "h200"};
const Arguments question =
    measured + Arguments{"--record", "llama8b-l8 b2 s4096 off_mlp streams", "--against", overlap};

} // namespace

TEST_CASE("validate --against compares one record with a trace and has no tolerance") {
  const ProgramResult result = ask(question);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(result.out.starts_with("llama8b-l8 b2 s4096 off_mlp streams on h200, against step 2 of 2 "
                               "of\n" +
                               overlap + " (/device:GPU:0, trace format jax)\n"));
  for (const char* row : {"\nmatmul ", "\nattention forward ", "\nattention backward ",
                          "\nHBM-bound ", "\nexposed copies ", "\nidle ", "\nstep ",
                          "\nD2H copies ", "\nH2D copies ", "\n  hidden ", "\n  rate "}) {
    CHECK(contains(result.out, row));
  }
  CHECK(!contains(result.out, "unclassified"));
  CHECK(ask(question + Arguments{"--step", "2"}).out == result.out);
  CHECK(ask(question + Arguments{"--trace-format", "jax"}).out == result.out);
}

// The first step is 7.6 ms longer than the second: two stores change places.
TEST_CASE("validate --against --step --json has the numbers of that step") {
  const auto step_s = [](const std::string& step) {
    const ProgramResult result = ask(question + Arguments{"--step", step, "--json", "-"});
    CHECK(result.exit_code == 0);
    const Json json = Json::parse(result.out);
    CHECK(json["step"].dump() == step);
    CHECK(json["steps"] == 2);
    CHECK(json["classes"].back()["class"] == "step");
    return json["classes"].back()["trace_s"].get<double>();
  };
  CHECK(step_s("1") - step_s("2") == doctest::Approx(0.0076).epsilon(0.01));
}

TEST_CASE("A file of one record needs no --record, and a plain trace is read like a packed one") {
  const TemporaryFolder folder;
  const std::string all = read_text(profiles);
  const std::string one = folder.write("one.jsonl", all.substr(0, all.find('\n') + 1));
  const std::string plain = folder.write(
      "plain.json",
      R"json([{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
{"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": {"name": "Stream #7(Compute)"}},
{"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/host:CPU"}},
{"ph": "X", "pid": 2, "name": "CommonPjRtLoadedExecutable::Execute (jit_f)", "ts": 0, "dur": 1},
{"ph": "X", "pid": 1, "tid": 7, "name": "nvjet_x", "ts": 10, "dur": 5000},
{"ph": "X", "pid": 1, "tid": 7, "name": "what is this", "ts": 5020, "dur": 250}])json");
  const ProgramResult result =
      ask({"validate", "--profiles", one, "--hardware", "h200", "--against", plain});
  CHECK(result.exit_code == 0);
  CHECK(std::regex_search(result.out, std::regex("\nmatmul +5\\.00 ms ")));
  CHECK(contains(result.out, "\nno class of trace format jax\n  0.25 ms  1  what is this\n"));
}

TEST_CASE("validate --against refuses what it cannot use") {
  const TemporaryFolder folder;
  const auto with = [&](const Arguments& more) { return measured + more; };
  check_refused(with({"--against", overlap}),
                "error: a trace is of one step, but there are 91 records\n"
                "      --record says which, as the first column of the report names it: "
                "'llama8b-l8 b2 s4096 full streams'\n");
  check_refused(with({"--against", overlap, "--record", "llama8b-l8 b2 s4096 off_mlp stream"}),
                "error: unknown record 'llama8b-l8 b2 s4096 off_mlp stream'\n"
                "      did you mean 'llama8b-l8 b2 s4096 off_mlp streams'?\n");
  check_refused(question + Arguments{"--step", "3"},
                "error: '" + overlap + "' has 2 steps, so --step must be between 1 and 2, not 3\n");
  check_refused(question + Arguments{"--step=0"},
                "error: '" + overlap + "' has 2 steps, so --step must be between 1 and 2, not 0\n");
  check_refused_with(question + Arguments{"--step", "two"}, "'--step'");
  check_refused_with(question + Arguments{"--trace-format", "jaxx"}, "did you mean 'jax'?\n");
  const std::string record = "llama8b-l8 b1 s4096 full";
  check_refused(with({"--record", record, "--against", folder.path("none.json")}),
                folder.path("none.json") + ": error: cannot open: no such file or directory\n");
  const std::string whole = read_text(overlap);
  const std::string cut = folder.write("cut.json.gz", whole.substr(0, whole.size() / 2));
  check_refused(with({"--record", record, "--against", cut}),
                "error: '" + cut +
                    "' is damaged or cut off: it cannot be unpacked\n"
                    "      a trace of a profiler as JSON, plain or gzip\n");
  check_refused_with(with({"--record", record, "--against", profiles}), "' is not JSON: ");
  const std::string empty = folder.write("empty.json", "[]");
  check_refused_with(with({"--record", record, "--against", empty}),
                     "has no process of a GPU, which is named '/device:GPU:*' (jax)\n");
}

TEST_CASE("Options of a trace go with a trace, and a trace with profiles") {
  check_refused({"validate", "--against", overlap}, "error: --against goes with --profiles\n");
  check_refused(measured + Arguments{"--record", "x"}, "error: --record goes with --against\n");
  check_refused(measured + Arguments{"--step", "1"}, "error: --step goes with --against\n");
  check_refused(measured + Arguments{"--trace-format", "jax"},
                "error: --trace-format goes with --against\n");
}

// Two GPUs of one name, each with 100 us of work, and an annotation that spans 150.
TEST_CASE("A format of one's own names devices, ignores annotations and is shown with both") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("results/trace_formats/own.yaml", R"(kind: trace_format
name: own
source: nowhere
container: chrome_json
device: {process: "GPU*", track: "stream *"}
step: {process: "python", event: "call*"}
classes:
  - {class: ignore, category: "*annotation", events: ["*"]}
  - {class: matmul, events: ["gemm*"]}
)"));
  const std::string trace = folder.write("two.json", R"json([
{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "GPU"}},
{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "GPU"}},
{"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "python"}},
{"ph": "M", "pid": 0, "tid": 7, "name": "thread_name", "args": {"name": "stream 7"}},
{"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": {"name": "stream 7"}},
{"ph": "X", "pid": 9, "tid": 1, "name": "call", "ts": 0, "dur": 5},
{"ph": "X", "pid": 0, "tid": 7, "name": "gemm", "ts": 10, "dur": 100},
{"ph": "X", "pid": 1, "tid": 7, "name": "gemm", "ts": 10, "dur": 100},
{"ph": "X", "pid": 0, "tid": 7, "cat": "gpu_user_annotation", "name": "gemm", "ts": 10, "dur": 150}
])json");
  const Arguments own{"--catalog", folder.path()};
  const ProgramResult result =
      ask(measured + own +
          Arguments{"--record", "llama8b-l8 b2 s4096 off_mlp streams", "--against", trace});
  CHECK(contains(result.out, trace + " (GPU of process 0, trace format own)\n"));
  CHECK(std::regex_search(result.out, std::regex("\nmatmul +0\\.10 ms .* 1, predicted ")));
  CHECK(contains(ask(Arguments{"catalog", "own"} + own).out,
                 "\n  ignore  of category '*annotation':  *\n  matmul  gemm*\n"));
}

// Neither is replaced, by its own name or through a link; nor a file of hardware.
TEST_CASE("validate --json refuses to overwrite what it reads") {
  const TemporaryFolder folder;
  const std::string text = read_text(profiles);
  const std::string own = folder.write("own.jsonl", text.substr(0, text.find('\n') + 1));
  const std::string trace = folder.write("trace.json.gz", read_text(overlap));
  const std::string hardware = folder.write("own.yaml", read_text("hw_models/catalog/h200.yaml"));
  const std::string link = folder.path("link");
  std::filesystem::create_symlink(own, link);
  const auto refused = [](const Arguments& arguments, const std::string& json,
                          const std::string& input) {
    const std::string before = read_text(input);
    check_refused(arguments + Arguments{"--json", json}, "error: '" + json +
                                                             "' would overwrite its own input\n"
                                                             "      '" +
                                                             input +
                                                             "' is read; write to another file\n");
    CHECK(read_text(input) == before);
  };
  const Arguments steps{"validate", "--profiles", own, "--hardware", "h200"};
  refused(steps, own, own);
  refused(steps, link, own);
  refused({"validate", "--profiles", link, "--hardware", "h200"}, own, link);
  refused({"validate", "--profiles", own, "--hardware", hardware}, hardware, hardware);
  refused(steps + Arguments{"--against", trace}, trace, trace);
  refused(steps + Arguments{"--against", trace}, own, own);
  CHECK(std::filesystem::is_symlink(link));
}

TEST_CASE("An option given as an empty text is refused, not left out") {
  for (const char* option : {"--against", "--record", "--trace-format", "--profiles", "--hardware",
                             "--framework", "--cases", "--catalog"}) {
    check_refused({"validate", option, ""},
                  "error: " + std::string(option) + " must not be empty\n");
  }
  check_refused({"compare", gb200, "--base", ""}, "error: --base must not be empty\n");
  check_refused_with(question + Arguments{"--json", ""}, "--json and --csv need a file name");
}
