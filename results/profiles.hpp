// Measured training steps, one JSON object a line, against predictions.
//
// A record says what was run (architecture, batch, what was saved and offloaded,
// the XLA switches) and what was measured: step time, peak and temporary device
// bytes, pinned host bytes. It becomes a scenario of one GPU and goes through the
// ordinary pipeline. Field meanings stand beside the committed
// records, in results/reference.
#pragma once

#include "results/validation.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace spillway {

struct ProfileRecord {
  std::string id; // model, batch, sequence, policy, switches; " #2" when measured again
  std::string policy;
  ModelSpec model;
  BatchSpec batch;
  std::map<std::string, Fate, std::less<>> fates; // by MaxText name
  bool keeps_everything = false;                  // no checkpoint at all
  bool offloads = false;
  bool latency_hiding_scheduler = true;
  bool pipelined_host_offloading = true;
  bool command_buffers = true;
  std::int64_t async_compute_limit = 8;
  double step_s = 0, peak_bytes = 0, temp_bytes = 0, host_temp_bytes = 0;
};

// Throws InputError with file and line of every record that cannot be read.
[[nodiscard]] std::vector<ProfileRecord> load_profiles(const std::filesystem::path& path);

// The one-GPU scenario of a record, and its policy.
[[nodiscard]] Scenario profile_scenario(const ProfileRecord& record, const Device& device,
                                        const FrameworkSpec& framework);

// How copies ran: "no offload", "serialized" or "overlapped".
[[nodiscard]] std::string profile_class(const ProfileRecord& record);

// Model, batch, sequence and unusual switches: what stays while policies compete.
[[nodiscard]] std::string profile_group(const ProfileRecord& record);
// Whether all but the policy is the same, the sizes of the model included.
[[nodiscard]] bool same_group(const ProfileRecord& a, const ProfileRecord& b);

struct ProfileResult {
  std::string profile_class;
  std::vector<CaseResult> metrics; // step_time, peak_hbm, temp, host
};
[[nodiscard]] std::vector<ProfileResult> check_profiles(const std::vector<ProfileRecord>& records,
                                                        const Device& device,
                                                        const FrameworkSpec& framework);

// Times that differ by no more than this say nothing about which policy is faster: more than
// two runs of one case were seen to differ by.
inline constexpr double timing_noise_percent = 1.5;

// Of pairs of policies of one shape and switches whose measured times differ by
// more than `apart_percent`: how many the prediction orders the same way.
struct PairOrder {
  std::size_t pairs = 0;
  std::size_t right = 0;
};
[[nodiscard]] PairOrder policy_order(const std::vector<ProfileRecord>& records,
                                     const std::vector<ProfileResult>& results,
                                     double apart_percent);

// What a planner would choose by these predictions under a limit on HBM: of the policies of a
// group whose predicted peak fits, the one with the smallest predicted step time. It is held
// against the fastest as measured of those whose measured peak fits.
struct PolicyChoice {
  std::string group;
  double limit_bytes = 0;    // on the peak as records count it
  std::string chosen;        // id of its first record; empty: nothing is predicted to fit
  std::string fastest;       // id of its first record
  bool fits = false;         // the chosen one, as measured
  double regret_percent = 0; // its measured time over the fastest's; means nothing unless it fits
  [[nodiscard]] bool is_right() const; // fits, and as fast as the fastest but for noise
};

// In groups of at least five policies, under limits that are fixed shares of the group's largest
// measured peak; a limit that nothing fits as measured is left out. A policy that was measured
// several times counts once, with its mean time and its largest peak.
struct PolicyChoices {
  std::size_t groups = 0;
  std::vector<PolicyChoice> choices;
};
[[nodiscard]] PolicyChoices policy_choices(const std::vector<ProfileRecord>& records,
                                           const std::vector<ProfileResult>& results);
[[nodiscard]] std::string choices_text(const PolicyChoices& all);

[[nodiscard]] bool passes(const ProfileResult& result); // every metric within tolerance
[[nodiscard]] std::string profiles_text(const std::vector<ProfileResult>& results,
                                        const PairOrder& order);
[[nodiscard]] std::string profiles_json(const std::vector<ProfileResult>& results,
                                        const PolicyChoices& choices);

} // namespace spillway
