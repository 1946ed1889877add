// Predictions of the committed measured steps: how far off they are, and what is exact.
#include "tests/support/measured_steps.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace spillway;
using Json = nlohmann::json;

namespace {

// Index of step time, peak, temporary and host bytes in ProfileResult::metrics.
enum Index : std::size_t { step_index, peak_index, temp_index, host_index };

const std::vector<ProfileResult>& predicted() {
  static const std::vector<ProfileResult> results = [] {
    const H200 system = h200();
    return check_profiles(measured(), system.device, system.framework);
  }();
  return results;
}

std::int64_t bytes_of(const RunResult& run, const std::string& owner) {
  for (const auto& [name, bytes] : run.hbm_owners) {
    if (name == owner) {
      return bytes;
    }
  }
  return 0;
}

struct ErrorSummary {
  double mean = 0, worst = 0; // of absolute errors, percent
};

ErrorSummary errors_of(const std::vector<ProfileResult>& results, std::size_t metric) {
  ErrorSummary errors;
  for (const ProfileResult& result : results) {
    const double error = std::abs(result.metrics[metric].error_percent);
    errors.mean += error / static_cast<double>(results.size());
    errors.worst = std::max(errors.worst, error);
  }
  return errors;
}

} // namespace

// layers x tokens x width x 2 bytes of bf16, summed over the offloaded tensors. An
// expert layer's gate and up have a row for every expert that takes a token.
TEST_CASE("Host bytes of all 91 records are exact") {
  const std::vector<Json> lines = committed_lines();
  REQUIRE(lines.size() == predicted().size());
  std::size_t with_bytes = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Json& line = lines[i];
    const auto arch = [&](const char* key) { return line["arch"][key].get<std::int64_t>(); };
    const std::int64_t rows = arch("experts") > 0 ? arch("topk") : 1;
    const std::map<std::string, std::int64_t> widths{
        {"layer_input", arch("d")},           {"q", arch("hq") * arch("hd")},
        {"k", arch("hkv") * arch("hd")},      {"v", arch("hkv") * arch("hd")},
        {"context", arch("hq") * arch("hd")}, {"attn_out", arch("d")},
        {"mlp_gate", rows * arch("ff")},      {"mlp_up", rows * arch("ff")}};
    const std::int64_t tokens = line["batch"].get<std::int64_t>() * line["seq"].get<std::int64_t>();
    std::int64_t expected = 0;
    for (const Json& tensor : line["offloaded"]) {
      expected += arch("layers") * tokens * widths.at(tensor) * 2;
    }
    CAPTURE(measured()[i].id);
    CHECK(line["host_temp_bytes"] == expected);
    CHECK(predicted()[i].metrics[host_index].predicted == static_cast<double>(expected));
    CHECK(predicted()[i].metrics[host_index].pass);
    with_bytes += expected > 0 ? 1 : 0;
  }
  CHECK(with_bytes == 53);
}

// fp32 weights and two fp32 moments are 12 bytes a parameter: those that the compiler
// reuses for its outputs. Peak less temporary bytes is what is left.
TEST_CASE("Weights and optimizer state of all 91 records are 12 bytes a parameter") {
  const std::vector<Json> lines = committed_lines();
  REQUIRE(lines.size() == predicted().size());
  const H200 system = h200();
  std::set<std::int64_t> sizes;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const ProfileRecord& record = measured()[i];
    CAPTURE(record.id);
    const auto all = lines[i]["params"].get<std::int64_t>();
    CHECK(lines[i]["alias_bytes"] == 12 * all);
    const std::vector<CaseResult>& metrics = predicted()[i].metrics;
    CHECK(metrics[peak_index].predicted - metrics[temp_index].predicted ==
          static_cast<double>(12 * all));
    if (sizes.insert(all).second) { // a model's first record: 4 and 8 of the 12 bytes
      const Scenario scenario = profile_scenario(record, system.device, system.framework);
      RateCache cache;
      const RunResult run = simulate(scenario, scenario.policies.front(), cache).result;
      CHECK(bytes_of(run, "weights") == 4 * all);
      CHECK(bytes_of(run, "optimizer_state") == 8 * all);
    }
  }
  CHECK(sizes.size() == 3); // models
}

