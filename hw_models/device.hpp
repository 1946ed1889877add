// A system as the simulator sees it: what a GPU computes per second, what its
// links carry, what it shares with its neighbours. Knows no workload.
//
// Every number is a Coefficient: a value with its unit, kind and source, and
// where it is uncertain a range that drives the low/expected/high band.
#pragma once

#include "hw_models/kernel_table.hpp"
#include "sim/base/units.hpp"
#include "sim/base/yaml.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct Coefficient {
  std::string path;                   // as in the file and in --set hardware.<path>
  std::optional<Dimension> dimension; // nullopt: a plain number
  double value = 0;                   // base units: bytes, bytes/s, flop/s, s, or 1
  double low = 0;                     // == value when no range is known
  double high = 0;
  std::string kind; // datasheet | measured | inferred | assumed
  std::string source;
  std::string note; // how the value follows from the source

  [[nodiscard]] bool has_range() const { return low < high; }
};

[[nodiscard]] std::string format_coefficient(const Coefficient& c, double value); // "193 GB/s"

// Which of the copies' resources the traffic between GPU and NIC also takes.
enum class NicPath : std::uint8_t {
  separate, // none: the NIC has its own way to the GPU
  host,     // the CPU's memory pool: the NIC sits behind the CPU
  gpu_link, // the GPU's link to the host, both directions: GPU and NIC share a switch
};

// A board whose power limit sets the clock of matmul and attention kernels.
// Powers are shares of the limit; see CostModel and sim/lower/clock.hpp.
struct ClockRule {
  Coefficient limit_rate;      // flop/s of matmuls that alone hold the board at its limit
  Coefficient attention_power; // while attention runs at speed 1
  Coefficient memory_power;    // while a kernel that is bound by HBM runs
  Coefficient idle_power;      // while only copies or collectives run
  Coefficient max_speed;       // speed of matmuls at the highest clock
  Coefficient exponent;        // what matmuls and attention draw above idle grows with
                               // speed to this power
};

struct Device {
  std::string name;
  std::string title;
  std::int64_t gpus_per_cpu = 1;
  std::int64_t scale_up_domain = 1;
  NicPath nic_path = NicPath::separate;

  Coefficient memory;          // bytes of HBM that the driver reports
  Coefficient context;         // bytes outside the framework's pool
  Coefficient hbm_rate;        // sustained, reads plus writes
  Coefficient kernel_overhead; // seconds per kernel bound by HBM; tables hold theirs
  Coefficient matmul_derate;   // in-step rate over micro-benchmark rate
  Coefficient attention_derate;
  Coefficient shape_factor;   // true rate of one product shape over the table's smoothed one
  Coefficient peak_bf16;      // dense flop/s, for MFU only
  Coefficient host_memory;    // bytes per CPU
  Coefficient host_pool_rate; // bytes/s per CPU, reads plus writes
  Coefficient d2h_rate, d2h_latency;
  Coefficient h2d_rate, h2d_latency;
  std::optional<Coefficient> duplex_rate; // both directions of one GPU together
  Coefficient peeled_copy_rate;
  std::optional<Coefficient> loop_store_share; // of d2h_rate, for a store on a stream of its own
                                               // in a compiled loop; none: all of it
  Coefficient scale_up_rate, scale_up_latency;
  Coefficient all_gather, reduce_scatter, all_to_all; // bus bandwidth / scale_up_rate
  Coefficient scale_out_rate, scale_out_latency, scale_out_efficiency;

  std::optional<ClockRule> clock; // none: kernel times do not depend on what else runs

  std::vector<std::shared_ptr<const KernelTable>> tables;
  std::vector<Coefficient> rate_factors; // that tables of other devices name

  // All of them, in the order of the file; pointers into this object.
  [[nodiscard]] std::vector<Coefficient*> coefficients();
  [[nodiscard]] std::vector<const Coefficient*> coefficients() const;
};

// Reads a `kind: hardware` map. A kernel table is a map of kind kernel_table or the
// file of one: a bare name is looked up in `table_folder`, a path ("./own.yaml") is
// relative to the file that says it. The table of another device is a map of such a file
// and what its rates are multiplied by, {table: FILE, rate_factors: [NAME, ...]}; the names
// are those of `gpu.rate_factors`, so that tables may share an uncertain factor.
[[nodiscard]] Device read_device(const YamlNode& node, const std::filesystem::path& table_folder,
                                 Diagnostics& diagnostics);

// The files of the kernel tables that such a map names, where read_device looks for them.
[[nodiscard]] std::vector<std::filesystem::path> table_files(
    const YamlNode& node, const std::filesystem::path& table_folder);

} // namespace spillway
