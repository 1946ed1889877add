// Measured steps, kernel by kernel, beside their predictions.
#include "results/trace_compare.hpp"

#include "tests/support/json_keys.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

constexpr SimTime us(std::int64_t microseconds) {
  return SimTime{microseconds * 1'000'000};
}

double ms(SimTime time) {
  return 1e3 * to_seconds(time).count();
}

DeviceTrace committed(const std::string& name) {
  return load_device_trace("results/reference/h200/traces/" + name + ".perfetto.json.gz",
                           load_trace_formats(Catalog({"."}), ""));
}

Activity made(const std::string& name, ActivityClass kind, std::int64_t start, std::int64_t end) {
  Activity activity;
  activity.name = name;
  activity.kind = kind;
  activity.start = us(start);
  activity.end = us(end);
  return activity;
}

// Trace: products 0..2000 and 4000..6000, a store of 300 MB 2000..8000 of which 2000
// hide, a strange kernel 8500..9000. Predicted: one product 0..4400, the store done by
// 5000, a reload.
TraceComparison small_comparison() {
  TraceComparison c;
  c.record = "one";
  c.hardware = "a card";
  c.file = "a file";
  c.format = "a format";
  c.device = "/gpu:0";
  c.step = 1;
  c.steps = 2;
  std::vector<Activity> trace{made("gemm", ActivityClass::matmul, 0, 2000),
                              made("gemm", ActivityClass::matmul, 4000, 6000),
                              made("DtoH", ActivityClass::store, 2000, 8000),
                              made("strange", ActivityClass::unclassified, 8500, 9000)};
  trace[2].bytes = Bytes{300'000'000};
  std::vector<Activity> predicted{made("product", ActivityClass::matmul, 0, 4400),
                                  made("store", ActivityClass::store, 2000, 5000),
                                  made("reload", ActivityClass::reload, 5000, 6000)};
  predicted[1].bytes = Bytes{300'000'000};
  predicted[2].by_kernel = true;
  c.trace = total(trace);
  c.predicted = total(predicted);
  c.matmul_flops = 2.2e12; // 550 TFLOP/s in 4000 us, 500 in 4400
  c.clock_speed = 1.05;
  return c;
}

} // namespace

// Counts: the kernels that a list of the program's operations gives. Times: the second
// steps, evaluated before by other means and rounded to 0.1 ms (attention both ways;
// copies there with the idle time of the device).
TEST_CASE("The committed traces hold what an independent evaluation found") {
  struct Expected {
    const char* file;
    std::int64_t matmuls, attention_forward, attention_backward;
    double matmul_ms, attention_ms, memory_ms, exposed_and_idle_ms, step_ms;
  };
  for (const Expected& expected : std::vector<Expected>{
           {"llama70b-l3_2_4096_off_qkv", 63, 6, 3, 231.7, 17.4, 45.5, 19.0, 313.6},
           {"llama8b-l8_2_4096_off_mlp_overlap", 155, 16, 8, 150.0, 21.7, 46.2, 70.4, 288.2},
           {"llama8b-l8_2_4096_off_qkv", 163, 16, 8, 178.5, 23.9, 47.0, 30.5, 279.7},
           {"llama8b-l8_2_4096_off_qkv_overlap", 163, 16, 8, 177.2, 23.9, 48.6, 14.6, 264.2},
           {"llama8b-l8_4_4096_full", 195, 16, 8, 383.8, 48.0, 66.2, 0.9, 498.8},
           {"llama8b-l8_4_4096_none", 155, 8, 8, 317.1, 37.9, 96.8, 0.7, 452.4},
           {"llama8b-l8_4_4096_off_mlp", 179, 16, 8, 292.4, 39.0, 58.2, 274.9, 664.4},
           {"llama8b-l8_4_4096_off_qkv", 179, 16, 8, 353.0, 46.2, 63.5, 60.0, 522.5},
           {"moe2k-l8_4_4096_full", 259, 16, 8, 85.8, 23.5, 67.8, 0.9, 177.8},
           {"moe2k-l8_4_4096_off_mlp", 243, 16, 8, 69.5, 18.7, 65.3, 109.3, 262.7}}) {
    CAPTURE(expected.file);
    const DeviceTrace trace = committed(expected.file);
    REQUIRE(trace.steps.size() == 2);
    const StepTotals t = total(trace.steps[1]);
    CHECK(t.of(ActivityClass::matmul).count == expected.matmuls);
    CHECK(t.of(ActivityClass::attention_forward).count == expected.attention_forward);
    CHECK(t.of(ActivityClass::attention_backward).count == expected.attention_backward);
    CHECK(t.of(ActivityClass::unclassified).count == 0);
    CHECK(std::abs(ms(t.of(ActivityClass::matmul).busy) - expected.matmul_ms) < 0.06);
    CHECK(std::abs(ms(t.of(ActivityClass::attention_forward).busy +
                      t.of(ActivityClass::attention_backward).busy) -
                   expected.attention_ms) < 0.06);
    CHECK(std::abs(ms(t.of(ActivityClass::memory).busy) - expected.memory_ms) < 0.06);
    CHECK(std::abs(ms(t.exposed + t.idle) - expected.exposed_and_idle_ms) < 0.06);
    CHECK(std::abs(ms(t.step) - expected.step_ms) < 0.06);
  }
}

