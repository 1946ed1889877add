// Published and measured cases against predictions.
//
// A case file (results/reference/*.yaml) names a scenario, settings, a policy, a
// metric, what was observed, and the tolerance that was stated before:
//
//   kind: case
//   id: example-remat
//   source: "..."
//   scenario: example
//   set: ["batch.micro=8"]             # optional
//   policy: remat
//   base: remat                        # for speedup and peak_hbm_over_base
//   metric: tflops_per_gpu
//   observed: 578.3                    # or "20 ms", or true / false for fits
//   tolerance_percent: 25              # of the observed value; speedup: of the gain
//   note: "..."                        # optional
#pragma once

#include "results/simulate.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace spillway {

enum class Metric : std::uint8_t {
  step_time,
  tokens_per_s_per_gpu,
  tflops_per_gpu,
  peak_hbm,
  mem_max_allocated, // peak_hbm without what the framework does not allocate (context)
  temp,              // peak_hbm without weights and optimizer state
  host,
  fits,               // 1 or 0
  speedup,            // of policy over base, step time ratio; its error is that of the gain
  peak_hbm_over_base, // bytes above base's peak
  store_per_layer,    // seconds of D2H copies of one decoder layer
  forward_per_layer,  // seconds from one decoder layer's first task to the next one's
};
[[nodiscard]] const char* metric_name(Metric metric);

// Bytes at the HBM peak without what the framework does not allocate.
[[nodiscard]] double allocated_bytes(const RunResult& r);
// Bytes at the HBM peak that are neither weights, optimizer state nor context.
[[nodiscard]] double temporary_bytes(const RunResult& r);

struct ValidationCase {
  std::string file; // that says it
  std::string id, source, scenario, policy, base, note;
  std::vector<std::string> set;
  Metric metric = Metric::step_time;
  double observed = 0;
  double tolerance_percent = 0;
};

struct CaseResult {
  ValidationCase given;
  double predicted = 0;
  bool runs_fit = true;     // all policies that were simulated fit their memory
  double error_percent = 0; // (predicted - observed) / observed; fits: 0 or 100
  bool pass = false;
};

// All case files of a folder, in the order of their names. Throws InputError.
[[nodiscard]] std::vector<ValidationCase> load_cases(const std::filesystem::path& folder);
[[nodiscard]] CaseResult check_case(const Catalog& catalog, const ValidationCase& given);

[[nodiscard]] std::string validation_text(const std::vector<CaseResult>& results);
[[nodiscard]] std::string validation_json(const std::vector<CaseResult>& results);

} // namespace spillway
