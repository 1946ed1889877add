// What a planner would choose by predictions, against measured steps.
#include "results/profiles.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

struct Row {
  std::string policy;
  double step_s, peak_bytes;                     // measured
  double predicted_step_s, predicted_peak_bytes; // by hand
};

std::string line_of(const Row& row) {
  Json json = Json::parse(
      R"({"model": "small", "arch": {"d": 256, "ff": 1024, "hq": 8, "hkv": 2, "hd": 64,
          "layers": 4, "vocab": 32000, "experts": 0}, "batch": 2, "seq": 512, "saved": [],
          "offloaded": [], "latency_hiding_scheduler": true, "pipelined_host_offloading": true,
          "async_compute_limit": 8, "command_buffers": false, "temp_bytes": 1000,
          "host_temp_bytes": 0})");
  json["policy"] = row.policy;
  json["step_s"] = row.step_s;
  json["peak_bytes"] = row.peak_bytes;
  return json.dump() + "\n";
}

// Records as a file says them, with predictions of one's own beside them.
struct Measured {
  std::vector<ProfileRecord> records;
  std::vector<ProfileResult> results;
};

Measured measured(const std::vector<Row>& rows) {
  std::string text;
  Measured all;
  for (const Row& row : rows) {
    text += line_of(row);
    CaseResult step;
    step.predicted = row.predicted_step_s;
    CaseResult peak;
    peak.predicted = row.predicted_peak_bytes;
    all.results.push_back({"no offload", {step, peak}});
  }
  const TemporaryFolder folder;
  all.records = load_profiles(folder.write("steps.jsonl", text));
  return all;
}

PolicyChoices choices_of(const Measured& all) {
  return policy_choices(all.records, all.results);
}

// The largest peak is 1000, so that limits are 500, 600 .. 1000. A larger peak is a faster step;
// predictions are exact.
std::vector<Row> exact() {
  return {{"a", 1.0, 1000, 1.0, 1000},
          {"b", 1.2, 850, 1.2, 850},
          {"c", 1.4, 750, 1.4, 750},
          {"d", 1.5, 650, 1.5, 650},
          {"e", 2.0, 550, 2.0, 550}};
}

const std::string in_group = "small b2 s512 ";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string id(const std::string& policy) {
  return in_group + policy + " streams";
}

} // namespace

// Nothing has a peak of at most 500, so that five limits are left.
TEST_CASE("With exact predictions every choice is the fastest policy that fits") {
  const PolicyChoices all = choices_of(measured(exact()));
  CHECK(all.groups == 1);
  REQUIRE(all.choices.size() == 5);
  const std::vector<std::string> fastest{"e", "d", "c", "b", "a"};
  for (std::size_t i = 0; i < 5; ++i) {
    const PolicyChoice& choice = all.choices[i];
    CHECK(choice.group == "small b2 s512 streams");
    CHECK(choice.limit_bytes == doctest::Approx(600 + 100 * static_cast<double>(i)));
    CHECK(choice.chosen == id(fastest[i]));
    CHECK(choice.fastest == id(fastest[i]));
    CHECK(choice.fits);
    CHECK(choice.regret_percent == 0);
    CHECK(choice.is_right());
  }
  CHECK(choices_text(all) ==
        "\nof 5 choices of a policy, in 1 groups of one shape and one set of switches, under HBM\n"
        "limits of 50 to 100 % of the group's largest peak, 5 are the fastest that fits as "
        "measured\nor within 1.5 % of it; chosen that do not fit as measured: 0; limits that no "
        "policy was\npredicted to fit: 0\nworst regret of those that fit: 0 %\n");
}

// d is predicted faster than b, c and e: it is chosen from 700 on, until a is.
TEST_CASE("A wrong choice has a regret, its measured time over the fastest's") {
  std::vector<Row> rows = exact();
  rows[3].predicted_step_s = 1.1;
  const PolicyChoices all = choices_of(measured(rows));
  REQUIRE(all.choices.size() == 5);
  CHECK(all.choices[1].is_right());
  CHECK(all.choices[2].chosen == id("d"));
  CHECK(all.choices[2].fastest == id("c"));
  CHECK(all.choices[2].fits);
  CHECK(all.choices[2].regret_percent == doctest::Approx(100 * (1.5 / 1.4 - 1)));
  CHECK_FALSE(all.choices[2].is_right());
  CHECK(all.choices[3].regret_percent == doctest::Approx(25)); // 1.5 over b's 1.2
  CHECK(all.choices[4].is_right());
  const std::string text = choices_text(all);
  CHECK(contains(text, "largest peak, 3 are the fastest"));
  CHECK(contains(text, "worst regret of those that fit: 25.00 %, small b2 s512 d streams\n"
                       "  instead of small b2 s512 b streams under 900 B\n"));
}

