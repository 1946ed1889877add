// Micro-benchmark records: what is read from them and what is refused.
#include "hw_models/calibration/measurements.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;

namespace {

const std::string device =
    R"({"kind": "device", "name": "Own", "total": 80000000000, "l2": 50000000})";
const std::string gemm =
    R"({"kind": "gemm", "dtype": "bf16", "m": 512, "n": 2048, "k": 1024, "s": 1e-5})";
const std::string batched =
    R"({"kind": "batched_gemm", "dtype": "bf16", "b": 8, "m": 512, "n": 2048, "k": 1024, "s": 1e-4})";
const std::string attention =
    R"({"kind": "attention", "dtype": "bf16", "causal": true, "batch": 2, "seq": 4096, )"
    R"("heads": 32, "kv_heads": 8, "head_dim": 128, "fwd_s": 5e-4, "fwd_bwd_s": 2e-3})";
const std::string stream = R"({"kind": "hbm_stream", "bytes_each_way": 1000000, "s": 1e-6})";
const std::string copy =
    R"({"kind": "copy", "bytes": 1000000, "d2h_s": 2e-5, "h2d_s": 4e-5, "both_s": 5e-5})";
const std::string launch = R"({"kind": "launch", "s": 3e-6})";
const std::string beside =
    R"({"kind": "interference", "work": "w", "copies": "both", "s": 0.1, "d2h_GBps": 5, "h2d_GBps": 4})";

Measurements load(const std::string& text) {
  const TemporaryFolder folder;
  return load_measurements({folder.write("m.jsonl", text)});
}

// "line:column: message | hint" per complaint about a file of this text.
std::string complaints(const std::string& text) {
  const TemporaryFolder folder;
  try {
    static_cast<void>(load_measurements({folder.write("m.jsonl", text)}));
  } catch (const InputError& error) {
    Diagnostics all;
    for (const Diagnostic& found : error.diagnostics()) {
      if (found.place.source) {
        CHECK(found.place.source->name == folder.path("m.jsonl"));
      }
      all.add(found.place, found.message, found.hint);
    }
    return report_text(all);
  }
  return "";
}

// The complaint about a record in which `from` became `to`; its column apart.
void check_complaint(const std::string& record, const std::string& from, const std::string& to,
                     const std::string& said) {
  const std::string text = complaints(device + "\n" + replaced(record, from, to) + "\n");
  INFO(text);
  const std::size_t column = text.find(':') + 1;
  CHECK(text.starts_with("2:"));
  CHECK(text.substr(text.find(':', column) + 2) == said);
}

} // namespace

