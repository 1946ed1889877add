// compare --break-even: from which value on a policy is the faster one, and what limits it.
#include "tests/cli/cli.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const std::string link_keys = "hardware.host.d2h.rate+hardware.host.h2d.rate";
const Arguments two_policies{"compare", gb200, "--policy", "remat", "--policy", "offload"};

Arguments sweep(const std::string& text) {
  return two_policies + Arguments{"--break-even", text};
}

Json found_by(const Arguments& arguments) {
  return Json::parse(ask(arguments + Arguments{"--json", "-"}).out)["break_even"];
}

// Step times of both policies with both rates at `number` GB/s.
Json compared_at(double number, const Arguments& more = {}) {
  const std::string value = std::to_string(number) + " GB/s";
  return Json::parse(ask(two_policies + more +
                         Arguments{"--set", "hardware.host.d2h.rate=" + value, "--set",
                                   "hardware.host.h2d.rate=" + value, "--json", "-"})
                         .out)["results"];
}

double gain_at(double number) { // seconds that offload saves
  const Json results = compared_at(number, {"--no-band"});
  return results[0]["step_time_s"].get<double>() - results[1]["step_time_s"].get<double>();
}

const Arguments usual = sweep(link_keys + "=50 GB/s,120 GB/s,180 GB/s,400 GB/s");
const Arguments quick = usual + Arguments{"--no-band"};

} // namespace

TEST_CASE("At the break-even value both policies take the same time") {
  const Json all = found_by(quick);
  REQUIRE(all.size() == 1);
  const Json& found = all[0];
  CHECK(found["path"] == link_keys);
  CHECK(found["unit"] == "GB/s");
  CHECK(found["base"] == "remat");
  CHECK(found["policy"] == "offload");
  REQUIRE(found["crossings"].size() == 1);
  CHECK(found["crossings"][0]["faster_above"] == true);
  CHECK_FALSE(found["crossings"][0].contains("low"));
  const double at = found["crossings"][0]["value"];
  CHECK(at > 120);
  CHECK(at < 180);
  CHECK(gain_at(at * 0.998) < 0);
  CHECK(gain_at(at * 1.002) > 0);
}

TEST_CASE("The points of a break-even search are what compare says there") {
  const Json points = found_by(quick)[0]["points"];
  REQUIRE(points.size() == 4);
  const Json results = compared_at(120, {"--no-band"});
  CHECK(points[1]["value"] == 120);
  CHECK(points[1]["base_step_time_s"] == results[0]["step_time_s"]);
  CHECK(points[1]["step_time_s"] == results[1]["step_time_s"]);
  CHECK(points[1]["exposed_offload_s"] == results[1]["time"]["exposed_offload_s"]);
  CHECK(points[1]["verdict"] == "fits");
  // The link helps where it is slow, and not at all where memory of the CPU is slower.
  CHECK(points[0]["faster"].contains("D2H link"));
  CHECK_FALSE(points[3]["faster"].contains("D2H link"));
  CHECK(points[3]["faster"].contains("CPU memory"));
}

TEST_CASE("With a band, break-even has a low and a high value") {
  const Json found = found_by(usual)[0];
  const Json& crossing = found["crossings"][0];
  const double from = crossing["low"];
  CHECK(from < crossing["value"]);
  CHECK(crossing["high"].is_null()); // the low end of the band stays below 1
  CHECK(found["points"][3]["speedup_low"] < 1);
  const ProgramResult result = ask(usual);
  CHECK(contains(result.out, " .. beyond 400 GB/s); above, it is faster\n"));
}

TEST_CASE("A band that is wider than what is swept is told from no band") {
  const Arguments narrow = sweep("hardware.host.d2h.rate+hardware.host.h2d.rate+"
                                 "hardware.host.peeled_copy_rate=155 GB/s, 165 GB/s");
  const std::string at_160 = "\noffload takes as long as remat at 160";
  const std::string text = ask(narrow).out;
  CHECK(contains(text, at_160));
  CHECK(contains(text, " GB/s (low and high: below 155 GB/s .. beyond 165 GB/s); above, "));
  const Json with = found_by(narrow)[0]["crossings"][0];
  CHECK(with["low"].is_null());
  CHECK(with["high"].is_null());
  const std::string bare = ask(narrow + Arguments{"--no-band"}).out;
  CHECK(contains(bare, at_160));
  CHECK_FALSE(contains(bare, "low and high"));
  const Json without = found_by(narrow + Arguments{"--no-band"})[0]["crossings"][0];
  CHECK_FALSE(without.contains("low"));
  CHECK_FALSE(without.contains("high"));
}