TEST_CASE("A choice within the noise of measurements is right") {
  std::vector<Row> rows = exact();
  rows[1].step_s = 1.014; // and still predicted to be the slower one
  rows[0].predicted_step_s = 1.3;
  CHECK(choices_of(measured(rows)).choices[4].is_right()); // b, 1.4 % slower than a
  rows[1].step_s = 1.016;
  CHECK_FALSE(choices_of(measured(rows)).choices[4].is_right());
}

// b is predicted to fit under 800, and does not.
TEST_CASE("A choice that does not fit as measured is a miss, however fast") {
  std::vector<Row> rows = exact();
  rows[1].predicted_peak_bytes = 790;
  const PolicyChoices all = choices_of(measured(rows));
  const PolicyChoice& choice = all.choices[2];
  CHECK(choice.chosen == id("b"));
  CHECK(choice.fastest == id("c"));
  CHECK_FALSE(choice.fits);
  CHECK_FALSE(choice.is_right());
  const std::string text = choices_text(all);
  CHECK(contains(text, "chosen that do not fit as measured: 1; "));
  CHECK(contains(text, "worst regret of those that fit: 0 %\n"));
  CHECK(
      contains(text, "\nsmall b2 s512 b streams     small b2 s512 c streams  does not fit  800 B"));
}

// e needs 550 of 600, but is predicted to need 610.
TEST_CASE("A limit that nothing is predicted to fit is a miss") {
  std::vector<Row> rows = exact();
  rows[4].predicted_peak_bytes = 610;
  const PolicyChoices all = choices_of(measured(rows));
  REQUIRE(all.choices.size() == 5);
  CHECK(all.choices[0].chosen.empty());
  CHECK(all.choices[0].fastest == id("e"));
  CHECK_FALSE(all.choices[0].fits);
  CHECK(contains(choices_text(all), "limits that no policy was\npredicted to fit: 1\n"));
  const Json json = Json::parse(profiles_json({}, all));
  REQUIRE(json["choices"].size() == 5);
  CHECK(json["choices"][0]["chosen"].is_null());
  CHECK(json["choices"][0]["regret_percent"].is_null());
  CHECK(
      json["choices"][1].dump() ==
      R"({"group":"small b2 s512 streams","limit_bytes":700.0,"chosen":"small b2 s512 d streams",)"
      R"("fastest":"small b2 s512 d streams","regret_percent":0.0,"fits":true})");
}

TEST_CASE("A shape with four policies is left out, however often they were measured") {
  std::vector<Row> rows = exact();
  rows[4].policy = "d";
  const PolicyChoices all = choices_of(measured(rows));
  CHECK(all.groups == 0);
  CHECK(all.choices.empty());
  CHECK(choices_text(all) ==
        "\nno records of 5 policies of one shape and one set of switches, among which to choose\n");
  CHECK(Json::parse(profiles_json({}, all))["choices"] == Json::array());
}

// a twice: 1.0 and 1.6 s are 1.3, slower than b.
TEST_CASE("A policy that was measured twice counts with its mean time and its largest peak") {
  std::vector<Row> rows = exact();
  rows.push_back({"a", 1.6, 1000, 1.0, 1000});
  const PolicyChoices all = choices_of(measured(rows));
  REQUIRE(all.choices.size() == 5);
  CHECK(all.choices[4].chosen == id("a"));
  CHECK(all.choices[4].fastest == id("b"));
  CHECK(all.choices[4].regret_percent == doctest::Approx(100 * (1.3 / 1.2 - 1)));
  rows.back().peak_bytes = 1100; // limits are shares of 1100 now
  CHECK(choices_of(measured(rows)).choices.back().limit_bytes == 1100);
}

TEST_CASE("Only policies of one shape and one set of switches compete") {
  const auto groups_with = [](const auto& change) {
    Measured all = measured(exact());
    change(all.records[2]);
    return choices_of(all).groups;
  };
  CHECK(groups_with([](ProfileRecord&) {}) == 1);
  CHECK(groups_with([](ProfileRecord& r) { r.model.name = "other"; }) == 0);
  CHECK(groups_with([](ProfileRecord& r) { r.model.layers = 5; }) == 0);
  CHECK(groups_with([](ProfileRecord& r) { r.model.dense.width = 512; }) == 0);
  CHECK(groups_with([](ProfileRecord& r) { r.batch.micro = 1; }) == 0);
  CHECK(groups_with([](ProfileRecord& r) { r.batch.sequence = 1024; }) == 0);
  CHECK(groups_with([](ProfileRecord& r) { r.command_buffers = true; }) == 0);
  CHECK(groups_with([](ProfileRecord& r) { r.pipelined_host_offloading = false; }) == 0);
  CHECK(groups_with([](ProfileRecord& r) { r.latency_hiding_scheduler = false; }) == 0);
  CHECK(groups_with([](ProfileRecord& r) { r.async_compute_limit = 2; }) == 0);
}
