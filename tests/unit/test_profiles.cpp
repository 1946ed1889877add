// Measured training steps: reading them, and what they become.
#include "results/profiles.hpp"
#include "tests/support/measured_steps.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace spillway;
using Json = nlohmann::json;

namespace {

// A record with everything in it, on one line.
const std::string good_record =
    R"({"model": "small", "arch": {"d": 256, "ff": 1024, "hq": 8, "hkv": 2, "hd": 64, "layers": 4, )"
    R"("vocab": 32000, "experts": 0}, "batch": 2, "seq": 512, "policy": "mixed", "saved": ["q"], )"
    R"("offloaded": ["mlp_gate"], "latency_hiding_scheduler": true, )"
    R"("pipelined_host_offloading": true, "async_compute_limit": 8, "command_buffers": false, )"
    R"("step_s": 0.25, "temp_bytes": 1000, "host_temp_bytes": 500, "peak_bytes": 3000})";

std::string record_with(const std::string& from, const std::string& to) {
  return replaced(good_record, from, to);
}

std::vector<ProfileRecord> load_text(const std::string& text) {
  const TemporaryFolder folder;
  return load_profiles(folder.write("steps.jsonl", text));
}

ProfileRecord one(const std::string& text) {
  const std::vector<ProfileRecord> records = load_text(text);
  REQUIRE(records.size() == 1);
  return records.front();
}

// "steps.jsonl:line:column: message" per complaint about a file of this text.
std::string complaints(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("steps.jsonl", text);
  std::string all;
  try {
    static_cast<void>(load_profiles(path));
  } catch (const InputError& error) {
    for (const Diagnostic& found : error.diagnostics()) {
      REQUIRE(found.place.source);
      CHECK(found.place.source->name == path);
      CHECK(found.hint.empty());
      all += "steps.jsonl:" + std::to_string(found.place.line) + ":" +
             std::to_string(found.place.column) + ": " + found.message + "\n";
    }
  }
  return all;
}

std::string refusal(const std::filesystem::path& path) {
  try {
    static_cast<void>(load_profiles(path));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// The complaint about one record in which `from` became `to`.
void check_complaint(const std::string& from, const std::string& to, const std::string& message) {
  CAPTURE(to);
  CHECK(complaints(record_with(from, to) + "\n") == "steps.jsonl:1:1: " + message + "\n");
}

// A record of the little that policy_order looks at, and its prediction.
struct Pairing {
  std::vector<ProfileRecord> records;
  std::vector<ProfileResult> results;
  ProfileRecord& add(const std::string& policy, double step_s, double predicted_s) {
    ProfileRecord record;
    record.model.name = "small";
    record.batch.micro = 1;
    record.batch.sequence = 512;
    record.policy = policy;
    record.step_s = step_s;
    records.push_back(record);
    CaseResult step;
    step.predicted = predicted_s;
    results.push_back({"no offload", {step}});
    return records.back();
  }
};

} // namespace

// ---- Reading ----

TEST_CASE("All 91 committed records load, with what their lines say") {
  const std::vector<Json> lines = committed_lines();
  REQUIRE(lines.size() == 91);
  REQUIRE(measured().size() == 91);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CAPTURE(i);
    const Json& line = lines[i];
    const ProfileRecord& record = measured()[i];
    CHECK(record.model.name == line["model"]);
    CHECK(record.policy == line["policy"]);
    CHECK(record.model.hidden == line["arch"]["d"]);
    CHECK(record.model.layers == line["arch"]["layers"]);
    CHECK(record.model.vocabulary == line["arch"]["vocab"]);
    CHECK(record.model.experts == line["arch"]["experts"]);
    const bool dense = line["arch"]["experts"] == 0;
    CHECK((dense ? record.model.dense.width : record.model.expert.width) == line["arch"]["ff"]);
    CHECK(record.model.dense_layers == (dense ? record.model.layers : 0));
    CHECK(record.batch.micro == line["batch"]);
    CHECK(record.batch.sequence == line["seq"]);
    CHECK(record.keeps_everything == line["saved"].is_null());
    CHECK(record.offloads == !line["offloaded"].empty());
    CHECK(record.step_s == line["step_s"]);
    CHECK(record.peak_bytes == line["peak_bytes"]);
    CHECK(record.temp_bytes == line["temp_bytes"]);
    CHECK(record.host_temp_bytes == line["host_temp_bytes"]);
    CHECK(record.id.starts_with(record.model.name + " b" + std::to_string(record.batch.micro) +
                                " s" + std::to_string(record.batch.sequence) + " " +
                                record.policy));
  }
}

TEST_CASE("The name of a record says its shape, its policy and unusual switches") {
  CHECK(one(good_record).id == "small b2 s512 mixed streams");
  CHECK(one(record_with(R"("command_buffers": false)", R"("command_buffers": true)")).id ==
        "small b2 s512 mixed");
  std::string all =
      record_with(R"("pipelined_host_offloading": true)", R"("pipelined_host_offloading": false)");
  all =
      replaced(all, R"("latency_hiding_scheduler": true)", R"("latency_hiding_scheduler": false)");
  all = replaced(all, R"("async_compute_limit": 8)", R"("async_compute_limit": 2)");
  CHECK(one(all).id == "small b2 s512 mixed streams unrotated no-lhs limit-2");
}

TEST_CASE("Empty lines, CRLF and a missing last newline are no errors") {
  CHECK(load_text("\n" + good_record + "\r\n \t\r\n" + good_record).size() == 2);
}

TEST_CASE("A line that is no JSON object is reported with file and line") {
  for (const char* text : {"{", "nonsense", "{\"model\": }", "{} {}", "{\"seq\": 1e999}"}) {
    CAPTURE(text);
    CHECK(complaints(text) == "steps.jsonl:1:1: this line is not JSON\n");
  }
  for (const char* text : {"[]", "3", "null", "\"text\""}) {
    CAPTURE(text);
    CHECK(complaints(text) == "steps.jsonl:1:1: a record must be a JSON object\n");
  }
}

TEST_CASE("Each field that is missing is named") {
  Json record = Json::parse(good_record);
  for (const auto& item : record.items()) {
    const std::string key = item.key();
    CAPTURE(key);
    Json less = record;
    less.erase(key);
    CHECK(complaints(less.dump()) == "steps.jsonl:1:1: missing field '" + key + "'\n");
  }
  for (const auto& item : record["arch"].items()) {
    const std::string key = item.key();
    CAPTURE(key);
    Json less = record;
    less["arch"].erase(key);
    CHECK(complaints(less.dump()) == "steps.jsonl:1:1: missing field '" + key + "'\n");
  }
  // Expert layers say as well how many experts take a token.
  record["arch"]["experts"] = 8;
  CHECK(complaints(record.dump()) == "steps.jsonl:1:1: missing field 'topk'\n");
}

TEST_CASE("A field of another type is reported with its value") {
  check_complaint(R"("batch": 2)", R"("batch": "2")",
                  "'batch' must be a whole number between 1 and 65536, not \"2\"");
  check_complaint(R"("batch": 2)", R"("batch": 2.5)",
                  "'batch' must be a whole number between 1 and 65536, not 2.5");
  check_complaint(R"("step_s": 0.25)", R"("step_s": "0.25")",
                  "'step_s' must be a number of at least 0, not \"0.25\"");
  check_complaint(R"("command_buffers": false)", R"("command_buffers": 0)",
                  "'command_buffers' must be true or false, not 0");
  check_complaint(R"("policy": "mixed")", R"("policy": 7)", "'policy' must be text, not 7");
  check_complaint(R"(["q"])", R"("q")", "'saved' must be a list of tensor names");
  check_complaint(R"(["mlp_gate"])", "null", "'offloaded' must be a list of tensor names");
}

TEST_CASE("A number out of its range is reported with the range") {
  check_complaint(R"("batch": 2)", R"("batch": 0)",
                  "'batch' must be a whole number between 1 and 65536, not 0");
  check_complaint(R"("seq": 512)", R"("seq": 18446744073709551615)",
                  "'seq' must be a whole number between 1 and 16777216, not 18446744073709551615");
  check_complaint(R"("layers": 4)", R"("layers": 1001)",
                  "'layers' must be a whole number between 1 and 1000, not 1001");
  // No more key and value heads than query heads.
  check_complaint(R"("hkv": 2)", R"("hkv": 9)",
                  "'hkv' must be a whole number between 1 and 8, not 9");
  check_complaint(R"("experts": 0)", R"("experts": 4, "topk": 5)",
                  "'topk' must be a whole number between 1 and 4, not 5");
  check_complaint(R"("peak_bytes": 3000)", R"("peak_bytes": -1)",
                  "'peak_bytes' must be a number of at least 0, not -1");
}

TEST_CASE("An unknown tensor is reported with the nearest name, or with all of them") {
  check_complaint(R"(["mlp_gate"])", R"(["mlp_gat"])",
                  "unknown tensor 'mlp_gat' in 'offloaded'; did you mean 'mlp_gate'?");
  const std::string known = "known: layer_input, q, k, v, context, attn_out, mlp_gate, mlp_up";
  check_complaint(R"(["q"])", R"(["frobnicator"])",
                  "unknown tensor 'frobnicator' in 'saved'; " + known);
  check_complaint(R"(["q"])", "[17]", "unknown tensor '17' in 'saved'; " + known);
}

TEST_CASE("A record that says something twice, or is too deep, is refused") {
  check_complaint(R"("seq": 512)", R"("seq": 512, "seq": 1024)", "field \"seq\" is given twice");
  check_complaint(R"("seq": 512)", "\"seq\": " + std::string(100'000, '['),
                  "nested more than 64 levels deep");
}

TEST_CASE("One run reports the errors of all lines") {
  const std::string text = good_record + "\n" + record_with(R"("batch": 2)", R"("batch": 0)") +
                           "\n\nnonsense\n" + record_with(R"(["q"])", R"(["contxt"])") + "\n";
  CHECK(complaints(text) ==
        "steps.jsonl:2:1: 'batch' must be a whole number between 1 and 65536, not 0\n"
        "steps.jsonl:4:1: this line is not JSON\n"
        "steps.jsonl:5:1: unknown tensor 'contxt' in 'saved'; did you mean 'context'?\n");
}

TEST_CASE("An error shows file, line and the line itself") {
  const TemporaryFolder folder;
  const std::string path = folder.write("steps.jsonl", "\n{\"model\": 3}\n");
  CHECK(refusal(path) == path + ":2:1: error: 'model' must be text, not 3\n"
                                "    2 | {\"model\": 3}\n"
                                "      | ^");
}

TEST_CASE("A file without records, or that is none, is refused by name") {
  const TemporaryFolder folder;
  for (const char* text : {"", "\n \n"}) {
    const std::string path = folder.write("steps.jsonl", text);
    CHECK(refusal(path) == path + ": error: no records\n      a file of JSON lines");
  }
  const std::string missing = folder.path("missing.jsonl");
  CHECK(refusal(missing) == missing + ": error: cannot open: no such file or directory");
  CHECK(refusal(folder.path()) == folder.path() + ": error: is a directory, not a file");
}

// ---- What a record becomes ----

TEST_CASE("A record's class says how its copies ran") {
  CHECK(profile_class(one(good_record)) == "overlapped");
  CHECK(profile_class(one(record_with(R"("command_buffers": false)",
                                      R"("command_buffers": true)"))) == "serialized");
  CHECK(profile_class(one(record_with(R"(["mlp_gate"])", "[]"))) == "no offload");
  std::map<std::string, int> classes;
  for (const ProfileRecord& record : measured()) {
    ++classes[profile_class(record)];
  }
  CHECK(classes ==
        std::map<std::string, int>{{"no offload", 38}, {"overlapped", 18}, {"serialized", 35}});
}

TEST_CASE("Names become MaxText's, other ones for the products of experts") {
  using Fates = std::map<std::string, Fate, std::less<>>;
  std::string all = record_with(R"(["q"])", R"(["layer_input", "q", "k", "v"])");
  all = replaced(all, R"(["mlp_gate"])", R"(["context", "attn_out", "mlp_gate", "mlp_up"])");
  Fates expected{
      {"decoder_layer_input", Fate::keep}, {"query_proj", Fate::keep}, {"key_proj", Fate::keep},
      {"value_proj", Fate::keep},          {"context", Fate::offload}, {"out_proj", Fate::offload},
      {"mlpwi_0", Fate::offload},          {"mlpwi_1", Fate::offload}};
  CHECK(one(all).fates == expected);
  expected.erase("mlpwi_0");
  expected.erase("mlpwi_1");
  expected.emplace("moe_mlpwi_0", Fate::offload);
  expected.emplace("moe_mlpwi_1", Fate::offload);
  CHECK(one(replaced(all, R"("experts": 0)", R"("experts": 4, "topk": 2)")).fates == expected);
}

TEST_CASE("Saved null is preset none, a list is preset full with that list") {
  const H200 system = h200();
  const auto policy = [&](const std::string& record) {
    const Scenario scenario = profile_scenario(one(record), system.device, system.framework);
    REQUIRE(scenario.policies.size() == 1);
    return scenario.policies.front();
  };
  const PolicySpec none =
      policy(replaced(record_with(R"(["q"])", "null"), R"(["mlp_gate"])", "[]"));
  CHECK(none.preset == Preset::none);
  CHECK(none.tensors.empty());
  const PolicySpec full = policy(replaced(record_with(R"(["q"])", "[]"), R"(["mlp_gate"])", "[]"));
  CHECK(full.preset == Preset::full);
  CHECK(full.tensors.empty());
  const PolicySpec mixed = policy(good_record);
  CHECK(mixed.preset == Preset::full);
  CHECK(mixed.name == "mixed");
  CHECK(mixed.tensors == std::map<std::string, Fate, std::less<>>{{"query_proj", Fate::keep},
                                                                  {"mlpwi_0", Fate::offload}});
}

TEST_CASE("The switches of a record decide the schedule of its copies") {
  const H200 system = h200();
  struct Case {
    const char *rotated, *captured;
    CopySchedule schedule;
  };
  for (const Case& c : {Case{"true", "true", CopySchedule::serialized},
                        Case{"false", "true", CopySchedule::serialized},
                        Case{"true", "false", CopySchedule::pipelined},
                        Case{"false", "false", CopySchedule::loop_bound}}) {
    CAPTURE(c.rotated);
    CAPTURE(c.captured);
    std::string text = record_with(R"("pipelined_host_offloading": true)",
                                   std::string(R"("pipelined_host_offloading": )") + c.rotated);
    text = replaced(text, R"("command_buffers": false)",
                    std::string(R"("command_buffers": )") + c.captured);
    text = replaced(text, R"("async_compute_limit": 8)", R"("async_compute_limit": 3)");
    const Scenario scenario = profile_scenario(one(text), system.device, system.framework);
    CHECK(scenario.runtime.schedule == c.schedule);
    CHECK(scenario.runtime.rotated == (std::string(c.rotated) == "true"));
    CHECK(scenario.runtime.async_compute_limit == 3);
    CHECK(scenario.parallel.gpus == 1);
  }
}

// ---- Pairs of policies, and records as a whole ----

// a and b differ by 2 %, a and c by 1 %, b and c by 0.99 %.
TEST_CASE("Only policies further apart than the threshold make a pair") {
  Pairing pairing;
  pairing.add("a", 1.00, 2.0);
  pairing.add("b", 1.02, 2.1);
  pairing.add("c", 1.01, 1.9);
  const PairOrder some = policy_order(pairing.records, pairing.results, 1.5);
  CHECK(some.pairs == 1);
  CHECK(some.right == 1);
  // All three: c is predicted fastest, which is wrong against a alone.
  const PairOrder all = policy_order(pairing.records, pairing.results, 0.5);
  CHECK(all.pairs == 3);
  CHECK(all.right == 2);
  // A tie orders nothing.
  pairing.results[1].metrics[0].predicted = 2.0;
  CHECK(policy_order(pairing.records, pairing.results, 1.5).right == 0);
}

TEST_CASE("Only policies of one shape and one set of switches make a pair") {
  const auto pairs_with = [](const auto& change) {
    Pairing pairing;
    pairing.add("a", 1.0, 1.0);
    change(pairing.add("b", 2.0, 2.0));
    return policy_order(pairing.records, pairing.results, 1.5).pairs;
  };
  CHECK(pairs_with([](ProfileRecord&) {}) == 1);
  CHECK(pairs_with([](ProfileRecord& r) { r.policy = "a"; }) == 0);
  CHECK(pairs_with([](ProfileRecord& r) { r.model.name = "other"; }) == 0);
  CHECK(pairs_with([](ProfileRecord& r) { r.batch.micro = 2; }) == 0);
  CHECK(pairs_with([](ProfileRecord& r) { r.batch.sequence = 1024; }) == 0);
  CHECK(pairs_with([](ProfileRecord& r) { r.command_buffers = false; }) == 0);
  CHECK(pairs_with([](ProfileRecord& r) { r.pipelined_host_offloading = false; }) == 0);
  CHECK(pairs_with([](ProfileRecord& r) { r.latency_hiding_scheduler = false; }) == 0);
  CHECK(pairs_with([](ProfileRecord& r) { r.async_compute_limit = 2; }) == 0);
}

// What each field allows alone can still contradict another.
TEST_CASE("Records that contradict themselves are refused with the reason") {
  const auto reason = [](const std::string& from, const std::string& to) {
    std::ifstream file("results/reference/h200/profiles.jsonl");
    std::string line;
    std::getline(file, line);
    const std::size_t at = line.find(from);
    REQUIRE(at != std::string::npos);
    line.replace(at, from.size(), to);
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / "spillway-contradiction.jsonl";
    std::ofstream(path) << line << '\n';
    std::string message;
    try {
      static_cast<void>(load_profiles(path));
    } catch (const InputError& error) {
      message = error.diagnostics().front().message;
    }
    std::filesystem::remove(path);
    return message;
  };
  CHECK(reason("\"hkv\": 8", "\"hkv\": 5") == "'hkv' must divide 'hq'");
  CHECK(reason("\"saved\": []", "\"saved\": [\"q\", \"q\"]") ==
        "'q' is both saved and offloaded, or named twice");
  CHECK(reason("\"saved\": [], \"offloaded\": []", "\"saved\": [\"q\"], \"offloaded\": [\"q\"]") ==
        "'q' is both saved and offloaded, or named twice");
  CHECK(reason("\"saved\": [], \"offloaded\": []", "\"saved\": null, \"offloaded\": [\"q\"]") ==
        "'saved: null' keeps everything, so 'offloaded' must be empty");
  CHECK(reason("\"arch\": {\"d\": 4096", "\"arch\": {\"d\": 10000000") ==
        "these sizes are too large to simulate");
  CHECK(reason("\"experts\": 0", "\"experts\": 7, \"topk\": 3") ==
        "the routed rows cannot be divided evenly over the experts");
  CHECK(reason("\"model\": \"llama8b-l8\"", "\"model\": \"a\\nb\"") ==
        "'model' must not hold control characters");
  CHECK(reason("\"arch\": {", "\"arch\": 3, \"other\": {") == "'arch' must be an object");
}

TEST_CASE("Records of one case measured twice have different ids") {
  const std::vector<ProfileRecord> records = load_profiles("results/reference/h200/profiles.jsonl");
  std::set<std::string> ids;
  for (const ProfileRecord& record : records) {
    ids.insert(record.id);
  }
  CHECK(ids.size() == records.size());
}
