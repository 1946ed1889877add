// What no policy can beat: lower bounds on a step's time and memory, from closed forms per
// kind of layer. A search prices candidates with the engine and leaves out those whose
// bound is above what it has found.
//
// The time of a step is at least the sum over segments of what layer_bound.hpp says, and
// what no policy changes: embedding, head, optimizer, casts, folded gradients. That part
// is read off a replay of one policy, the reference. In a loop of n layers it is at least
// what n - 1 layers keep the lane of weight collectives, or the link between GPUs, busy.
//
// With a clock rule a step of duration T at speed s uses the energy
//
//   A s^(e-1) + M  =  (1 - p_x) T          (clock.hpp)
//
// so T is at least the smallest, over s, of the larger of both bounds.
//
// Memory is at least what is there when the last layer's backward runs: states, gradients
// that are allocated at once, everything kept, and that layer's own. Kernels of the compute
// lane run in order; what exchanges may have given back by then counts as given back.
#pragma once

#include "sim/lower/fold.hpp"
#include "sim/lower/layer_bound.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spillway {

class StepBound {
public:
  // `run`: the replay of `reference`, a plan with a checkpoint around every layer.
  StepBound(const Scenario& scenario, const Plan& reference, const StepRun& run, RateCache& cache);

  // Kinds of one name: a policy treats them alike. Only those that it decides about.
  struct Group {
    std::string name;
    std::vector<std::uint32_t> kinds; // of the trace
  };
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }

  [[nodiscard]] const LayerBound& layer(std::uint32_t kind) const { return bounds_[kind]; }

  // Of one saved set of a group: by kind, then by speed. It refers to `orders`, by kind.
  using Orders = std::vector<std::vector<BackwardItem>>;
  using Saved = std::vector<std::vector<LayerBound::Backward>>;
  [[nodiscard]] Orders orders(std::size_t group, const std::vector<KindPlan>& plans) const;
  [[nodiscard]] Saved saved(std::size_t group, const Orders& orders) const;

  // What a group's layers add to the step under `plans` (by kind of the group).
  struct Share {
    std::vector<double> time; // by speed
    KernelSums kernels;
    std::int64_t kept = 0, offloaded = 0; // bytes of one micro-batch, that are there at once
    Share& operator+=(const Share& other);
  };
  [[nodiscard]] Share share(std::size_t group, const std::vector<KindPlan>& plans,
                            const Saved& saved) const;

  // Seconds of a step, from the shares of all groups.
  [[nodiscard]] double step_time(const Share& groups) const;
  // Bytes beside those that are kept while the last decoder layer's backward runs, if it
  // is of this group; 0 otherwise.
  [[nodiscard]] std::int64_t last_layer_bytes(std::size_t group,
                                              const std::vector<KindPlan>& plans) const;
  // The same for every way to keep or offload what `offloading` offloads.
  [[nodiscard]] std::int64_t least_last_layer_bytes(std::size_t group,
                                                    const std::vector<KindPlan>& offloading) const;
  [[nodiscard]] std::int64_t fixed_bytes(bool offloads) const { // beside all these
    return offloads ? fixed_bytes_offloading_ : fixed_bytes_;
  }

private:
  struct Part { // of a loop: its layers of one group
    std::uint32_t block = 0;
    std::vector<std::int64_t> layers; // by kind of the group
    bool whole = true;                // all layers of the loop are of this group
  };
  struct LoopLoad { // what the weights of a loop's layers keep busy, in one direction
    double lane = 0, link = 0, exposed = 0;
  };
  void make_groups();
  [[nodiscard]] std::int64_t last_layer(std::size_t group, const std::vector<KindPlan>& plans,
                                        bool reloads) const;
  void count_last_layers(std::size_t group, const std::vector<KindPlan>& plans, Share& share) const;
  [[nodiscard]] std::uint32_t kind_at(std::int64_t before_last) const; // of the last decoder layer
  void measure_reference(const Plan& reference, const StepRun& run);
  [[nodiscard]] LoopLoad weights_of(const LayerBlock& block, bool backward) const;
  [[nodiscard]] double part_time(const Part& part, const Group& group,
                                 const std::vector<KindPlan>& plans, const Saved& saved,
                                 std::size_t speed) const;

  const Scenario* scenario_;
  CostModel cost_;
  std::vector<double> speeds_;     // ascending; 1 alone without a clock rule
  std::vector<LayerBound> bounds_; // by kind
  std::vector<Group> groups_;
  std::vector<std::vector<Part>> parts_;                     // by group
  std::vector<LoopLoad> forward_weights_, backward_weights_; // by block
  std::vector<double> fixed_time_;                           // by speed: what no policy changes
  KernelSums fixed_kernels_;
  std::int64_t fixed_bytes_ = 0, fixed_bytes_offloading_ = 0;
};

} // namespace spillway
