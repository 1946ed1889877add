// What a run says, and the one table of its fields.
//
// Every writer (text, JSON, CSV) and the `fields` command walk field_table(), so
// a field added there appears everywhere.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace spillway {

enum class Verdict : std::uint8_t { fits, hbm_oom, host_oom };
[[nodiscard]] const char* verdict_name(Verdict verdict);

// Wall time of the reported rank; each instant is in one bin.
enum class TimeBin : std::uint8_t {
  forward,
  backward,
  recompute,
  exposed_offload,
  exposed_collective,
  bubble,
  optimizer,
  other,
};
inline constexpr std::size_t time_bin_count = 8;
[[nodiscard]] const char* time_bin_name(TimeBin bin); // "forward_s"

struct AssumptionLine {
  std::string what, value, kind, source;
};

// The step time when one coefficient takes its low and its high value.
struct Sensitivity {
  std::string coefficient;
  double at_low_s = 0;
  double at_high_s = 0;
};

struct RunResult {
  std::string scenario;
  std::string policy;
  Verdict verdict = Verdict::fits;
  double step_time_s = 0, step_time_low_s = 0, step_time_high_s = 0;
  double tokens_per_s_per_gpu = 0;
  double model_tflops_per_gpu = 0, hardware_tflops_per_gpu = 0, mfu = 0;
  std::int64_t peak_hbm_bytes = 0, hbm_limit_bytes = 0;
  std::string peak_hbm_moment;
  std::vector<std::pair<std::string, std::int64_t>> hbm_owners; // sums to peak_hbm_bytes
  std::int64_t peak_host_bytes = 0, host_limit_bytes = 0;
  std::vector<std::pair<std::string, std::int64_t>> host_owners;
  std::array<double, time_bin_count> time{}; // sums to step_time_s
  std::int64_t d2h_bytes = 0, h2d_bytes = 0;
  std::optional<double> offload_hidden_fraction; // nothing offloaded: none
  std::vector<AssumptionLine> assumptions;
  std::vector<std::string> warnings;

  double clock_speed = 1; // of matmul and attention; 1 where the device has no clock rule
  std::vector<Sensitivity> sensitivities; // behind low and high; not a field
  [[nodiscard]] bool has_band() const { return !sensitivities.empty(); }
};

using OwnerMap = std::vector<std::pair<std::string, std::int64_t>>;
using TimeMap = std::vector<std::pair<std::string, double>>;
using FieldValue = std::variant<std::monostate, std::string, double, std::int64_t, OwnerMap,
                                TimeMap, std::vector<AssumptionLine>, std::vector<std::string>>;

struct Field {
  const char* name;
  const char* unit; // "" when it has none
  const char* meaning;
  FieldValue (*get)(const RunResult&);
};
[[nodiscard]] std::span<const Field> field_table();

// A numeric field by name; nullopt for an unknown, textual or absent one.
[[nodiscard]] std::optional<double> numeric_field(const RunResult& result, std::string_view name);
[[nodiscard]] std::vector<std::string> numeric_field_names();

// Low and high of `of` over `base` in step time (above 1: `of` is faster), by
// the coefficients that both were re-run with, root sum of squares.
struct RatioBand {
  double low = 0, expected = 0, high = 0;
};
[[nodiscard]] RatioBand speedup_band(const RunResult& base, const RunResult& of);

} // namespace spillway
