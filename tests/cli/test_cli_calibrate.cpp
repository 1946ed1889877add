// calibrate of the built program.
#include "tests/cli/cli.hpp"
#include "tests/cli/small_machine.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const std::string microbench = "results/reference/h200/microbench.jsonl";
const std::string attention = "results/reference/h200/attention.jsonl";
const std::string power = "results/reference/h200/power.jsonl";
const Arguments committed{"calibrate", microbench, attention, power};

bool has_part_files(const TemporaryFolder& folder) {
  const std::vector<std::string> names = folder.names();
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.ends_with(".part"); });
}

} // namespace

// The title of the source says with what it was measured, which no record does.
TEST_CASE("The committed calibration is what the committed measurements give") {
  const TemporaryFolder folder;
  for (const char* name : {"hw_models/tables", "hw_models/calibrated"}) {
    std::filesystem::create_directories(folder.path(name));
  }
  const ProgramResult result = ask(
      committed +
      Arguments{"--name", "h200", "--source",
                "Spillway's own micro-benchmarks on NVIDIA H200 (JAX 0.11.2, PyTorch 2.11.0, CUDA "
                "13)",
                "--tables", folder.path("hw_models/tables"), "-o",
                folder.path("hw_models/calibrated/h200.yaml")});
  CHECK(result.exit_code == 0);
  for (const char* name :
       {"calibrated/h200.yaml", "tables/h200-matmul-bf16.yaml",
        "tables/h200-grouped-matmul-bf16.yaml", "tables/h200-attention-gqa-forward-bf16.yaml",
        "tables/h200-attention-gqa-backward-bf16.yaml"}) {
    INFO(name);
    const std::string file = std::string("hw_models/") + name;
    CHECK(read_text(folder.path(file)) == read_text(file));
  }
}

TEST_CASE("calibrate reports fits, what was dropped, and fit against measurement") {
  const TemporaryFolder folder;
  const ProgramResult result = ask(committed + Arguments{"-o", folder.path("own.yaml")});
  CHECK(result.exit_code == 0);
  CHECK(result.err ==
        folder.path("own.yaml") + " is not a whole machine yet; --base NAME says the rest\n");
  const std::string& text = result.out;
  CHECK(text.starts_with(
      "NVIDIA H200: 238 records in microbench.jsonl, attention.jsonl, power.jsonl\n"));
  CHECK(std::regex_search(text, std::regex("\nhost\\.d2h\\.rate +21 +54\\.74 GB/s +52\\.92 GB/s +"
                                           "55\\.33 GB/s +1\\.34 % +3\\.31 %\n")));
  CHECK(std::regex_search(
      text, std::regex("\nhbm_stream +7  working set of at most 4 times the L2 cache of 62\\.91 "
                       "MB\n")));
  CHECK(std::regex_search(text, std::regex("\nmatmul +117 +114 .* 4\\.92 % +15\\.27 %\n")));
  CHECK(std::regex_search(text, std::regex("\ngemm_8192 +both +1\\.582 ms +0\\.969 ")));
  CHECK(contains(text, "\na scenario needs also: 'context' in 'gpu', "));
  CHECK(contains(text, "\n  --base NAME takes them from one of: a100, b200, gb200-1to1, "));
  // All sizes of a line, ten rows of a table (nine where there are no more).
  std::map<std::string, int> rows;
  bool below = false;
  for (const std::string& line : lines_of(text)) {
    below = below || line.starts_with("fit against measurement");
    for (const char* name : {"hbm_stream", "matmul", "grouped_matmul", "attention forward",
                             "attention backward", "copy d2h", "copy h2d", "copy both ways"}) {
      rows[name] += below && line.starts_with(std::string(name) + "  ") ? 1 : 0;
    }
  }
  CHECK(rows == std::map<std::string, int>{{"hbm_stream", 6},
                                           {"matmul", 10},
                                           {"grouped_matmul", 9},
                                           {"attention forward", 10},
                                           {"attention backward", 10},
                                           {"copy d2h", 21},
                                           {"copy h2d", 21},
                                           {"copy both ways", 21}});
  CHECK(ask(committed + Arguments{"-q", "-o", folder.path("own.yaml")}).err.empty());
}

