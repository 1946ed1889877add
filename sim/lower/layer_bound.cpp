#include "sim/lower/layer_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace spillway {
namespace {

// Seconds of one copy that shares only with the same copy of the CPU's other ranks.
double copy_time(const Scenario& scenario, PriceOf of, std::int64_t bytes) {
  const Device& device = scenario.device;
  const bool to_host = of == PriceOf::store || of == PriceOf::peeled_store;
  return (to_host ? device.d2h_latency.value : device.h2d_latency.value) +
         static_cast<double>(bytes) / copy_rate(scenario, of);
}

} // namespace

LayerBound::LayerBound(const Scenario& scenario, std::uint32_t kind, CostModel cost)
    : kind_(&scenario.trace.kinds[kind]), cost_(std::move(cost)),
      places_(copy_places(scenario.runtime)),
      serialized_(scenario.runtime.schedule == CopySchedule::serialized),
      exposed_collectives_(!scenario.runtime.overlap_collectives),
      reload_at_top_above_(scenario.framework.reload_at_top_above.value) {
  cost_.set_speed(1);
  forward_traffic_ = WeightTraffic(scenario, *kind_, cost_, false);
  backward_traffic_ = WeightTraffic(scenario, *kind_, cost_, true);
  for (const Op& op : kind_->ops) {
    forward_.push_back(kernel_of(scenario, op.work));
  }
  for (const BackwardOp& op : kind_->backward) {
    backward_.push_back(kernel_of(scenario, op.work));
    backward_after_rerun_.push_back(kernel_of(scenario, op.work_after_rerun));
  }
  for (const Tensor& tensor : kind_->tensors) {
    const auto time = [&](PriceOf of) { return copy_time(scenario, of, tensor.bytes.count()); };
    copies_.push_back({time(PriceOf::store), time(PriceOf::reload), time(PriceOf::peeled_store),
                       time(PriceOf::peeled_reload)});
    Work save;
    save.kind = WorkKind::memory;
    save.bytes = Bytes{static_cast<std::int64_t>(scenario.framework.saved_write.value *
                                                 static_cast<double>(tensor.bytes.count()))};
    const bool written = kind_->checkpointed && save.bytes.count() > 0;
    save_.push_back(written ? cost_.kernel_time(save).count() : 0.0);
  }
}

LayerBound::Kernel LayerBound::kernel_of(const Scenario& scenario, const Work& work) const {
  Kernel kernel;
  kernel.kind = work.kind;
  if (work.is_collective()) {
    const CollectiveTime time = solo_collective(scenario, cost_, work);
    kernel.time.fixed = time.total;
    kernel.link = time.link;
    return kernel;
  }
  const bool scales = work.kind == WorkKind::matmul || work.kind == WorkKind::attention;
  (scales ? kernel.time.scaled : kernel.time.fixed) = cost_.kernel_time(work).count();
  kernel.flops = work.kind == WorkKind::matmul ? work.flops().value() : 0;
  return kernel;
}

// In-order lanes, each free from its time on.
struct LayerBound::Lanes {
  double compute = 0, exchange = 0;
};

double LayerBound::run(Lanes& lanes, const Kernel& kernel, double ready, double speed,
                       const WeightTraffic& traffic) const {
  if (kernel.kind == WorkKind::all_to_all && !exposed_collectives_) {
    return lanes.exchange = traffic.end_of(std::max(lanes.exchange, ready), kernel.time.at(speed),
                                           &WeightTraffic::Piece::exchange);
  }
  return lanes.compute = std::max(lanes.compute, ready) + kernel.time.at(speed);
}

bool LayerBound::copies_in_layer() const {
  return places_ == CopySchedule::loop_bound && !serialized_;
}

