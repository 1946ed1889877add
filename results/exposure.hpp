// How much of its copies and collectives a step hides.
//
// A copy or collective is exposed while the reported GPU's compute lane stands still for
// it (sim/analysis/waiting.hpp), and where it runs on the compute lane itself; the rest
// of its time is hidden behind compute.
#pragma once

#include "results/simulate.hpp"

#include <string>
#include <vector>

namespace spillway {

// All copies or collectives of the reported GPU with one name.
struct ExposureGroup {
  std::string what;  // "store query_proj"
  std::string phase; // "copy", "collective" or "collective, re-run"
  std::int64_t count = 0;
  SimTime time{0}; // as they ran
  SimTime exposed{0};
  [[nodiscard]] SimTime hidden() const { return time - exposed; }
};

// Most exposed time first, then most time.
[[nodiscard]] std::vector<ExposureGroup> exposure_of(const Lowered& lowered,
                                                     const Timeline& timeline);

// All copies together and all collectives together, re-run ones included; what there is.
[[nodiscard]] std::vector<ExposureGroup> totals_of(const std::vector<ExposureGroup>& groups);

} // namespace spillway
