// Micro-benchmark records to what a hardware file says of a machine.
//
// What is fitted, and from which records (line_fit.hpp has the formulas, the intervals
// and what is refused):
//
//   gpu.memory           device: the total, exactly
//   gpu.hbm_rate         hbm_stream: t0 + 2 bytes_each_way / rate. A working set of at
//                        most 4 times the L2 cache is dropped: a quarter or more of it
//                        can be served by the cache
//   gpu.kernel_overhead  launch: the median, from the fastest to the slowest
//   host.d2h, host.h2d   copy: latency + bytes / rate, one direction at a time
//   host.duplex_rate     copy, both_s: the same with the bytes of both directions. Its
//                        range is united with the sums that copies both ways reached
//                        beside kernels (interference), since that is when they run.
//                        Refused: copies beside kernels 3 times as fast or as slow as
//                        without, repeats that differ by more than 10 %, and more than
//                        10 % above what both directions reach one at a time
//   gpu.kernels          gemm, batched_gemm, attention: a table row per shape. The line
//                        t0 + flops / rate through a table is reported as its summary;
//                        a row in less than a third of what the line through the others
//                        says, or in more than 10 times as much, is refused. Single products are
//                        timed one call at a time, so what the smallest one takes beyond a launch
//                        in a queue is the timing's (`timing_overhead`), if its flops take less
//                        than that launch at the line's rate
//   gpu.clock            power and duty, s' being the rate of a product over its rate
//                        alone at the limit, powers over the mean at that limit:
//     limit_rate         median over gemm shapes at the limit: clock below its highest,
//                        power at least 0.9 of the limit. Rates alone over the table's are
//                        reported; the model's speed is relative to the tables, so where
//                        they differ, `matmul_derate` has to say so
//     idle_power p_x     d2h and h2d, alone
//     exponent e         duty cycles with copies: the power of matmuls, P = (mean power
//                        - (1 - share) p_x) / share, over s': (P - p_x) /
//                        ((1 - p_x) rate / limit_rate) = s'^(e - 1)
//     memory_power       duty cycles with hbm at the limit: what matmuls leave, weighted by
//                        the square of the filler's share
//     attention_power    from p_x + (p_a - p_x) s'^e = 1 at the clock of attention alone
//     max_speed          the highest s' of a duty cycle
//                        Cycles whose filler takes less than 0.05 of them are left out.
//
// A derate, the node and the network are no micro-benchmark's business and
// stay with the file that extends what is written.
//
// One more fit is one more function in the list in calibration.cpp.
#pragma once

#include "hw_models/calibration/line_fit.hpp"
#include "hw_models/device.hpp"

#include <string>
#include <vector>

namespace spillway {

struct FittedCoefficient {
  Coefficient coefficient;
  std::string note; // what was fitted, over how many records, and how well
  std::size_t records = 0;
  std::optional<std::size_t> fit; // in Calibration::fits
};

struct NamedFit {
  std::string name; // "copy d2h"
  Dimension rate_dimension = Dimension::byte_rate;
  bool of_table = false;
  LineFit line;
};

struct MeasuredTable {
  KernelTable::Op op = KernelTable::Op::matmul;
  std::string stage;              // forward, backward, any
  std::string suffix;             // of the file's name: "matmul-bf16"
  std::vector<std::string> about; // lines of comment
  std::vector<Sample> rows;
  double timing_overhead = 0; // s that timing adds to every row
  std::string timing_note;
};

// Work beside copies against the same work alone.
struct BesideCopies {
  std::string work;
  std::string copies;
  double seconds = 0;
  std::optional<double> over_alone; // nothing where the work was not measured alone
  double d2h_rate = 0, h2d_rate = 0;
};

struct Calibration {
  std::vector<std::string> files;
  std::size_t records = 0;
  std::string device;
  std::vector<FittedCoefficient> coefficients; // in the order of a hardware file
  std::vector<NamedFit> fits;
  std::vector<MeasuredTable> tables;
  std::vector<BesideCopies> beside;
  std::vector<Dropped> dropped;
};

// Throws InputError with every measurement that is too sparse or contradicts another.
[[nodiscard]] Calibration calibrate(const Measurements& measurements);

} // namespace spillway
