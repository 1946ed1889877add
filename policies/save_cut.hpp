// Which tensors to save when saving has a price: a minimum cut.
//
// What a layer's backward costs beside itself is the forward operations that it runs again
// and the tensors that were saved for it. A tensor that backward needs, or that an operation
// reads which runs again, is saved or produced again; the layer's input is at hand. Per
// operation and per tensor a vertex, on the source's side if it runs again, or is needed:
//
//     source -> tensor     never cut     backward needs it
//     op -> tensor         never cut     the operation reads it
//     op -> sink           its seconds   it runs again
//     tensor -> producer   its price     it is saved
//
// Tensors of one group are saved together, for one price. Where one operation writes all of
// them that is a vertex more. Groups with several producers are no cut ("all of them or none"
// prefers neither side), so each is tried saved and not saved: the result is still exact, and
// each of them doubles the work.
#pragma once

#include "workloads/trace.hpp"

#include <cstddef>
#include <limits>
#include <vector>

namespace spillway {

struct SaveCosts {
  static constexpr std::size_t no_group = std::numeric_limits<std::size_t>::max();

  std::vector<double> rerun_s;       // by operation
  std::vector<std::size_t> group_of; // by tensor; no_group: it cannot be saved
  std::vector<double> price_s;       // by group; infinite: it cannot be saved
};

struct SaveChoice {
  std::vector<std::size_t> groups; // saved ones, ascending; never that of the input alone
  std::vector<OpIndex> rerun;      // ascending
  double cost_s = 0;
};

inline constexpr std::size_t most_spread_groups = 12; // with several producers

// The cheapest choice, costs taken to whole picoseconds; of equal ones one that runs less
// again. Throws std::invalid_argument for costs that are negative, not numbers or beyond
// what picoseconds can count, and for too many spread groups.
[[nodiscard]] SaveChoice cheapest_saves(const LayerKind& kind, const SaveCosts& costs);

} // namespace spillway
