#include "sim/engine/fair_share.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

namespace spillway {

FairShareSolver::FairShareSolver(std::size_t resource_count)
    : left_(resource_count, 0.0), weight_sum_(resource_count, 0.0), level_(resource_count, 0.0) {
  touched_.reserve(resource_count);
}

// Each turn finds the lowest rate at which anything stops growing and fixes every
// flow that stops there. Weight sums are added up anew each turn instead of
// subtracting what stopped: a small weight beside large ones would drown in the
// rounding error of the difference.
void FairShareSolver::solve(std::span<const FlowDemand> flows, std::span<const Resource> resources,
                            std::vector<FlowShare>& shares) {
  shares.resize(flows.size());
  state_.assign(flows.size(), State::growing);
  touched_.clear();
  for (const FlowDemand& flow : flows) {
    for (const Use& use : flow.uses) {
      if (weight_sum_[use.resource] == 0) {
        touched_.push_back(use.resource);
        left_[use.resource] = resources[use.resource].capacity;
      }
      weight_sum_[use.resource] += use.weight;
    }
  }
  std::size_t still_growing = flows.size();
  double level = 0;
  while (still_growing > 0) {
    level = next_level(flows, level);
    still_growing -= stop_at(level, flows, shares);
    if (still_growing > 0) {
      take_stopped(flows, shares);
    }
  }
  for (const ResourceId resource : touched_) {
    weight_sum_[resource] = 0;
  }
}

// The rate never falls from turn to turn. Rounding could make it when two
// resources fill up at the same rate, even to zero.
double FairShareSolver::next_level(std::span<const FlowDemand> flows, double previous) {
  double next = std::numeric_limits<double>::infinity();
  for (const ResourceId resource : touched_) {
    level_[resource] = weight_sum_[resource] > 0 ? left_[resource] / weight_sum_[resource]
                                                 : std::numeric_limits<double>::infinity();
    next = std::min(next, level_[resource]);
  }
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (state_[i] == State::growing) {
      next = std::min(next, flows[i].rate_limit);
    }
  }
  if (next == std::numeric_limits<double>::infinity()) {
    throw std::logic_error("a flow has neither a resource nor a rate limit");
  }
  return std::max(next, previous);
}

std::size_t FairShareSolver::stop_at(double level, std::span<const FlowDemand> flows,
                                     std::vector<FlowShare>& shares) {
  std::size_t stopped = 0;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (state_[i] != State::growing) {
      continue;
    }
    if (flows[i].rate_limit <= level) {
      shares[i] = {flows[i].rate_limit, no_id};
    } else {
      const auto full = std::find_if(flows[i].uses.begin(), flows[i].uses.end(),
                                     [&](const Use& use) { return level_[use.resource] <= level; });
      if (full == flows[i].uses.end()) {
        continue;
      }
      shares[i] = {level, full->resource};
    }
    state_[i] = State::stopping;
    ++stopped;
  }
  return stopped;
}

void FairShareSolver::take_stopped(std::span<const FlowDemand> flows,
                                   const std::vector<FlowShare>& shares) {
  for (const ResourceId resource : touched_) {
    weight_sum_[resource] = 0;
  }
  for (std::size_t i = 0; i < flows.size(); ++i) {
    for (const Use& use : flows[i].uses) {
      if (state_[i] == State::growing) {
        weight_sum_[use.resource] += use.weight;
      } else if (state_[i] == State::stopping) {
        left_[use.resource] -= use.weight * shares[i].rate;
      }
    }
    if (state_[i] == State::stopping) {
      state_[i] = State::stopped;
    }
  }
}

} // namespace spillway
