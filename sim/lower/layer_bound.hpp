// How fast one layer's forward and backward can be at best: no replay is faster. What a
// search over policies prunes with (step_bound.hpp puts layers together).
//
// A layer is run on its compute, exchange and copy lanes as rank_emitter.hpp issues it,
// every task as if it were alone on the machine. In a replay a task takes as long or
// longer, lanes are in order, and a segment's first kernel comes after the last one of the
// segment before: the times of segments add up. Ranks that share a CPU do the same at the
// same time, so a copy gets at most its share of the CPU's memory.
//
// Times are seconds, for one speed of matmul and attention where there is a clock rule.
#pragma once

#include "hw_models/cost.hpp"
#include "sim/lower/program.hpp"
#include "sim/lower/traffic_bound.hpp"

#include <cstdint>
#include <vector>

namespace spillway {

// Seconds of a kernel, collective or copy that has the machine to itself.
struct SoloTime {
  double fixed = 0, scaled = 0;
  [[nodiscard]] double at(double speed) const { return fixed + scaled / speed; }
};

// A copy of one tensor, and the same done by a kernel at the end of a loop.
struct CopyTimes {
  double store = 0, reload = 0, peeled_store = 0, peeled_reload = 0;
};

// n layers of a loop take at least first + (n - 1) next + edge in one direction.
struct DirectionBound {
  double first = 0, next = 0, edge = 0;
  double compute = 0; // of `first`, without copies beside it: they move in collectives, too
  [[nodiscard]] double of(std::int64_t layers) const {
    return layers == 0 ? 0 : first + static_cast<double>(layers - 1) * next + edge;
  }
};

// What the clock of a board follows from (clock.hpp), seconds at speed 1.
struct KernelSums {
  double matmul_s = 0, attention_s = 0, memory_s = 0, matmul_flops = 0;
  [[nodiscard]] double at(double speed) const {
    return (matmul_s + attention_s) / speed + memory_s;
  }
};

class LayerBound {
public:
  // With the rates of `cost`, at speed 1. `kind`: index into the trace's.
  LayerBound(const Scenario& scenario, std::uint32_t kind, CostModel cost);

  // Backward of a set of saved tensors, kept or offloaded, without copies.
  struct Backward {
    const std::vector<BackwardItem>* order = nullptr; // the caller's
    double alone = 0;                                 // all of it, when nothing else moves
    double path = 0;                                  // beside the gathers of the next layer
    double to_attention = 0;                          // until attention's backward is issued
    KernelSums kernels;
    double link = 0; // seconds that its exchanges keep the link between GPUs busy
  };
  [[nodiscard]] Backward backward(const std::vector<BackwardItem>& order, double speed) const;

  [[nodiscard]] DirectionBound forward_of(const KindPlan& plan, double speed) const;
  // `saved`: of the same saved set and speed.
  [[nodiscard]] DirectionBound backward_of(const KindPlan& plan, const Backward& saved,
                                           double speed) const;
  // All stores, and all reloads, of one layer.
  [[nodiscard]] double store_time(const KindPlan& plan) const;
  [[nodiscard]] double reload_time(const KindPlan& plan) const;

  [[nodiscard]] const CopyTimes& copy(TensorIndex tensor) const { return copies_[tensor]; }
  [[nodiscard]] double op_time(OpIndex op, double speed) const {
    return forward_[op].time.at(speed);
  }

  // Kernels of one layer's forward, those that write kept tensors included.
  [[nodiscard]] KernelSums forward_kernels(const KindPlan& plan) const;
  [[nodiscard]] double forward_link() const; // as Backward::link

private:
  struct Kernel {
    SoloTime time;
    WorkKind kind = WorkKind::none;
    double flops = 0;
    double link = 0;
  };
  struct Lanes;
  [[nodiscard]] Kernel kernel_of(const Scenario& scenario, const Work& work) const;
  [[nodiscard]] double run(Lanes& lanes, const Kernel& kernel, double ready, double speed,
                           const WeightTraffic& traffic) const;
  // `stored`: by tensor, when its buffer is free; empty: from the beginning.
  struct ForwardRun {
    double compute = 0; // without copies that end in the layer
    double path = 0;
  };
  [[nodiscard]] ForwardRun run_forward(const KindPlan& plan, double speed,
                                       const std::vector<double>& stored,
                                       const WeightTraffic& traffic) const;
  struct BackwardRun {
    double path = 0, to_attention = 0;
  };
  // `values`: by tensor, when it is at hand. `before_attention`: seconds of the compute lane.
  [[nodiscard]] BackwardRun run_backward(const std::vector<BackwardItem>& order, double speed,
                                         std::vector<double> values, double before_attention,
                                         const WeightTraffic& traffic) const;
  [[nodiscard]] DirectionBound pipelined_forward(const KindPlan& plan, double speed) const;
  [[nodiscard]] const Kernel& kernel_of(const BackwardItem& item) const;
  [[nodiscard]] bool copies_in_layer() const;

  const LayerKind* kind_;
  CostModel cost_;
  CopySchedule places_;
  bool serialized_, exposed_collectives_;
  double reload_at_top_above_;
  std::vector<Kernel> forward_, backward_, backward_after_rerun_; // by operation
  WeightTraffic forward_traffic_, backward_traffic_;
  std::vector<CopyTimes> copies_; // by tensor
  std::vector<double> save_;      // by tensor: time to write it if it is kept
};

} // namespace spillway