TEST_CASE("Every kind of record is read into base units") {
  const Measurements m = load(device + "\n\n" + gemm + "\n" + batched + "\n" + attention + "\n" +
                              stream + "\r\n" + copy + "\n" + launch + "\n" + beside);
  CHECK(m.files == std::vector<std::string>{"m.jsonl"});
  CHECK(m.records == 8);
  CHECK(m.device.name == "Own");
  CHECK(m.device.total == 80'000'000'000);
  CHECK(m.device.l2 == 50'000'000);
  // The record's n counts tokens, which is m in a table.
  REQUIRE(m.matmul.size() == 1);
  CHECK(m.matmul[0].shape == Shape{2048, 512, 1024});
  CHECK(m.matmul[0].work == 2.0 * 512 * 2048 * 1024);
  CHECK(m.matmul[0].seconds == 1e-5);
  CHECK(m.matmul[0].place.line == 3);
  CHECK(m.grouped_matmul[0].shape == Shape{8, 2048, 512, 1024});
  CHECK(m.grouped_matmul[0].work == 8 * m.matmul[0].work);
  CHECK(m.attention_forward[0].shape == Shape{2, 32, 8, 4096, 128, 128});
  // batch heads seq^2 (qk + v): half of the square of two products
  CHECK(m.attention_forward[0].work == 2.0 * 32 * 4096 * 4096 * 256);
  CHECK(m.attention_forward[0].seconds == 5e-4);
  CHECK(m.attention_backward[0].work == 2.5 * m.attention_forward[0].work);
  CHECK(m.attention_backward[0].seconds == doctest::Approx(1.5e-3));
  CHECK(m.stream[0].work == 2e6);
  CHECK(m.d2h[0].work == 1e6);
  CHECK(m.d2h[0].seconds == 2e-5);
  CHECK(m.h2d[0].seconds == 4e-5);
  CHECK(m.duplex[0].work == 2e6);
  CHECK(m.duplex[0].seconds == 5e-5);
  CHECK(m.launch[0].seconds == 3e-6);
  CHECK(m.interference[0].d2h_rate == 5e9);
  CHECK(m.interference[0].h2d_rate == 4e9);
  CHECK(m.dropped.empty());
}

TEST_CASE("Records of several files are one set, and the same device may repeat") {
  const TemporaryFolder folder;
  const Measurements m = load_measurements(
      {folder.write("a.jsonl", gemm + "\n"), folder.write("b.jsonl", device + "\n" + gemm + "\n"),
       folder.write("c.jsonl", replaced(device, "}", ", \"free\": 7}"))});
  CHECK(m.matmul.size() == 2);
  CHECK(m.files == std::vector<std::string>{"a.jsonl", "b.jsonl", "c.jsonl"});
}

const std::string power =
    R"({"kind": "power", "work": "gemm", "m": 512, "n": 2048, "k": 1024, "tflops": 600, )"
    R"("power_w": 690, "limit_w": 700, "sm_clock_mhz": 1500, "max_sm_clock_mhz": 1980})";
const std::string duty =
    R"({"kind": "duty", "filler": "d2h", "m": 512, "n": 2048, "k": 1024, "gemm_s": 0.02, )"
    R"("filler_s": 0.01, "tflops": 700, "power_w": 690, "limit_w": 700, "sm_clock_mhz": 1700, )"
    R"("max_sm_clock_mhz": 1980})";

TEST_CASE("Power records and duty cycles are read into base units") {
  const Measurements m = load(device + "\n" + power + "\n" + duty + "\n" +
                              R"({"kind": "power", "work": "d2h", "power_w": 130, "limit_w": 700, )"
                              R"("sm_clock_mhz": 1980, "max_sm_clock_mhz": 1980})");
  REQUIRE(m.power.size() == 2);
  CHECK(m.power[0].work == "gemm");
  CHECK(m.power[0].shape == Shape{2048, 512, 1024}); // as of a gemm record
  CHECK(m.power[0].rate == 600e12);
  CHECK(m.power[0].board.power == 690);
  CHECK(m.power[0].board.limit == 700);
  CHECK(m.power[0].board.clock == 1500);
  CHECK(m.power[0].board.highest_clock == 1980);
  CHECK(m.power[1].rate == 0);
  REQUIRE(m.duty.size() == 1);
  CHECK(m.duty[0].shape == m.power[0].shape);
  CHECK(m.duty[0].matmul_s == 0.02);
  CHECK(m.duty[0].filler_s == 0.01);
  CHECK(m.duty[0].rate == 700e12);
}

TEST_CASE("Impossible power records are refused") {
  check_complaint(power, "\"gemm\"", "\"gem\"",
                  "unknown value 'gem' for 'work' | did you mean 'gemm'?");
  check_complaint(power, "690", "0", "'power_w' must be greater than 0 and at most 100000, not 0");
  check_complaint(power, "1500", "1990", "'sm_clock_mhz' must not exceed 'max_sm_clock_mhz'");
  check_complaint(power, "\"tflops\": 600, ", "", "missing field 'tflops'");
  check_complaint(duty, "\"d2h\"", "\"nvlink\"",
                  "unknown value 'nvlink' for 'filler' | known: d2h, h2d, hbm");
  check_complaint(duty, "0.01", "-1",
                  "'filler_s' must be a time between 1e-9 and 1e6 seconds, not -1");
}

TEST_CASE("Records without a use are counted with the reason") {
  const Measurements m =
      load(device + "\n" + R"({"kind": "pin"})" + "\n" + R"({"kind": "transient", "watts": 1})" +
           "\n" + R"({"kind": "transient"})" + "\n" + replaced(gemm, "bf16", "fp8") + "\n" +
           replaced(attention, "true", "false"));
  CHECK(m.matmul.empty());
  CHECK(m.attention_forward.empty());
  REQUIRE(m.dropped.size() == 4);
  CHECK(m.dropped[0].kind == "pin");
  CHECK(m.dropped[1].kind == "transient");
  CHECK(m.dropped[1].records == 2);
  CHECK(m.dropped[1].reason == "how fast the clock follows is no part of the rule");
  CHECK(m.dropped[2].reason == "data type fp8: only bf16 has tables");
  CHECK(m.dropped[3].reason == "not causal: tables count half of the square");
}

TEST_CASE("Copies both ways are optional") {
  const Measurements m = load(device + "\n" + replaced(copy, ", \"both_s\": 5e-5", ""));
  CHECK(m.d2h.size() == 1);
  CHECK(m.duplex.empty());
}

TEST_CASE("A line that is no record is refused, and all of them are named") {
  CHECK(complaints(device + "\nnope\n{\"kind\": \"launch\", \"s\": NaN}\n[]\n3\n{}\n") ==
        "2:1: this line is not JSON\n"
        "3:1: this line is not JSON\n"
        "4:1: a record must be a JSON object\n"
        "5:1: a record must be a JSON object\n"
        "6:1: missing field 'kind'");
}

TEST_CASE("An unknown kind is refused with the nearest one") {
  CHECK(complaints(device + "\n" + replaced(gemm, "\"gemm\"", "\"gem\"")) ==
        "2:2: unknown kind 'gem' | did you mean 'gemm'?");
  CHECK(complaints(device + "\n{\"kind\": \"bandwidth\"}") ==
        "2:2: unknown kind 'bandwidth' | known: device, gemm, batched_gemm, attention, hbm_stream, "
        "copy, launch, interference, pin, power, duty, transient");
}

TEST_CASE("Missing and impossible fields are refused") {
  check_complaint(gemm, ", \"s\": 1e-5", "", "missing field 's'");
  check_complaint(copy, "\"h2d_s\": 4e-5, ", "", "missing field 'h2d_s'");
  const std::string sizes = "'m' must be a whole number between 1 and 10000000, not ";
  for (const char* wrong :
       {"0", "-4", "2.5", "\"512\"", "10000001", "18446744073709551615", "null"}) {
    check_complaint(gemm, "\"m\": 512", std::string("\"m\": ") + wrong, sizes + wrong);
  }
  const std::string time = "'s' must be a time between 1e-9 and 1e6 seconds, not ";
  for (const char* wrong : {"0", "-3e-06", "1e-10", "1000000.0"}) {
    check_complaint(launch, "3e-6", wrong, time + wrong);
  }
  check_complaint(launch, "3e-6", "\"fast\"", "'s' must be a number, not \"fast\"");
  check_complaint(launch, "3e-6", "1e999", "this line is not JSON");
  check_complaint(attention, "true", "1", "'causal' must be true or false, not 1");
  check_complaint(attention, "\"kv_heads\": 8", "\"kv_heads\": 7",
                  "'kv_heads' must divide 'heads'");
  check_complaint(attention, "2e-3", "5e-4", "'fwd_bwd_s' must be greater than 'fwd_s'");
  check_complaint(gemm, "\"bf16\"", "16", "'dtype' must be text, not 16");
  check_complaint(gemm, "\"bf16\"", "\"\"", "'dtype' must be text, not \"\"");
  check_complaint(device, "Own", "O\\u001bwn", "'name' must not hold control characters");
  check_complaint(device, "50000000", "80000000000", "'l2' must be smaller than 'total'");
}

TEST_CASE("A value of any depth or length is refused with a short message") {
  const std::string sizes = "'m' must be a whole number between 1 and 10000000, not ";
  check_complaint(gemm, "\"m\": 512", "\"m\": " + std::string(63, '[') + std::string(63, ']'),
                  sizes + "a list");
  check_complaint(gemm, "\"m\": 512", "\"m\": {\"a\": {}}", sizes + "a map");
  // It is refused where it is too deep, whatever follows: that costs no stack.
  for (const std::size_t depth : {std::size_t{64}, std::size_t{200'000}}) {
    CHECK(complaints(replaced(gemm, "\"m\": 512", "\"m\": " + std::string(depth, '['))) ==
          "1:1: nested more than 64 levels deep");
  }
  // 60 bytes with the dots; a character is kept whole.
  check_complaint(launch, "3e-6", '"' + std::string(100'000, 'x') + '"',
                  "'s' must be a number, not \"" + std::string(56, 'x') + "...");
  std::string wide;
  for (int i = 0; i < 1000; ++i) {
    wide += "\u00e9"; // two bytes
  }
  check_complaint(launch, "3e-6", '"' + wide + '"',
                  "'s' must be a number, not \"" + wide.substr(0, 56) + "...");
  const std::string longer = "' must not be longer than 200 characters";
  check_complaint(gemm, "bf16", std::string(100'000, 'x'), "'dtype" + longer);
  check_complaint(launch, "\"launch\"", '"' + std::string(201, 'x') + '"', "'kind" + longer);
}

TEST_CASE("A field that is given twice is refused") {
  check_complaint(launch, "3e-6", "3e-6, \"s\": 4e-6", "field \"s\" is given twice");
  check_complaint(launch, "3e-6", "3e-6, \"note\": {\"a\": 1, \"a\": 1}",
                  "field \"a\" is given twice");
  // The same in different objects is not the same field.
  CHECK(complaints(device + "\n" +
                   replaced(launch, "3e-6", "3e-6, \"x\": {\"s\": [{\"s\": 1}, {\"s\": 2}]}")) ==
        "");
}

TEST_CASE("A file that is given twice is refused, however it is spelled") {
  const TemporaryFolder folder;
  const std::string file = folder.write("m.jsonl", device + "\n" + launch);
  std::filesystem::create_symlink("m.jsonl", folder.path("link.jsonl"));
  for (const char* again : {"m.jsonl", "./m.jsonl", "link.jsonl"}) {
    CHECK(messages_of([&] {
            static_cast<void>(load_measurements({file, folder.path(again)}));
          }) ==
          "'" + folder.path(again) + "' is given twice | each of its records would count twice");
  }
  CHECK(load_measurements({file, folder.write("n.jsonl", launch)}).launch.size() == 2);
}

TEST_CASE("Copies beside work are refused where their rates make no sense") {
  check_complaint(beside, "both", "bth", "unknown value 'bth' for 'copies' | did you mean 'both'?");
  check_complaint(beside, "both", "d2h", "'h2d_GBps' must be 0 where no such copy runs, not 4");
  check_complaint(beside, ": 5", ": 0", "'d2h_GBps' must be a rate greater than 0, not 0");
}

// 2 x 512 x 2048 x 1024 flops in 10 us are 214.7 TFLOP/s; 1 MB in 20 us are 50 GB/s.
TEST_CASE("A rate that contradicts the record's own time is refused, one that is rounded is not") {
  const auto with = [](const std::string& record, const std::string& field) {
    return complaints(device + "\n" + replaced(record, "}", ", " + field + "}"));
  };
  CHECK(with(gemm, "\"tflops\": 213") == "");
  CHECK(with(gemm, "\"tflops\": 430") == "2:78: 'tflops' is 430, but the sizes and 's' say 214.75");
  CHECK(with(copy, "\"d2h_GBps\": 50") == "");
  CHECK(with(copy, "\"d2h_GBps\": 0.05")
            .ends_with("'d2h_GBps' is 0.05, but the sizes and 'd2h_s' say 50"));
  CHECK(with(copy, "\"both_GBps_each\": 40")
            .ends_with("'both_GBps_each' is 40, but the sizes and 'both_s' say 20"));
  CHECK(with(stream, "\"GBps\": 1000").ends_with("'GBps' is 1000, but the sizes and 's' say 2000"));
  CHECK(with(attention, "\"bwd_tflops\": 1").find("'bwd_tflops' is 1, ") != std::string::npos);
}

TEST_CASE("Two devices that differ are refused") {
  CHECK(complaints(device + "\n" + device) == "");
  for (const auto& [from, to] :
       {std::pair("Own", "Other"), std::pair(": 8", ": 9"), std::pair(": 5", ": 4")}) {
    const std::string text = complaints(device + "\n" + replaced(device, from, to));
    CHECK(text.starts_with("2:1: another device than on "));
    CHECK(text.ends_with("m.jsonl:1 | calibrate one machine at a time"));
  }
}

TEST_CASE("Measurements without records or without a device are refused") {
  CHECK(complaints("\n  \n") == "0:0: no records | a file of JSON lines");
  CHECK(complaints("") == "0:0: no records | a file of JSON lines");
  CHECK(complaints(gemm) ==
        "0:0: no record of kind 'device' in the measurements | it names the machine and says how "
        "large its memory and its L2 cache are");
  const TemporaryFolder folder;
  CHECK(messages_of([&] { static_cast<void>(load_measurements({folder.path("none.jsonl")})); }) ==
        "cannot open: no such file or directory");
}

TEST_CASE("A complaint points at its field") {
  CHECK(complaints(device + "\n" + replaced(gemm, "1e-5", "0")) ==
        "2:67: 's' must be a time between 1e-9 and 1e6 seconds, not 0");
}
