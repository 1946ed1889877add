#include "sim/lower/traffic_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace spillway {

namespace {

// What a flow's unit takes from what it shares, as the ranks of a CPU do it together.
struct Loads {
  double scale_up = 0, scale_out = 0, pool = 0, d2h = 0, h2d = 0, duplex = 0;
};
constexpr std::array load_members{&Loads::scale_up, &Loads::scale_out, &Loads::pool,
                                  &Loads::d2h,      &Loads::h2d,       &Loads::duplex};

Loads loads_of(const CollectiveCost& cost) {
  return {cost.scale_up_weight, cost.scale_out_weight, cost.host_weight,
          cost.link_weight,     cost.link_weight,      2 * cost.link_weight};
}

Loads capacities(const Scenario& scenario) {
  const Device& d = scenario.device;
  const double none = std::numeric_limits<double>::infinity();
  return {d.scale_up_rate.value,
          d.scale_out_rate.value,
          d.host_pool_rate.value / static_cast<double>(ranks_per_cpu(scenario)),
          d.d2h_rate.value,
          d.h2d_rate.value,
          d.duplex_rate ? d.duplex_rate->value : none};
}

double fastest(const Loads& loads, const Loads& capacity) {
  double rate = std::numeric_limits<double>::infinity();
  for (const auto member : load_members) {
    if (loads.*member > 0) {
      rate = std::min(rate, capacity.*member / (loads.*member));
    }
  }
  return rate;
}

Loads operator+(Loads one, const Loads& other) {
  for (const auto member : load_members) {
    one.*member += other.*member;
  }
  return one;
}

Loads times(Loads loads, double rate) {
  for (const auto member : load_members) {
    loads.*member *= rate;
  }
  return loads;
}

// The rate that is left beside flows that use `taken`, as a share of the rate alone.
double share_beside(const Loads& loads, double limit, const Loads& taken, const Loads& capacity) {
  Loads left = capacity;
  for (const auto member : load_members) {
    left.*member -= taken.*member;
  }
  const double share =
      std::min(limit, fastest(loads, left)) / std::min(limit, fastest(loads, capacity));
  return std::isfinite(share) ? std::clamp(share, 1e-3, 1.0) : 1.0;
}

// What max-min fairness leaves to a flow at least while others of `beside` run.
double least_rate(const Loads& loads, const Loads& beside, const Loads& capacity) {
  double rate = std::numeric_limits<double>::infinity();
  for (const auto member : load_members) {
    if (loads.*member > 0) {
      rate = std::min(rate, capacity.*member / (loads.*member + beside.*member));
    }
  }
  return rate;
}

const Loads store_loads{0, 0, 1, 1, 0, 1};
const Loads reload_loads{0, 0, 1, 0, 1, 1};

} // namespace

double copy_rate(const Scenario& scenario, PriceOf of) {
  const bool to_host = of == PriceOf::store || of == PriceOf::peeled_store;
  return std::min(copy_limit(scenario.device, of, scenario.runtime.schedule),
                  fastest(to_host ? store_loads : reload_loads, capacities(scenario)));
}

CollectiveTime solo_collective(const Scenario& scenario, const CostModel& cost, const Work& work) {
  const CollectiveCost c = cost.collective(work);
  if (c.amount == 0) {
    return {};
  }
  return {c.latency.count() + c.amount / fastest(loads_of(c), capacities(scenario)),
          c.amount * c.scale_up_weight / scenario.device.scale_up_rate.value};
}

double WeightTraffic::end_of(double start, double alone, double Piece::*share) const {
  double now = start;
  for (const Piece& piece : pieces_) {
    if (piece.to <= now) {
      continue;
    }
    const double before = std::max(0.0, piece.from - now);
    if (alone <= before) {
      break;
    }
    alone -= before;
    now += before;
    const double done = (piece.to - now) * (piece.*share);
    if (alone <= done) {
      return now + alone / (piece.*share);
    }
    alone -= done;
    now = piece.to;
  }
  return now + alone;
}

// A gather has at least what fairness leaves to it when an exchange, a store and a reload
// run beside it, and none of these has more than what the gather then leaves.
WeightTraffic::WeightTraffic(const Scenario& scenario, const LayerKind& kind, const CostModel& cost,
                             bool backward) {
  if (!scenario.runtime.overlap_collectives) {
    return;
  }
  const Loads capacity = capacities(scenario);
  Loads exchange;
  for (const Op& op : kind.ops) {
    if (op.work.kind == WorkKind::all_to_all) {
      exchange = loads_of(cost.collective(op.work));
    }
  }
  const CopySchedule schedule = scenario.runtime.schedule;
  const double store_limit = copy_limit(scenario.device, PriceOf::store, schedule);
  const double reload_limit = copy_limit(scenario.device, PriceOf::reload, schedule);
  const double no_limit = std::numeric_limits<double>::infinity();
  double now = 0;
  for (std::size_t g = 0; g < weight_group_count; ++g) {
    Piece piece{0, 0, 0, 0, 0};
    Work work;
    work.bytes = Bytes{kind.parameters[g] * bytes_per_element(scenario.precision.compute)};
    work.group = scenario.trace.shard_group[g];
    for (const WorkKind what : {WorkKind::reduce_scatter, WorkKind::all_gather}) {
      work.kind = what;
      const CollectiveCost c = cost.collective(work);
      if (c.amount == 0 || (what == WorkKind::reduce_scatter && !backward)) {
        continue;
      }
      const Loads own = loads_of(c);
      const Loads taken =
          times(own, least_rate(own, exchange + store_loads + reload_loads, capacity));
      const auto share = [&](double& place, const Loads& loads, double limit) {
        place = std::max(place, share_beside(loads, limit, taken, capacity));
      };
      share(piece.exchange, exchange, no_limit);
      share(piece.store, store_loads, store_limit);
      share(piece.reload, reload_loads, reload_limit);
      if (what == WorkKind::all_gather) {
        piece.from = now + c.latency.count();
        piece.to = now = piece.from + c.amount / fastest(own, capacity);
      }
    }
    if (piece.to > piece.from) {
      pieces_.push_back(piece);
    }
  }
}

} // namespace spillway