TEST_CASE("calibrate --json has the same, for programs") {
  const TemporaryFolder folder;
  const std::string file = folder.path("own.yaml");
  const ProgramResult result =
      ask(committed + Arguments{"--base", "h200", "-o", file, "--json", "-"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const Json json = Json::parse(result.out);
  CHECK(json["device"] == "NVIDIA H200");
  CHECK(json["records"] == 238);
  CHECK(json["coefficients"].size() == 14);
  CHECK(json["coefficients"][9]["path"] == "host.d2h.rate");
  CHECK(json["coefficients"][9]["value"].get<double>() == doctest::Approx(54.74e9).epsilon(0.0005));
  CHECK(json["fits"].size() == 8);
  CHECK(json["fits"][1]["name"] == "matmul");
  CHECK(json["fits"][1]["samples"].size() == 114); // all, not only the worst
  CHECK(json["fits"][1]["samples"][0]["sizes"] == Json::array({128, 128, 128}));
  CHECK(json["beside_copies"].size() == 12);
  CHECK(json["not_used"].size() == 3);
  CHECK(json["base"] == "h200");
  CHECK(json["missing"].empty());
  CHECK(json["written"] == Json::array({file}));
  // The base's own tables of the same products are no longer used.
  CHECK(json["replaced"] ==
        Json::array({"2 matmul tables", "1 grouped_matmul table", "5 attention tables"}));
  const auto& kept = json["from_base"];
  CHECK(std::find(kept.begin(), kept.end(), "gpu.matmul_derate") != kept.end());
  CHECK(std::find(kept.begin(), kept.end(), "gpu.hbm_rate") == kept.end());
}

TEST_CASE("A file with a base is a machine that a scenario can name, inline or with tables") {
  const TemporaryFolder folder;
  const std::string inline_file = folder.path("inline.yaml");
  CHECK(ask(committed + Arguments{"--base", "h200", "-o", inline_file}).exit_code == 0);
  std::filesystem::create_directory(folder.path("tables"));
  const std::string with_tables = folder.path("files.yaml");
  CHECK(ask(committed + Arguments{"--name", "inline", "--base", "h200", "--tables",
                                  folder.path("tables"), "-o", with_tables})
            .exit_code == 0);
  CHECK(std::filesystem::exists(folder.path("tables/inline-matmul-bf16.yaml")));
  CHECK(contains(read_text(with_tables), "- \"tables/inline-matmul-bf16.yaml\"\n"));
  const auto answer = [](const std::string& file) {
    return ask({"run", "deepseek-v3-h200", "--policy", "remat", "--no-band", "--set",
                "hardware=" + file, "--json", "-"});
  };
  const ProgramResult one = answer(inline_file);
  CHECK(one.err.empty());
  CHECK(one.exit_code <= 1);
  CHECK(one.out == answer(with_tables).out);
  // What stays from the base keeps its own source.
  const std::string text = read_text(inline_file);
  CHECK(contains(text, "\nextends: \"h200\"\n"));
  CHECK(contains(text, "\n  own-2:\n    title: \"micro-benchmarks on one NVIDIA H200\"\n"));
  // A file as base is found from where the new one stands.
  std::filesystem::create_directory(folder.path("below"));
  const std::string below = folder.path("below/again.yaml");
  CHECK(
      ask(committed + Arguments{"--base", "hw_models/catalog/h200.yaml", "-o", below}).exit_code ==
      0);
  CHECK(contains(read_text(below), "/hw_models/catalog/h200.yaml\"\n"));
  CHECK(answer(below).exit_code == one.exit_code);
  CHECK_FALSE(has_part_files(folder));
}

TEST_CASE("A calibration may extend another one, and each number keeps its source") {
  const TemporaryFolder folder;
  const std::string first = folder.path("first.yaml");
  const std::string second = folder.path("second.yaml");
  CHECK(ask(committed + Arguments{"--base", "h200", "--source", "One", "-o", first}).exit_code ==
        0);
  const std::string copies = folder.write("copies.jsonl", small_machine);
  CHECK(ask({"calibrate", copies, "--base", first, "--source", "Two", "-o", second}).exit_code ==
        0);
  CHECK(contains(read_text(second), "\nextends: \"" + first + "\"\n"));
  const Json json = Json::parse(ask({"run", "deepseek-v3-h200", "--policy", "remat", "--set",
                                     "hardware=" + second, "--json", "-"})
                                    .out);
  std::map<std::string, std::string> sources;
  for (const Json& line : json["assumptions"]) {
    sources[line["what"]] = line["source"];
  }
  CHECK(sources["hardware.gpu.hbm_rate"] == "One");
  CHECK(sources["hardware.host.d2h.rate"] == "Two");
}

TEST_CASE("A table beside the hardware file is named by a path") {
  const TemporaryFolder folder;
  const std::string file = folder.path("own.yaml");
  CHECK(ask(committed + Arguments{"--base", "h200", "--tables", folder.path(), "-o", file})
            .exit_code == 0);
  CHECK(contains(read_text(file), "- \"./own-matmul-bf16.yaml\"\n"));
  CHECK(ask({"run", "deepseek-v3-h200", "--policy", "remat", "--no-band", "--set",
             "hardware=" + file})
            .exit_code <= 1);
}

TEST_CASE("Wrong options of calibrate are refused") {
  const TemporaryFolder folder;
  const std::string out = folder.path("own.yaml");
  check_refused({"calibrate", "-o", out},
                "error: 'calibrate' needs measurements\n      files of JSON lines\n");
  check_refused(committed, "error: 'calibrate' needs --output: the hardware file to write\n"
                           "      for example -o own.yaml\n");
  check_refused(committed + Arguments{"-o", "own.json"},
                "error: --output: 'own.json' does not end in .yaml\n"
                "      for example -o own.yaml\n");
  check_refused(committed + Arguments{"-o", out, "--tables", folder.path("none")},
                "error: --tables: '" + folder.path("none") + "' is not a folder\n");
  check_refused(committed + Arguments{"-o", out, "--name", "a/b"},
                "error: 'a/b' is no name of a hardware\n"
                "      --name takes letters, digits, '-', '_' and '.'\n");
  check_refused(committed + Arguments{"-o", out, "--base", "h20"},
                "error: unknown hardware 'h20'\n      did you mean 'h200'?\n");
  check_refused(committed + Arguments{"-o", folder.path("none/own.yaml")},
                "error: cannot write '" + folder.path("none/own.yaml") +
                    "': No such file or directory\n");
  CHECK(folder.names().empty());
}

TEST_CASE("Bad measurements are refused with their line, and nothing is written") {
  const TemporaryFolder folder;
  const std::string out = folder.path("out.yaml");
  const std::string bad = folder.write(
      "bad.jsonl", "{\"kind\": \"device\", \"name\": \"Own\", \"total\": 8000, \"l2\": 50}\n"
                   "{\"kind\": \"lunch\", \"s\": 1}\n"
                   "{\"kind\": \"launch\", \"s\": -1}\n");
  check_refused({"calibrate", bad, "-o", out},
                bad +
                    ":2:2: error: unknown kind 'lunch'\n"
                    "    2 | {\"kind\": \"lunch\", \"s\": 1}\n"
                    "      |  ^ did you mean 'launch'?\n" +
                    bad +
                    ":3:20: error: 's' must be a time between 1e-9 and 1e6 seconds, not -1\n"
                    "    3 | {\"kind\": \"launch\", \"s\": -1}\n"
                    "      |                    ^\n");
  const std::string sparse =
      folder.write("sparse.jsonl", small_machine.substr(0, small_machine.rfind("{\"kind")));
  CHECK(ask({"calibrate", sparse, "-o", out}).exit_code == 0);
  std::filesystem::remove(out);
  const std::string twice = small_machine + "{\"kind\": \"copy\", \"bytes\": 16000000, \"d2h_s\": "
                                            "0.0004, \"h2d_s\": 0.000404}\n";
  const std::string differs = folder.write("differs.jsonl", twice);
  check_refused_with({"calibrate", differs, "-o", out},
                     differs + ":7:1: error: this copy d2h takes 400 us, but the same on " +
                         differs + ":5 323 us\n");
  CHECK_FALSE(std::filesystem::exists(out));
  check_refused_with({"calibrate", folder.path("missing.jsonl"), "-o", out},
                     "error: cannot open: no such file or directory\n");
}
