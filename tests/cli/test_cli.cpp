// The built program as a user meets it: its options, `run`, and where results go.
#include "tests/cli/cli.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const Arguments run_offload{"run", gb200, "--policy", "offload"};
const Arguments run_quickly = run_offload + Arguments{"--no-band"};

const std::map<std::string, std::vector<std::string>> options_of{
    {"run",
     {"--help", "--catalog", "--set", "--policy", "--no-fold", "--quiet", "--jobs", "--no-band",
      "--json", "--csv"}},
    {"compare",
     {"--help", "--catalog", "--set", "--policy", "--no-fold", "--quiet", "--jobs", "--no-band",
      "--json", "--csv", "--axis", "--hardware", "--break-even", "--base"}},
    {"explain",
     {"--help", "--catalog", "--set", "--policy", "--no-fold", "--quiet", "--json", "--top",
      "--faster", "--task", "--rank", "--occurrence", "--jobs"}},
    {"validate",
     {"--help", "--catalog", "--json", "--cases", "--profiles", "--hardware", "--framework",
      "--against", "--record", "--step", "--trace-format"}},
    {"calibrate",
     {"--help", "--catalog", "--json", "--output", "--name", "--base", "--tables", "--source",
      "--quiet"}},
    {"replay", {"--help", "--catalog", "--quiet", "--json", "--top"}},
    {"catalog", {"--help", "--catalog"}},
    {"fields", {"--help", "--catalog"}},
    {"completion", {"--help", "--catalog"}},
    {"man", {"--help", "--catalog"}}};

} // namespace

// ---- Usage ----

TEST_CASE("Without arguments the usage goes to standard error and the exit code is 2") {
  const ProgramResult help = ask({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err.empty());
  CHECK(help.out.starts_with("usage: spillway COMMAND [OPTIONS]\n\n"));
  for (const auto& [command, options] : options_of) {
    CHECK(contains(help.out, "\n  " + command + " "));
  }
  CHECK(contains(help.out, "Exit status: 0 done, 1 the answer is no"));
  for (const char* other : {"help", "-h"}) {
    CHECK(ask({other}).out == help.out);
  }
  check_refused({}, help.out);
}

TEST_CASE("--help of a command lists all of its options and no others") {
  for (const auto& entry : options_of) {
    const std::string& command = entry.first;
    INFO(command);
    const ProgramResult result = ask({command, "--help"});
    CHECK(result.exit_code == 0);
    CHECK(result.out.starts_with("usage: spillway " + command + " "));
    std::vector<std::string> listed;
    const std::regex option("^  (?:-[a-z] \\[ )?(--[a-z-]+)");
    for (const std::string& line : lines_of(result.out)) {
      std::smatch match;
      if (std::regex_search(line, match, option)) {
        listed.push_back(match[1]);
      }
    }
    CHECK(listed == entry.second);
  }
}

TEST_CASE("Unknown commands and options are refused with the nearest name") {
  check_refused({"ru"}, "error: unknown command 'ru'\n      did you mean 'run'?\n");
  check_refused({"frobnicate"}, "error: unknown command 'frobnicate'\n"
                                "      known: run, compare, plan, explain, validate, calibrate, "
                                "replay, infer, catalog, fields, completion, man\n");
  check_refused({"run", gb200, "--polcy", "remat"},
                "error: unknown option '--polcy' of 'run'\n      did you mean '--policy'?\n");
  // Another command's option is not this one's.
  check_refused({"fields", "--cases", "x"},
                "error: unknown option '--cases' of 'fields'\n      known: --help, --catalog\n");
}

TEST_CASE("An abbreviated option is refused, so that a new option breaks no script") {
  check_refused(run_offload + Arguments{"--jso", "-"},
                "error: unknown option '--jso' of 'run'\n      did you mean '--json'?\n");
}

TEST_CASE("The number of arguments is checked") {
  for (const char* command : {"run", "compare", "explain"}) {
    check_refused_with({command}, std::string("error: '") + command +
                                      "' needs a scenario\n      known: deepseek-v3-gb200, ");
  }
  check_refused({"run", gb200, "again"},
                "error: 'run' takes 1 argument, not 2\n      unexpected: again\n");
  check_refused({"fields", "x"}, "error: 'fields' takes 0 arguments, not 1\n      unexpected: x\n");
  check_refused({"run", "--policy"},
                "error: the required argument for option '--policy' is missing ('run')\n"
                "      see spillway run --help\n");
}

TEST_CASE("Numbers of options are read strictly") {
  for (const std::string wrong : {"x", "", "1.5", "-1", "99999999999999999999"}) {
    INFO(wrong);
    check_refused_with(run_quickly + Arguments{"--jobs=" + wrong}, "--jobs");
    for (const std::string option : {"--top", "--jobs", "--faster"}) {
      check_refused_with({"explain", gb200, "--policy", "offload", option + "=" + wrong}, option);
    }
  }
}

TEST_CASE("--json and --csv cannot share standard output") {
  check_refused(run_offload + Arguments{"--json", "-", "--csv", "-"},
                "error: --json and --csv cannot both go to standard output\n");
}

TEST_CASE("A --catalog that is no folder is refused") {
  check_refused({"catalog", "--catalog", "/nonexistent"},
                "error: --catalog: '/nonexistent' is not a folder\n");
}

// ---- run ----

TEST_CASE("run says first what was simulated and whether it fits") {
  const ProgramResult result = ask(run_offload);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const std::vector<std::string> lines = lines_of(result.out);
  REQUIRE(lines.size() > 5);
  CHECK(lines[0] == "DeepSeek-V3 671B on 128 GB200, offload against rematerialization");
  CHECK(contains(lines[1], "128 GPUs = fsdp 16 x expert 8, micro-batch 8 x 4096 tokens"));
  CHECK(lines[3].empty());
  CHECK(lines[4].starts_with("policy offload: fits, "));
}

TEST_CASE("run --json writes every field, in the order of `spillway fields`, and sums add up") {
  const ProgramResult result = ask(run_offload + Arguments{"--json", "-"});
  CHECK(result.exit_code == 0);
  const Json json = Json::parse(result.out);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  CHECK(keys == field_names());
  CHECK(json["scenario"] == gb200);
  CHECK(json["policy"] == "offload");
  CHECK(json["verdict"] == "fits");

  for (const auto& [total, parts] :
       {std::pair("peak_hbm_bytes", "hbm_owners"), std::pair("peak_host_bytes", "host_owners")}) {
    std::int64_t sum = 0;
    for (const auto& [owner, bytes] : json[parts].items()) {
      REQUIRE(bytes.is_number_integer());
      sum += bytes.get<std::int64_t>();
    }
    CHECK(sum == json[total].get<std::int64_t>());
  }
  double time = 0;
  for (const auto& [bin, seconds] : json["time"].items()) {
    time += seconds.get<double>();
  }
  const double step = json["step_time_s"];
  CHECK(std::abs(time - step) < 1e-9);
  CHECK(json["step_time_low_s"] < step);
  CHECK(json["step_time_high_s"] > step);
}

TEST_CASE("run --no-band leaves the expected values alone and says nothing of a band") {
  const Json with = Json::parse(ask(run_offload + Arguments{"--json", "-"}).out);
  Json without = Json::parse(ask(run_quickly + Arguments{"--json", "-"}).out);
  CHECK(without["step_time_low_s"] == without["step_time_s"]);
  CHECK(without["step_time_high_s"] == without["step_time_s"]);
  without["step_time_low_s"] = with["step_time_low_s"];
  without["step_time_high_s"] = with["step_time_high_s"];
  CHECK(without == with);
  CHECK(contains(ask(run_offload).out, " band "));
  // What was not computed must not look as if there were no uncertainty.
  CHECK_FALSE(contains(ask(run_quickly).out, " band "));
}

TEST_CASE("run --csv writes one row under its head") {
  const ProgramResult result = ask(run_quickly + Arguments{"--csv", "-"});
  CHECK(result.exit_code == 0);
  const std::vector<std::string> lines = lines_of(result.out);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("scenario,policy,verdict,step_time_s,"));
  CHECK(lines[1].starts_with("deepseek-v3-gb200,offload,fits,"));
}

