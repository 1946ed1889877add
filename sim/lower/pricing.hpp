// Puts a device's prices on a lowered step: times, amounts, rates, capacities.
//
// The graph's shape is made once; a change of coefficients only needs new prices.
#pragma once

#include "hw_models/cost.hpp"
#include "sim/lower/lowered.hpp"
#include "sim/lower/scenario.hpp"

namespace spillway {

// What one collective uses; the order is fixed, zero weights are left out.
[[nodiscard]] std::vector<Use> collective_uses(const CollectiveCost& cost,
                                               const RankResources& resources,
                                               ResourceId cpu_memory);

// What one copy reaches at most, however free the link is; bytes/s. `of`: a store or reload.
[[nodiscard]] double copy_limit(const Device& device, PriceOf of, CopySchedule schedule);

// `cost` is of the device and job that the step was lowered for, up to its
// coefficients. Returns false when no price changed.
bool price(const Scenario& scenario, const CostModel& cost, Lowered& lowered);

} // namespace spillway