TEST_CASE("A result has the four metrics of its record, in order") {
  REQUIRE(predicted().size() == measured().size());
  const std::vector<std::string> expected{"step_time", "peak_hbm", "temp", "host"};
  const std::vector<double> tolerances{5, 2.5, 10, 0};
  for (std::size_t i = 0; i < predicted().size(); ++i) {
    const ProfileRecord& record = measured()[i];
    const std::vector<double> observed{record.step_s, record.peak_bytes, record.temp_bytes,
                                       record.host_temp_bytes};
    CAPTURE(record.id);
    CHECK(predicted()[i].profile_class == profile_class(record));
    REQUIRE(predicted()[i].metrics.size() == 4);
    for (std::size_t m = 0; m < 4; ++m) {
      const CaseResult& metric = predicted()[i].metrics[m];
      CHECK(metric.given.id == record.id);
      CHECK(metric_name(metric.given.metric) == expected[m]);
      CHECK(metric.given.observed == observed[m]);
      CHECK(metric.given.tolerance_percent == tolerances[m]);
      CHECK(metric.pass == (std::abs(metric.error_percent) <= tolerances[m]));
    }
  }
}

// The same case measured in two processes differs by 0.73 % on average and 1.28 % at most,
// so a mean near 0.7 % is the best that there can be. The bounds are what a user is
// promised; README has the figures.
TEST_CASE("Predictions of the measured steps are as near as promised, in every class") {
  REQUIRE(predicted().size() == 91);
  const ErrorSummary step = errors_of(predicted(), step_index);
  const ErrorSummary peak = errors_of(predicted(), peak_index);
  CAPTURE(step.mean);
  CAPTURE(step.worst);
  CAPTURE(peak.mean);
  CAPTURE(peak.worst);
  CHECK(step.mean < 1.5);
  CHECK(step.worst < 5.0);
  CHECK(peak.mean < 0.6);
  CHECK(peak.worst < 2.5);
  for (const char* profile_class : {"no offload", "serialized", "overlapped"}) {
    CAPTURE(profile_class);
    std::vector<ProfileResult> some;
    std::copy_if(predicted().begin(), predicted().end(), std::back_inserter(some),
                 [&](const ProfileResult& r) { return r.profile_class == profile_class; });
    CHECK(some.size() > 10);
    CHECK(errors_of(some, step_index).mean < 2.0);
  }
}

// Three architectures that no other record has.
TEST_CASE("Predictions of steps that nothing was taken from are as near as promised") {
  const H200 system = h200();
  const std::vector<ProfileRecord> records = load_profiles("results/reference/h200/held-out.jsonl");
  REQUIRE(records.size() == 27);
  for (const ProfileRecord& record : records) {
    CHECK(std::none_of(measured().begin(), measured().end(), [&](const ProfileRecord& other) {
      return other.model.hidden == record.model.hidden && other.model.layers == record.model.layers;
    }));
  }
  const std::vector<ProfileResult> results =
      check_profiles(records, system.device, system.framework);
  const ErrorSummary step = errors_of(results, step_index);
  const ErrorSummary peak = errors_of(results, peak_index);
  CHECK(step.mean < 2.0);
  CHECK(step.worst < 6.0);
  CHECK(peak.mean < 0.6);
  CHECK(peak.worst < 2.5);
  CHECK(errors_of(results, host_index).worst == 0);
}

// 1.5 % is above the 1.28 % by which the same case differs at most between two
// processes. The number of pairs follows from the measured times alone.
TEST_CASE("Policies whose steps differ by more than noise are ordered as measured") {
  const PairOrder order = policy_order(measured(), predicted(), 1.5);
  CHECK(order.pairs == 257);
  CHECK(100 * order.right >= 99 * order.pairs);
}