// 14 copies of 469,762,048 bytes: 14 of 16, the others by kernels.
TEST_CASE("Copies of a committed trace have their bytes, their rate and the peeled layers") {
  const StepTotals t = total(committed("llama8b-l8_4_4096_off_mlp").steps[1]);
  for (const CopyTotal& copies : {t.stores, t.reloads}) {
    CHECK(copies.count == 16);
    CHECK(copies.sized.count() == std::int64_t{14} * 469'762'048);
    CHECK(copies.bytes_per_second() == doctest::Approx(55.3e9).epsilon(0.002));
    CHECK(copies.hidden_fraction() == doctest::Approx(0.0));
    CHECK(ms(copies.by_kernels) > 17);
  }
}

TEST_CASE("A record is chosen by its name, or is the only one") {
  std::vector<ProfileRecord> records(1);
  records[0].id = "small b1 s512 full";
  CHECK(chosen_record(records, "").id == "small b1 s512 full");
  CHECK(chosen_record(records, "small b1 s512 full").id == "small b1 s512 full");
  records.push_back(records[0]);
  records[1].id = "small b1 s512 off_mlp streams";
  CHECK(chosen_record(records, "small b1 s512 off_mlp streams").id == records[1].id);
  const auto refusal = [&](const std::string& id) {
    return messages_of([&] { static_cast<void>(chosen_record(records, id)); });
  };
  CHECK(refusal("") == "a trace is of one step, but there are 2 records | --record says which, as "
                       "the first column of the report names it: 'small b1 s512 full'");
  CHECK(refusal("small b1 s512 ful") ==
        "unknown record 'small b1 s512 ful' | did you mean 'small b1 s512 full'?");
  CHECK(refusal("else") == "unknown record 'else' | known: small b1 s512 full, small b1 s512 "
                           "off_mlp streams");
}

TEST_CASE("The last step is compared unless another one is asked for") {
  DeviceTrace trace;
  trace.file = "t.json";
  trace.steps.resize(2);
  CHECK(chosen_step(trace, std::nullopt) == 2);
  CHECK(chosen_step(trace, 1) == 1);
  for (const std::int64_t wrong : {0, 3, -1}) {
    CHECK(messages_of([&] { static_cast<void>(chosen_step(trace, wrong)); }) ==
          "'t.json' has 2 steps, so --step must be between 1 and 2, not " + std::to_string(wrong));
  }
  trace.steps.resize(1);
  CHECK(messages_of([&] { static_cast<void>(chosen_step(trace, 2)); }) ==
        "'t.json' has 1 step, so --step must be 1, not 2");
}

// Differences are predicted minus trace. The store hides 2000 of 6000, predicted 2400 of
// 3000; 50 GB/s, predicted 100. Idle: 8000..8500.
TEST_CASE("The report sets classes and copies side by side") {
  CHECK(trace_comparison_text(small_comparison()) ==
        R"(one on a card, against step 1 of 2 of
a file (/gpu:0, trace format a format)

                        trace  predicted  difference
---------------------------------------------------------------------------------------------------
matmul                4.00 ms    4.40 ms    +0.40 ms   +10.0 %  2, predicted 1; 550 and 500 TFLOP/s
attention forward     0.00 ms    0.00 ms    +0.00 ms         -  0 in both
attention backward    0.00 ms    0.00 ms    +0.00 ms         -  0 in both
HBM-bound             0.00 ms    0.00 ms    +0.00 ms         -
unclassified          0.50 ms    0.00 ms    -0.50 ms  -100.0 %
exposed copies        4.00 ms    1.60 ms    -2.40 ms   -60.0 %
idle                  0.50 ms    0.00 ms    -0.50 ms  -100.0 %
step                  9.00 ms    6.00 ms    -3.00 ms   -33.3 %
---------------------------------------------------------------------------------------------------
D2H copies            6.00 ms    3.00 ms    -3.00 ms   -50.0 %  1 in both
  exposed             4.00 ms    0.60 ms    -3.40 ms   -85.0 %
  done by kernels     0.00 ms    0.00 ms    +0.00 ms         -
  hidden               33.3 %     80.0 %
  rate of the engine  50 GB/s   100 GB/s              +100.0 %
---------------------------------------------------------------------------------------------------
H2D copies            0.00 ms    1.00 ms    +1.00 ms         -  0, predicted 1
  exposed             0.00 ms    1.00 ms    +1.00 ms         -
  done by kernels     0.00 ms    1.00 ms    +1.00 ms         -
  hidden                    -      0.0 %
  rate of the engine        -          -

A step is what the device does between two calls of the host, without the gap between steps.
Copies are exposed while no kernel runs. Predicted clock of matmul and attention: 1.050
of the kernel tables'.

no class of trace format a format
  0.50 ms  1  strange
)");
}

