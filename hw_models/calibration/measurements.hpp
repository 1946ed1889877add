// Micro-benchmark records, one JSON object a line, as they were measured.
//
//   kind          fields; times in seconds, sizes in bytes
//   device        name, total, l2: the GPU, its memory and its L2 cache
//   gemm          dtype, m, n, k, s: C[m,n] = A^T B with A [k,m], B [k,n]
//   batched_gemm  the same with b, the number of equal products in one call
//   attention     dtype, causal, batch, seq, heads, kv_heads, head_dim, fwd_s,
//                 fwd_bwd_s: forward alone, and forward with backward
//   hbm_stream    bytes_each_way, s: a kernel that reads so many and writes as many
//   copy          bytes, d2h_s, h2d_s: one pinned copy; both_s (optional): a copy each
//                 way at once, time per pair
//   launch        s: one of many empty kernels in a row
//   interference  work, copies (none, d2h, h2d, both), s: one work item beside such
//                 copies; d2h_GBps, h2d_GBps: what the copies reached
//   power         work (gemm with m, n, k; grouped_gemm, attention_forward,
//                 attention_backward; hbm_copy, hbm_add, hbm_zero; d2h, h2d; idle), alone
//                 for seconds: tflops of the first four; power_w, limit_w, sm_clock_mhz,
//                 max_sm_clock_mhz: mean board power and its limit, mean and highest clock
//   duty          filler (d2h, h2d, hbm), m, n, k, gemm_s, filler_s: cycles of products and
//                 a filler, shorter than the clock needs to follow, time of both in one;
//                 tflops of the products; power and clocks as for power
//   pin, transient  accepted and not used
//
// The library that is measured stores matrices by columns, so its m counts output
// features and its n tokens; our tables count tokens in m, and the two change places
// here. Rates that a record derives from its time (tflops, GBps, ...) must agree with
// it: a record that contradicts itself is refused. Other fields are ignored.
#pragma once

#include "sim/base/error.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// The sizes that make two records the same measurement; unused ones are 0.
using Shape = std::array<std::int64_t, 6>;

// A time at a size: what every fit starts from.
struct Sample {
  Shape shape{};      // bytes; or the sizes of a table's row, in its order
  double work = 0;    // bytes that move, or flops
  double seconds = 0; // above 0
  Place place;
};

struct DeviceRecord {
  std::string name;
  std::int64_t total = 0;
  std::int64_t l2 = 0;
  Place place;
};

struct InterferenceRecord {
  std::string work;
  std::string copies;
  double seconds = 0;
  double d2h_rate = 0; // bytes/s
  double h2d_rate = 0;
  Place place;
};

struct BoardState {
  double power = 0, limit = 0;         // W
  double clock = 0, highest_clock = 0; // MHz
};

struct PowerRecord {
  std::string work;
  Shape shape{};   // gemm: m, n, k
  double rate = 0; // flop/s; 0 where the work is no product or attention
  BoardState board;
  Place place;
};

struct DutyRecord {
  std::string filler;
  Shape shape{};
  double matmul_s = 0, filler_s = 0;
  double rate = 0;
  BoardState board;
  Place place;
};

// Records that no fit saw, and why.
struct Dropped {
  std::string kind;
  std::string reason;
  std::size_t records = 0;
};

struct Measurements {
  std::vector<std::string> files; // without folders
  std::size_t records = 0;
  DeviceRecord device;
  std::vector<Sample> matmul;                                // m, n, k
  std::vector<Sample> grouped_matmul;                        // groups, m, n, k
  std::vector<Sample> attention_forward, attention_backward; // batch .. v_dim
  std::vector<Sample> stream;                                // work: read and written bytes
  std::vector<Sample> d2h, h2d, duplex;                      // duplex: both copies' bytes
  std::vector<Sample> launch;
  std::vector<InterferenceRecord> interference;
  std::vector<PowerRecord> power;
  std::vector<DutyRecord> duty;
  std::vector<Dropped> dropped;
};

// Throws InputError with file and line of every record that cannot be read, and where
// there is not exactly one device.
[[nodiscard]] Measurements load_measurements(const std::vector<std::filesystem::path>& paths);

// Adds to the entry of that kind and reason.
void add_dropped(std::vector<Dropped>& dropped, const std::string& kind, const std::string& reason,
                 std::size_t records = 1);

} // namespace spillway