LayerBound::ForwardRun LayerBound::run_forward(const KindPlan& plan, double speed,
                                               const std::vector<double>& stored,
                                               const WeightTraffic& traffic) const {
  Lanes lanes;
  std::vector<double> there(kind_->tensors.size(), 0.0);
  double copied = copies_in_layer() && plan.tensors[kind_->input].offloaded()
                      ? copies_[kind_->input].store
                      : 0.0; // end of the copy lane
  const auto save = [&](TensorIndex t) {
    if (plan.tensors[t].kept() && save_[t] > 0) {
      lanes.compute = std::max(lanes.compute, there[t]) + save_[t];
    }
  };
  save(kind_->input);
  for (OpIndex index = 0; index < kind_->ops.size(); ++index) {
    const Op& op = kind_->ops[index];
    double ready = 0;
    for (const TensorIndex t : op.reads) {
      ready = std::max(ready, there[t]);
    }
    for (const TensorIndex t : op.writes) {
      ready = std::max(ready, stored.empty() ? 0.0 : stored[t]);
    }
    const double end = run(lanes, forward_[index], ready, speed, traffic);
    for (const TensorIndex t : op.writes) {
      there[t] = end;
      if (copies_in_layer() && plan.tensors[t].offloaded()) {
        copied = std::max(copied, end) + copies_[t].store;
      }
    }
    for (const TensorIndex t : op.writes) {
      save(t);
    }
  }
  return {lanes.compute, std::max(lanes.compute, copied)};
}

const LayerBound::Kernel& LayerBound::kernel_of(const BackwardItem& item) const {
  static const Kernel nothing{};
  if (item.rerun) {
    return item.free ? nothing : forward_[item.index];
  }
  return item.after_rerun ? backward_after_rerun_[item.index] : backward_[item.index];
}

LayerBound::BackwardRun LayerBound::run_backward(const std::vector<BackwardItem>& order,
                                                 double speed, std::vector<double> values,
                                                 double before_attention,
                                                 const WeightTraffic& traffic) const {
  Lanes lanes;
  BackwardRun result;
  std::vector<double> gradients(kind_->tensors.size(), 0.0);
  bool attention_seen = false;
  for (const BackwardItem& item : order) {
    const Kernel& kernel = kernel_of(item);
    double ready = 0;
    if (item.rerun) {
      const Op& op = kind_->ops[item.index];
      for (const TensorIndex t : op.reads) {
        ready = std::max(ready, values[t]);
      }
      const double end = run(lanes, kernel, ready, speed, traffic);
      for (const TensorIndex t : op.writes) {
        values[t] = std::max(values[t], end);
      }
      continue;
    }
    const BackwardOp& op = kind_->backward[item.index];
    if (kernel.kind == WorkKind::attention && !attention_seen) {
      attention_seen = true;
      result.to_attention = lanes.compute;
      lanes.compute += before_attention;
    }
    for (const TensorIndex t : op.needs) {
      ready = std::max(ready, values[t]);
    }
    for (const TensorIndex t : op.gradients_read) {
      ready = std::max(ready, gradients[t]);
    }
    const double end = run(lanes, kernel, ready, speed, traffic);
    for (const TensorIndex t : op.gradients_written) {
      gradients[t] = std::max(gradients[t], end);
    }
  }
  result.path = lanes.compute;
  return result;
}

namespace {

template <class Kernel>
void add(KernelSums& sums, const Kernel& kernel) {
  switch (kernel.kind) {
  case WorkKind::matmul:
    sums.matmul_s += kernel.time.scaled;
    sums.matmul_flops += kernel.flops;
    break;
  case WorkKind::attention: sums.attention_s += kernel.time.scaled; break;
  case WorkKind::memory: sums.memory_s += kernel.time.fixed; break;
  default: break;
  }
}

} // namespace

LayerBound::Backward LayerBound::backward(const std::vector<BackwardItem>& order,
                                          double speed) const {
  Backward result;
  result.order = &order;
  const std::vector<double> at_hand(kind_->tensors.size(), 0.0);
  result.alone = run_backward(order, speed, at_hand, 0, {}).path;
  const BackwardRun beside = run_backward(order, speed, at_hand, 0, backward_traffic_);
  result.path = beside.path;
  result.to_attention = beside.to_attention;
  for (const BackwardItem& item : order) {
    const Kernel& kernel = kernel_of(item);
    add(result.kernels, kernel);
    result.link += kernel.link;
  }
  return result;
}

KernelSums LayerBound::forward_kernels(const KindPlan& plan) const {
  KernelSums sums;
  for (const Kernel& kernel : forward_) {
    add(sums, kernel);
  }
  for (TensorIndex t = 0; t < save_.size(); ++t) {
    sums.memory_s += plan.tensors[t].kept() ? save_[t] : 0.0;
  }
  return sums;
}

double LayerBound::forward_link() const {
  double sum = 0;
  for (const Kernel& kernel : forward_) {
    sum += kernel.link;
  }
  return sum;
}

