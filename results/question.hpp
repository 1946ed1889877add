// A question about what a publication leaves open: which settings agree with what it says
// of memory?
//
//   kind: question
//   title: ...
//   source: "https://..."
//   scenario: NAME
//   vary:                                  # all combinations
//     batch.sequence: [2048, 4096, 8192]   # a key of the scenario and its values
//     mesh:                                # or a name, and what each of its values sets
//       16 x 8: {parallel.fsdp: 16, parallel.expert: 8}
//   tensors: [query_proj, moe_mlpwi_0]     # every set of some of them
//   facts:                                 # of a policy that keeps or offloads the set
//     - {fate: keep, set: {batch.micro: 8}, verdict: hbm_oom, says: "..."}
//   predict: {base: remat, set: {batch.micro: 8}}
//
// What is not in a set is recomputed.
#pragma once

#include "policies/policy.hpp"
#include "results/run_result.hpp"
#include "sim/base/yaml.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

struct Question {
  using Settings = std::vector<std::string>; // "batch.micro=8"
  struct Value {
    std::string label;
    Settings set;
  };
  struct Dimension {
    std::string name;
    std::vector<Value> values;
  };
  struct Fact {
    Fate fate = Fate::keep;
    Settings set;
    Verdict verdict = Verdict::fits;
    std::string says;
  };
  std::string title, source, scenario;
  std::vector<Dimension> dimensions;
  std::vector<std::string> tensors; // at most max_tensors
  std::vector<Fact> facts;
  std::string base;     // policy that the offload is compared with
  Settings predict_set; // under which both are predicted

  static constexpr std::size_t max_tensors = 12; // 4095 sets
  // Combinations of the dimensions' values, the last one fastest.
  [[nodiscard]] std::size_t combinations() const;
  [[nodiscard]] std::vector<std::size_t> values_of(std::size_t combination) const;
  [[nodiscard]] std::size_t sets() const { return (std::size_t{1} << tensors.size()) - 1; }
  // Set 0 is the first tensor alone: bit i of `set` + 1 says whether tensor i is in it.
  [[nodiscard]] std::vector<std::string> tensors_of(std::size_t set) const;
};

// Throws InputError with every mistake found.
[[nodiscard]] Question load_question(const std::filesystem::path& file);

} // namespace spillway
