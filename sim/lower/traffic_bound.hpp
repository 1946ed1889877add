// What copies and collectives reach at most, for bounds of layers (layer_bound.hpp).
#pragma once

#include "hw_models/cost.hpp"
#include "sim/lower/pricing.hpp"
#include "sim/lower/scenario.hpp"

#include <vector>

namespace spillway {

// Seconds that a collective takes alone, and what of them its link between GPUs is busy.
struct CollectiveTime {
  double total = 0, link = 0;
};
[[nodiscard]] CollectiveTime solo_collective(const Scenario& scenario, const CostModel& cost,
                                             const Work& work);
// Bytes per second of one GPU's copy when all GPUs of the CPU copy as well.
[[nodiscard]] double copy_rate(const Scenario& scenario, PriceOf of);

// What else moves while a layer runs: from its top on the weights of the next one are
// gathered. A collective or copy that meets them gets a share of the rate that it has alone.
class WeightTraffic {
public:
  struct Piece {
    double from = 0, to = 0; // seconds after the layer's top, alone on the machine
    double exchange = 1, store = 1, reload = 1; // shares, at most
  };
  WeightTraffic() = default; // nothing
  WeightTraffic(const Scenario& scenario, const LayerKind& kind, const CostModel& cost,
                bool backward);
  // When something ends that begins at `start` and would take `alone`.
  [[nodiscard]] double end_of(double start, double alone, double Piece::*share) const;

private:
  std::vector<Piece> pieces_; // in order
};

} // namespace spillway