double LayerBound::store_time(const KindPlan& plan) const {
  double sum = 0;
  for (TensorIndex t = 0; t < copies_.size(); ++t) {
    sum += plan.tensors[t].offloaded() ? copies_[t].store : 0.0;
  }
  return sum;
}

double LayerBound::reload_time(const KindPlan& plan) const {
  double sum = 0;
  for (TensorIndex t = 0; t < copies_.size(); ++t) {
    sum += plan.tensors[t].offloaded() ? copies_[t].reload : 0.0;
  }
  return sum;
}

DirectionBound LayerBound::forward_of(const KindPlan& plan, double speed) const {
  const double all = store_time(plan);
  if (places_ == CopySchedule::pipelined && all > 0) {
    return pipelined_forward(plan, speed);
  }
  const ForwardRun alone = run_forward(plan, speed, {}, {});
  const ForwardRun beside = run_forward(plan, speed, {}, forward_traffic_);
  if (places_ == CopySchedule::loop_bound && serialized_) {
    const double busy = forward_kernels(plan).at(speed) + all; // copies may fill gaps
    const double first = std::max(alone.path, busy);
    return {first, std::max(beside.path, busy), 0, first};
  }
  return {alone.path, beside.path, 0, alone.compute};
}

// The stores of the layer before begin at the top, in one order or the other (copies.cpp).
DirectionBound LayerBound::pipelined_forward(const KindPlan& plan, double speed) const {
  std::vector<TensorIndex> offloaded;
  double peeled = 0;
  for (TensorIndex t = 0; t < copies_.size(); ++t) {
    if (plan.tensors[t].offloaded()) {
      offloaded.push_back(t);
      peeled += copies_[t].peeled_store;
    }
  }
  const double first = run_forward(plan, speed, {}, {}).path;
  if (serialized_) {
    return {first, first + store_time(plan), peeled, first};
  }
  double ways[2];
  for (double& way : ways) {
    std::vector<double> stored(copies_.size(), 0.0);
    double end = 0;
    for (const TensorIndex t : offloaded) {
      end = stored[t] =
          forward_traffic_.end_of(end, copies_[t].store, &WeightTraffic::Piece::store);
    }
    way = std::max(run_forward(plan, speed, stored, forward_traffic_).path, end);
    std::reverse(offloaded.begin(), offloaded.end());
  }
  return {first, (ways[0] + ways[1]) / 2, peeled - std::abs(ways[0] - ways[1]) / 2, first};
}

DirectionBound LayerBound::backward_of(const KindPlan& plan, const Backward& saved,
                                       double speed) const {
  const double all = reload_time(plan);
  if (all == 0 || places_ == CopySchedule::streamed) {
    return {saved.alone, saved.path, 0, saved.alone};
  }
  if (serialized_ && places_ == CopySchedule::loop_bound) {
    return {saved.alone + all, saved.path + all, 0, saved.alone + all};
  }
  std::vector<double> values(copies_.size(), 0.0);
  if (places_ == CopySchedule::loop_bound) {
    for (TensorIndex t = 0; t < copies_.size(); ++t) { // in any order: each for itself
      values[t] = plan.tensors[t].offloaded() ? copies_[t].reload : 0.0;
    }
    const double alone = run_backward(*saved.order, speed, values, 0, {}).path;
    const double beside = run_backward(*saved.order, speed, values, 0, backward_traffic_).path;
    return {std::max(alone, all), std::max(beside, all), 0, saved.alone};
  }
  double peeled = 0;
  double names = 0;
  for (TensorIndex t = 0; t < copies_.size(); ++t) {
    if (plan.tensors[t].offloaded()) {
      peeled += copies_[t].peeled_reload;
      ++names;
    }
  }
  const bool at_top = names > reload_at_top_above_;
  if (serialized_) {
    const double busy = saved.kernels.at(speed) + all;
    const double path =
        run_backward(*saved.order, speed, values, at_top ? 0 : all, backward_traffic_).path;
    return {saved.alone, std::max(path, busy), peeled, saved.alone};
  }
  const double end = backward_traffic_.end_of(at_top ? 0.0 : saved.to_attention, all,
                                              &WeightTraffic::Piece::reload);
  return {saved.alone, std::max(saved.path, end), peeled, saved.alone};
}

} // namespace spillway
