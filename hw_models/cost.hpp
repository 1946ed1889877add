// What work costs on a device.
//
//   matmul      flops / (table rate x matmul_derate / table derate)
//   attention   flops / (table rate x attention_derate / table derate)
//               the rate of another device's table times the factors that go with it
//   memory      overhead + bytes / hbm_rate
//
// A table's times stand for all that one kernel in a queue costs, its launch included. The
// rates of matmul and attention are multiplied by the clock's speed, which is 1 unless
// the device has a clock rule and someone has solved it.
//
//   copies, collectives: a latency and an amount over weighted shared resources
//
// A collective among g ranks, p of them in each of d scale-up domains (g = p d),
// moves per rank, for a gathered or reduced size of V bytes:
//
//   scale-up   V (p - 1) / p   over rate x efficiency (the bus bandwidth convention)
//   scale-out  V (d - 1) / (d p)  over NIC rate x efficiency: each rank fetches its
//              counterparts' shards once, then they are spread inside the domain
//
// and the two phases overlap, so the slower one decides. An all-to-all of V bytes
// sends V (p - 1) / g inside and V (g - p) / g outside the domain.
//
// Traffic of the NIC may also take from what copies use (NicPath): both directions
// from the host pool, or one direction each from the GPU's link to the host. The
// unit of such a flow is then a byte on that resource, so that max-min fairness
// gives it the same bandwidth there as a copy.
#pragma once

#include "hw_models/device.hpp"
#include "sim/base/work.hpp"

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace spillway {

struct CollectiveCost {
  Seconds latency{0};
  double amount = 0; // units of the flow; 0 = nothing to do
  // Bytes on the resource per unit of flow.
  double scale_up_weight = 0;
  double scale_out_weight = 0;
  double host_weight = 0;
  double link_weight = 0; // each direction of the GPU's link to the host
};

// The sizes of a product without their order: its forward and both backward
// products are one shape.
using ProductShape = std::array<std::int64_t, 4>; // groups, then ascending
[[nodiscard]] ProductShape product_shape(const Work& work);
[[nodiscard]] std::string shape_name(const ProductShape& shape);

// Table look-ups do not depend on any coefficient, so they are shared by the re-runs that
// vary coefficients of one device. Not to be used for another one: it refers to its tables.
class RateCache {
public:
  struct Entry {
    double rate = 0;   // flop/s in the table's conditions
    double derate = 1; // of the table
    bool beyond = false;
    const KernelTable* table = nullptr;
  };
  [[nodiscard]] const Entry& look_up(const Device& device, const Work& work);

private:
  using Key = std::array<std::int64_t, 12>;
  std::map<Key, Entry> entries_;
};

class CostModel {
public:
  // `gpus`: all of the job, which fill scale-up domains evenly.
  CostModel(const Device& device, std::int64_t gpus, RateCache& cache);
  // Lets one product shape run at `factor` times the rate of the others.
  void vary_shape(const ProductShape& shape, double factor);
  void set_speed(double speed) { speed_ = speed; } // of matmul and attention kernels

  // Time of a matmul, attention or memory kernel; none is 0.
  [[nodiscard]] Seconds kernel_time(const Work& work) const;
  [[nodiscard]] CollectiveCost collective(const Work& work) const;

  // Shapes that lie outside every measured table, in words.
  [[nodiscard]] const std::set<std::string>& extrapolations() const { return extrapolations_; }
  [[nodiscard]] const Device& device() const { return *device_; }

private:
  const Device* device_;
  std::int64_t gpus_per_domain_;
  RateCache* cache_;
  std::optional<ProductShape> varied_;
  double varied_factor_ = 1;
  double speed_ = 1;
  mutable std::set<std::string> extrapolations_;
};

} // namespace spillway