TEST_CASE("The text says where, and what limits beyond") {
  const ProgramResult result = ask(quick);
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "\n" + link_keys + "\n"));
  CHECK(contains(result.out, "\nvalue "));
  CHECK(contains(result.out, "\n50 GB/s "));
  CHECK(contains(result.out, "\noffload takes as long as remat at 1"));
  CHECK(contains(result.out, "; above, it is faster\n"));
  CHECK(contains(result.out, "\nWhat limits offload at 400 GB/s\n  a step waits for backward "));
  CHECK(contains(result.out, "\n    query rotary waits "));
  CHECK(contains(result.out, " is lost to sharing CPU memory\n"));
  CHECK(contains(result.out, "\n  no change: D2H link, H2D link, "));
}

TEST_CASE("What is beyond the break-even is what explain says at the last value") {
  const Json beyond = found_by(quick)[0]["beyond"];
  const Json explained = Json::parse(
      ask({"explain", gb200, "--policy", "offload", "--set", "hardware.host.d2h.rate=400 GB/s",
           "--set", "hardware.host.h2d.rate=400 GB/s", "--json", "-"})
          .out);
  REQUIRE_FALSE(beyond["waits"].empty());
  for (std::size_t i = 0; i < beyond["waits"].size(); ++i) {
    CHECK(beyond["waits"][i]["seconds"] == explained["waits"][i]["seconds"]);
    CHECK(beyond["waits"][i]["waits_for"] == explained["waits"][i]["waits_for"]);
  }
}

TEST_CASE("A sweep that never meets says so, and one that loses above, too") {
  CHECK(contains(ask(sweep(link_keys + "=20 GB/s,40 GB/s") + Arguments{"--no-band"}).out,
                 "\noffload is faster than remat at no value\n"));
  CHECK(contains(ask(sweep(link_keys + "=300 GB/s,400 GB/s") + Arguments{"--no-band"}).out,
                 "\noffload is faster than remat at every value\n"));
  // Faster products make recomputing cheap, and leave copies less time to hide in.
  const Json found = found_by(sweep("hardware.gpu.matmul_derate=0.5,0.75,1.0") +
                              Arguments{"--no-band", "--set", "hardware.host.d2h.rate=175 GB/s"});
  CHECK(found[0]["unit"] == "");
  REQUIRE(found[0]["crossings"].size() == 1);
  CHECK(found[0]["crossings"][0]["faster_above"] == false);
}

TEST_CASE("Every policy is searched for against --base") {
  const Arguments all{"compare",
                      gb200,
                      "--no-band",
                      "--base",
                      "remat",
                      "--break-even",
                      link_keys + "=50 GB/s,400 GB/s"};
  const Json found = found_by(all);
  REQUIRE(found.size() == 2);
  CHECK(found[0]["policy"] == "save");
  CHECK(contains(ask(all).out, "\nsave does not fit: out of HBM: "));
  CHECK(found[1]["policy"] == "offload");
  CHECK(found[1]["base"] == "remat");
}

TEST_CASE("A break-even search that cannot be made is refused") {
  const std::string example = "      for example --break-even 'hardware.host.d2h.rate+"
                              "hardware.host.h2d.rate=25 GB/s,50 GB/s'\n";
  for (const char* text : {"batch.micro", "=1,2", "a+=1,2", "+a=1,2"}) {
    check_refused(sweep(text), std::string("error: --break-even '") + text +
                                   "' is not PATH[+PATH...]=V1,V2,...\n" + example);
  }
  for (const char* values : {"", "1 GB/s", "2 GB/s,1 GB/s", "1 GB/s,2 TB/s", "1 GB/s,1 GB/s", "0,1",
                             "-1,1", "x,y", "1,,2", "nan,inf"}) {
    check_refused(sweep(std::string("a=") + values),
                  std::string("error: --break-even needs two or more positive numbers in one "
                              "unit, ascending, not '") +
                      values + "'\n" + example);
  }
  const auto alone = [&](const char* option, const char* value) {
    check_refused(quick + Arguments{option, value},
                  std::string("error: --break-even varies one thing; leave ") + option + " out\n");
  };
  alone("--axis", "batch.micro=1,2");
  alone("--hardware", "h200");
  alone("--csv", "-");
  check_refused(quick + Arguments{"--no-fold"},
                "error: --break-even varies one thing; leave --no-fold out\n");
  check_refused(quick + Arguments{"--base", "offlod"},
                "error: --base 'offlod' is not among the compared policies\n"
                "      did you mean 'offload'?\n");
  check_refused(sweep("batch.micro=1,2,4,8"),
                "error: --break-even needs a key that takes fractions: 'micro' must be an integer, "
                "not '1.5'\n"
                "      compare at whole numbers with --axis\n");
  check_refused(
      {"compare", gb200, "--policy", "remat", "--break-even", link_keys + "=1 GB/s,2 GB/s"},
      "error: --break-even compares policies, and there is only one\n"
      "      name another one with --policy\n");
  check_refused_with(sweep("hardware.host.d2h.rtae=1 GB/s,2 GB/s"), "did you mean 'rate'?");
}
