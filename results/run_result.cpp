#include "results/run_result.hpp"

#include <algorithm>
#include <cmath>

namespace spillway {
namespace {

constexpr std::array<const char*, 3> verdict_names{"fits", "hbm_oom", "host_oom"};
constexpr std::array<const char*, time_bin_count> bin_names{
    "forward_s", "backward_s",  "recompute_s", "exposed_offload_s", "exposed_collective_s",
    "bubble_s",  "optimizer_s", "other_s"};

FieldValue time_map(const RunResult& r) {
  TimeMap map;
  for (std::size_t bin = 0; bin < time_bin_count; ++bin) {
    map.emplace_back(bin_names[bin], r.time[bin]);
  }
  return map;
}

FieldValue hidden(const RunResult& r) {
  return r.offload_hidden_fraction ? FieldValue{*r.offload_hidden_fraction} : FieldValue{};
}

using R = const RunResult&;
const std::array<Field, 23> table{{
    {"scenario", "", "name of the scenario", [](R r) -> FieldValue { return r.scenario; }},
    {"policy", "", "name of the policy", [](R r) -> FieldValue { return r.policy; }},
    {"verdict", "", "fits, hbm_oom or host_oom",
     [](R r) -> FieldValue { return std::string(verdict_name(r.verdict)); }},
    {"step_time_s", "s", "time of one steady training step",
     [](R r) -> FieldValue { return r.step_time_s; }},
    {"step_time_low_s", "s", "lower end of the band from the coefficients' ranges",
     [](R r) -> FieldValue { return r.step_time_low_s; }},
    {"step_time_high_s", "s", "upper end of the band",
     [](R r) -> FieldValue { return r.step_time_high_s; }},
    {"tokens_per_s_per_gpu", "1/s", "tokens trained per second and GPU",
     [](R r) -> FieldValue { return r.tokens_per_s_per_gpu; }},
    {"model_tflops_per_gpu", "TFLOP/s",
     "model FLOPs per second and GPU, MaxText's convention: causal attention halved, recompute "
     "not counted",
     [](R r) -> FieldValue { return r.model_tflops_per_gpu; }},
    {"hardware_tflops_per_gpu", "TFLOP/s", "executed FLOPs per second and GPU, recompute counted",
     [](R r) -> FieldValue { return r.hardware_tflops_per_gpu; }},
    {"mfu", "", "model_tflops_per_gpu over the dense bf16 peak",
     [](R r) -> FieldValue { return r.mfu; }},
    {"peak_hbm_bytes", "B", "largest HBM use of one GPU",
     [](R r) -> FieldValue { return r.peak_hbm_bytes; }},
    {"hbm_limit_bytes", "B", "memory fraction times the bytes that the driver reports",
     [](R r) -> FieldValue { return r.hbm_limit_bytes; }},
    {"peak_hbm_moment", "", "what ran when the peak was reached",
     [](R r) -> FieldValue { return r.peak_hbm_moment; }},
    {"hbm_owners", "B", "who held HBM at the peak; sums to peak_hbm_bytes",
     [](R r) -> FieldValue { return r.hbm_owners; }},
    {"peak_host_bytes", "B", "largest use of pinned host memory, per GPU",
     [](R r) -> FieldValue { return r.peak_host_bytes; }},
    {"host_limit_bytes", "B",
     "per GPU: the runtime's limit or the GPU's share of its CPU's memory, the smaller",
     [](R r) -> FieldValue { return r.host_limit_bytes; }},
    {"host_owners", "B", "who held host memory at its peak",
     [](R r) -> FieldValue { return r.host_owners; }},
    {"time", "s", "wall time of the reported GPU, each instant in one bin; sums to step_time_s",
     time_map},
    {"d2h_bytes", "B", "copied from device to host per GPU and step",
     [](R r) -> FieldValue { return r.d2h_bytes; }},
    {"h2d_bytes", "B", "copied from host to device per GPU and step",
     [](R r) -> FieldValue { return r.h2d_bytes; }},
    {"offload_hidden_fraction", "", "share of the copy time during which the GPU did not wait",
     hidden},
    {"assumptions", "", "coefficients and inputs that the result rests on",
     [](R r) -> FieldValue { return r.assumptions; }},
    {"warnings", "", "what a careful reader should know",
     [](R r) -> FieldValue { return r.warnings; }},
}};

} // namespace

const char* verdict_name(Verdict verdict) {
  return verdict_names[static_cast<std::size_t>(verdict)];
}
const char* time_bin_name(TimeBin bin) {
  return bin_names[static_cast<std::size_t>(bin)];
}

std::span<const Field> field_table() {
  return table;
}

std::optional<double> numeric_field(const RunResult& result, std::string_view name) {
  for (const Field& field : field_table()) {
    if (name == field.name) {
      const FieldValue value = field.get(result);
      if (const auto* real = std::get_if<double>(&value)) {
        return *real;
      }
      if (const auto* whole = std::get_if<std::int64_t>(&value)) {
        return static_cast<double>(*whole);
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> numeric_field_names() {
  std::vector<std::string> names;
  const RunResult empty;
  for (const Field& field : field_table()) {
    const FieldValue value = field.get(empty);
    if (std::holds_alternative<double>(value) || std::holds_alternative<std::int64_t>(value)) {
      names.emplace_back(field.name);
    }
  }
  return names;
}

RatioBand speedup_band(const RunResult& base, const RunResult& of) {
  RatioBand band;
  band.expected = base.step_time_s / of.step_time_s;
  double below = 0;
  double above = 0;
  for (const Sensitivity& mine : of.sensitivities) {
    const auto found = std::find_if(
        base.sensitivities.begin(), base.sensitivities.end(),
        [&](const Sensitivity& other) { return other.coefficient == mine.coefficient; });
    if (found == base.sensitivities.end()) {
      continue;
    }
    const double at_low = found->at_low_s / mine.at_low_s - band.expected;
    const double at_high = found->at_high_s / mine.at_high_s - band.expected;
    const double down = std::min({0.0, at_low, at_high});
    const double up = std::max({0.0, at_low, at_high});
    below += down * down;
    above += up * up;
  }
  band.low = band.expected - std::sqrt(below);
  band.high = band.expected + std::sqrt(above);
  return band;
}

} // namespace spillway
