#include "hw_models/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace spillway {
namespace {

KernelTable::Op table_op(const Work& work) {
  if (work.kind == WorkKind::attention) {
    return KernelTable::Op::attention;
  }
  return work.groups > 1 ? KernelTable::Op::grouped_matmul : KernelTable::Op::matmul;
}

// Grouped tables name every stage by the forward shape: m rows per group, n, k.
Work in_table_terms(const Work& work) {
  Work seen = work;
  if (work.kind == WorkKind::matmul && work.groups > 1) {
    if (work.stage == Stage::wgrad) { // [n, m] x [m, k]
      seen.m = work.k;
      seen.n = work.m;
      seen.k = work.n;
    } else if (work.stage == Stage::dgrad) { // [m, n] x [n, k]
      std::swap(seen.n, seen.k);
    }
  }
  return seen;
}

// Tables are of whole sequences.
bool hides_some(const Work& work) {
  return work.window > 0 && work.window < work.seq;
}

std::string describe(const Work& work) {
  if (work.kind == WorkKind::attention) {
    return fmt::format("attention of {} x {} heads of {} and {} on {} tokens{}", work.batch,
                       work.heads, work.qk_dim, work.v_dim, work.seq,
                       hides_some(work) ? fmt::format(", a window of {}", work.window) : "");
  }
  return fmt::format("{}product of m={} n={} k={}",
                     work.groups > 1 ? fmt::format("{} grouped ", work.groups) : "", work.m, work.n,
                     work.k);
}

} // namespace

ProductShape product_shape(const Work& work) {
  ProductShape shape{work.groups, work.m, work.n, work.k};
  std::sort(shape.begin() + 1, shape.end());
  return shape;
}

std::string shape_name(const ProductShape& shape) {
  return fmt::format("{}{} x {} x {}", shape[0] > 1 ? fmt::format("{} of ", shape[0]) : "",
                     shape[1], shape[2], shape[3]);
}

const RateCache::Entry& RateCache::look_up(const Device& device, const Work& work) {
  const Key key{static_cast<std::int64_t>(work.kind),
                static_cast<std::int64_t>(work.stage),
                static_cast<std::int64_t>(work.type),
                work.groups,
                work.m,
                work.n,
                work.k,
                work.batch,
                work.heads,
                work.kv_heads,
                work.seq,
                work.qk_dim * 4096 + work.v_dim};
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    return found->second;
  }
  const KernelTable::Op op = table_op(work);
  const Work seen = in_table_terms(work);
  // Best is a table with rows for these heads, then one that need not extrapolate,
  // then one of this very stage; of equals the first.
  Entry best;
  int best_rank = -1;
  for (const auto& table : device.tables) {
    if (table->op != op || table->type != work.type || !table->serves(work.stage)) {
      continue;
    }
    const KernelTable::Answer answer = table->rate(seen);
    const int rank =
        (answer.other_heads ? 0 : 4) + (answer.beyond ? 0 : 2) + (table->any_stage() ? 0 : 1);
    if (rank > best_rank) {
      best_rank = rank;
      best = {answer.rate, table->derate, answer.beyond, table.get()};
    }
  }
  if (best_rank < 0) {
    throw InputError(
        fmt::format("hardware '{}' has no measured table for {}", device.name, describe(work)));
  }
  return entries_.emplace(key, best).first->second;
}

CostModel::CostModel(const Device& device, std::int64_t gpus, RateCache& cache)
    : device_(&device), cache_(&cache) {
  const std::int64_t domains = (gpus + device.scale_up_domain - 1) / device.scale_up_domain;
  gpus_per_domain_ = (gpus + domains - 1) / domains;
}

void CostModel::vary_shape(const ProductShape& shape, double factor) {
  varied_ = shape;
  varied_factor_ = factor;
}

Seconds CostModel::kernel_time(const Work& work) const {
  switch (work.kind) {
  case WorkKind::none: return Seconds{0};
  case WorkKind::memory:
    return Seconds{device_->kernel_overhead.value} + work.bytes / ByteRate{device_->hbm_rate.value};
  case WorkKind::matmul:
  case WorkKind::attention: {
    const RateCache::Entry& entry = cache_->look_up(*device_, work);
    if (entry.beyond || hides_some(work)) {
      extrapolations_.insert(describe(work));
    }
    double derate = device_->attention_derate.value;
    if (work.kind == WorkKind::matmul) {
      derate = device_->matmul_derate.value * device_->shape_factor.value;
      if (varied_ && product_shape(work) == *varied_) {
        derate *= varied_factor_;
      }
    }
    for (const std::size_t factor : entry.table->rate_factors) {
      derate *= device_->rate_factors[factor].value;
    }
    return work.flops() / FlopRate{entry.rate * derate * speed_ / entry.derate};
  }
  default: throw std::logic_error("a collective is not a kernel");
  }
}

CollectiveCost CostModel::collective(const Work& work) const {
  CollectiveCost cost;
  const std::int64_t g = work.group.size;
  if (g <= 1 || work.bytes.count() == 0) {
    return cost;
  }
  const std::int64_t p = std::clamp(gpus_per_domain_ / work.group.stride, std::int64_t{1}, g);
  const double inside = static_cast<double>(p);
  const double ranks = static_cast<double>(g);
  const double domains = ranks / inside;
  const bool exchange = work.kind == WorkKind::all_to_all;
  const double efficiency = exchange                            ? device_->all_to_all.value
                            : work.kind == WorkKind::all_gather ? device_->all_gather.value
                                                                : device_->reduce_scatter.value;
  const double up = exchange ? (inside - 1) / ranks : (inside - 1) / inside;
  const double out = exchange ? (ranks - inside) / ranks : (domains - 1) / (domains * inside);

  cost.amount = static_cast<double>(work.bytes.count());
  cost.scale_up_weight = up / efficiency;
  cost.scale_out_weight = out / device_->scale_out_efficiency.value;
  cost.host_weight = device_->nic_path == NicPath::host ? 2 * out : 0.0;
  cost.link_weight = device_->nic_path == NicPath::gpu_link ? out : 0.0;
  const double unit = std::max(cost.host_weight, cost.link_weight);
  if (unit > 0) {
    cost.amount *= unit;
    for (double* weight :
         {&cost.scale_up_weight, &cost.scale_out_weight, &cost.host_weight, &cost.link_weight}) {
      *weight /= unit;
    }
  }
  cost.latency =
      Seconds{out > 0 ? device_->scale_out_latency.value : device_->scale_up_latency.value};
  return cost;
}

} // namespace spillway