TEST_CASE("A policy's name with a comma and quotes is one CSV cell") {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("odd.yaml", "extends: deepseek-v3-gb200\npolicies: {'a,\"b': {preset: full}}\n");
  const ProgramResult result = ask({"run", file, "--policy", "a,\"b", "--no-band", "--csv", "-"});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "\nodd,\"a,\"\"b\",fits,"));
}

TEST_CASE("Files and text come from one run, and the file is what - would have shown") {
  const TemporaryFolder folder;
  const ProgramResult result =
      ask(run_offload + Arguments{"--json", folder.path("a.json"), "--csv", folder.path("a.csv")});
  CHECK(result.exit_code == 0);
  CHECK(result.out == ask(run_offload).out);
  CHECK(read_text(folder.path("a.json")) == ask(run_offload + Arguments{"--json", "-"}).out);
  CHECK(read_text(folder.path("a.csv")) == ask(run_offload + Arguments{"--csv", "-"}).out);
  CHECK(folder.names().size() == 2); // nothing half-written beside them
}

TEST_CASE("Results do not depend on the number of threads or on the run") {
  const Arguments json{"--json", "-"};
  const std::string one = ask(run_offload + json + Arguments{"--jobs", "1"}).out;
  CHECK(ask(run_offload + json + Arguments{"--jobs", "4"}).out == one);
  CHECK(ask(run_offload + json).out == one);
  CHECK(ask(run_offload + json).out == one);
  CHECK(ask(run_offload).out == ask(run_offload + Arguments{"--jobs", "1"}).out);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("Where no more threads can be started, those that there are do the work") {
  // The limit of the stack is also the size of a thread's stack. 2^46 bytes are
  // half of the address space of a process: no second such stack has room.
  ProgramLimits limits;
  limits.before_start = [] {
    struct rlimit stack {};
    ::getrlimit(RLIMIT_STACK, &stack);
    stack.rlim_cur = std::min<rlim_t>(rlim_t{1} << 46U, stack.rlim_max);
    ::setrlimit(RLIMIT_STACK, &stack);
  };
  const ProgramResult result = ask(run_offload + Arguments{"--jobs", "4", "--json", "-"}, limits);
  CHECK(result.exit_code == 0);
  CHECK(result.out == ask(run_offload + Arguments{"--json", "-"}).out);
}
#endif

TEST_CASE("What does not fit exits with 1 and says which limit and what would fit") {
  const Arguments tight = run_offload + Arguments{"--set", "runtime.host_memory_limit=\"64 GB\""};
  const ProgramResult result = ask(tight);
  CHECK(result.exit_code == 1);
  CHECK(result.err.empty());
  CHECK(contains(result.out, "policy offload: host_oom, out of pinned host memory: "));
  CHECK(contains(result.out, " needed, 64 GB there, "));
  CHECK(contains(result.out, "the limit is the setting runtime.host_memory_limit"));

  const ProgramResult json = ask(tight + Arguments{"--json", "-"});
  CHECK(json.exit_code == 1);
  CHECK(Json::parse(json.out)["verdict"] == "host_oom");
  CHECK(Json::parse(json.out)["host_limit_bytes"] == 64'000'000'000);

  // The advice is good: taken, it fits.
  std::smatch advice;
  REQUIRE(std::regex_search(result.out, advice, std::regex("it fits with --set (.*)\"(.*)\"\n")));
  CHECK(ask(run_quickly + Arguments{"--set", advice[1].str() + advice[2].str()}).exit_code == 0);
}

TEST_CASE("Without --policy, run and explain take the first one and say so unless told not to") {
  for (const char* command : {"run", "explain"}) {
    const Arguments question{command, gb200, "--json", "-"};
    const ProgramResult first = ask(question + Arguments{"--policy", "save"});
    CHECK(first.err.empty());
    const ProgramResult remark = ask(question);
    CHECK(remark.err == "policy save of save, remat, offload; --policy picks another\n");
    CHECK(remark.out == first.out);
    CHECK(remark.exit_code == first.exit_code);
    const ProgramResult quiet = ask(question + Arguments{"--quiet"});
    CHECK(quiet.err.empty());
    CHECK(quiet.out == first.out);
  }
  // A scenario with one policy leaves nothing to say.
  const ProgramResult only = ask({"run", gb200, "--no-band", "--set", "published=~", "--set",
                                  "policies={only: {preset: full}}"});
  CHECK(only.exit_code == 0);
  CHECK(only.err.empty());
}

TEST_CASE("run and explain refuse several or unknown policies") {
  for (const std::string command : {"run", "explain"}) {
    check_refused({command, gb200, "--policy", "offload", "--policy", "remat"},
                  "error: '" + command +
                      "' looks at one policy, not at offload, remat\n"
                      "      use `spillway compare` for several\n");
    check_refused({command, gb200, "--policy", "offlaod"},
                  "error: scenario 'deepseek-v3-gb200' has no policy 'offlaod'\n"
                  "      did you mean 'offload'?\n");
  }
}

// ---- Where results go ----

TEST_CASE("A result that cannot be written is an error, and nothing half-written stays") {
  const TemporaryFolder folder;
  const std::string inside = folder.write("file", "");
  const std::string missing = folder.path("missing/a.json");
  const std::string below_file = inside + "/a.json";
  for (const char* option : {"--json", "--csv"}) {
    const auto refused = [&](const std::string& path, const std::string& reason) {
      check_refused(run_quickly + Arguments{option, path},
                    "error: cannot write '" + path + "': " + reason + "\n");
    };
    refused(folder.path(), "it is a directory");
    refused("/dev/full", "No space left on device");
    refused(missing, "No such file or directory");
    refused(below_file, "Not a directory");
    check_refused_with(run_quickly + Arguments{option, ""}, option);
  }
  CHECK(folder.names() == std::vector<std::string>{"file"});
  CHECK(read_text(inside).empty());
}

TEST_CASE("An existing file is replaced as a whole, and kept when the input is wrong") {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.json", std::string(1'000'000, 'x'));
  CHECK(ask({"run", gb200, "--policy", "nope", "--json", file}).exit_code == 2);
  CHECK(read_text(file).size() == 1'000'000);
  CHECK(ask(run_quickly + Arguments{"--json", file}).exit_code == 0);
  CHECK(Json::parse(read_text(file))["policy"] == "offload");
}

TEST_CASE("A full standard output is an error, for results and for help") {
  ProgramLimits full;
  full.stdout_path = "/dev/full";
  for (const Arguments& arguments : {run_quickly, run_quickly + Arguments{"--json", "-"},
                                     Arguments{"fields"}, Arguments{"catalog"}, Arguments{"--help"},
                                     Arguments{"--version"}, Arguments{"run", "--help"}}) {
    const ProgramResult result = ask(arguments, full);
    INFO(arguments.front());
    CHECK(result.exit_code == 2);
    CHECK(result.err == "error: cannot write 'standard output': No space left on device\n");
  }
}