TEST_CASE("JSON has the numbers of the report, and every name") {
  const Json json = Json::parse(trace_comparison_json(small_comparison()));
  CHECK(keys_of(json) == std::vector<std::string>{"record", "trace", "trace_format", "device",
                                                  "step", "steps", "predicted_clock_speed",
                                                  "predicted_matmul_flops", "classes", "copies",
                                                  "trace_kernels", "predicted_kernels"});
  CHECK(json["record"] == "one");
  CHECK(json["step"] == 1);
  REQUIRE(json["classes"].size() == 8);
  CHECK(keys_of(json["classes"][0]) == std::vector<std::string>{"class", "trace_s", "predicted_s",
                                                                "difference_percent", "trace_count",
                                                                "predicted_count"});
  CHECK(json["classes"][0]["trace_s"] == 0.004);
  CHECK(json["classes"][0]["predicted_s"] == 0.0044);
  CHECK(json["classes"][0]["difference_percent"].get<double>() == doctest::Approx(10));
  CHECK(json["classes"][0]["trace_count"] == 2);
  CHECK(json["classes"][0]["predicted_count"] == 1);
  CHECK(json["classes"][1]["difference_percent"].is_null());
  std::vector<std::string> names;
  for (const Json& one : json["classes"]) {
    names.push_back(one["class"]);
  }
  CHECK(names == std::vector<std::string>{"matmul", "attention_forward", "attention_backward",
                                          "memory", "unclassified", "exposed_copies", "idle",
                                          "step"});
  CHECK(json["classes"][7]["trace_s"] == 0.009);
  REQUIRE(json["copies"].size() == 2);
  const Json& stores = json["copies"][0];
  CHECK(stores["direction"] == "d2h");
  CHECK(stores["trace_s"] == 0.006);
  CHECK(stores["trace_exposed_s"] == 0.004);
  CHECK(stores["trace_hidden_fraction"].get<double>() == doctest::Approx(1.0 / 3));
  CHECK(stores["predicted_hidden_fraction"].get<double>() == doctest::Approx(0.8));
  CHECK(stores["trace_bytes_per_s"].get<double>() == doctest::Approx(50e9));
  const Json& reloads = json["copies"][1];
  CHECK(reloads["direction"] == "h2d");
  CHECK(reloads["trace_count"] == 0);
  CHECK(reloads["trace_hidden_fraction"].is_null());
  CHECK(reloads["predicted_by_kernels_s"] == 0.001);
  CHECK(reloads["predicted_bytes_per_s"].is_null());
  REQUIRE(json["trace_kernels"].size() == 3);
  CHECK(json["trace_kernels"][0] ==
        Json::parse(R"({"name": "DtoH", "class": "store", "count": 1, "time_s": 0.006})"));
  CHECK(json["trace_kernels"][2]["class"] == "unclassified");
}

// 12 names, "odd 0" the longest; the last two are only counted.
TEST_CASE("Unclassified names are listed, the ten longest of them") {
  TraceComparison c = small_comparison();
  std::vector<Activity> many;
  for (int i = 0; i < 12; ++i) {
    many.push_back(
        made("odd " + std::to_string(i), ActivityClass::unclassified, 100 * i, 100 * i + 90 - i));
  }
  c.trace = total(many);
  const std::string text = trace_comparison_text(c);
  CHECK(text.find("odd 9\n") != std::string::npos);
  CHECK(text.find("odd 10\n") == std::string::npos);
  CHECK(text.ends_with("  and 2 more names\n"));
}

// The second name is cut after 97 of its 2-byte letters.
TEST_CASE("Names of a trace steer no terminal, and are cut between letters") {
  TraceComparison c = small_comparison();
  std::string letters;
  for (int i = 0; i < 101; ++i) {
    letters += "é";
  }
  c.device = "/gpu:\x1b[31m0";
  c.trace = total(std::vector<Activity>{
      made(std::string("red\x1b[31m\nnul\0", 13), ActivityClass::unclassified, 0, 20),
      made(letters, ActivityClass::unclassified, 20, 30)});
  const std::string text = trace_comparison_text(c);
  CHECK(text.find("\na file (/gpu: [31m0, trace format") != std::string::npos);
  CHECK(text.ends_with("  0.02 ms  1  red [31m nul\n  0.01 ms  1  " + letters.substr(0, 194) +
                       "...\n"));
}
