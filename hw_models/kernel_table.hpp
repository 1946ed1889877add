// A measured table of kernel times, and the rate it implies for other shapes.
//
// A row is what one kernel in a queue takes. Where each call was timed alone, the file
// says what that adds (`timing_overhead`) and it is taken off first.
//
// Two steps. A line through all rows, t = t0 + flops / R, by least squares of the
// relative error, takes out that small kernels are slow because they are small.
// What is left of a row, log(t_i / line_i), depends on its shape; at a shape x it is
// the mean over the rows near it, near in the logarithm of the shape:
//
//   log(t(x) / line(x)) = sum_i w_i log(t_i / line_i) / sum_i w_i,
//   w_i = exp(-|log x - log x_i|^2 / 2h^2),   h = log 2, one octave
//
// Single rows of such tables scatter by -10 to +30 % from run to run, so a row's
// own value is deliberately smoothed by its neighbours. Where no row lies within an
// octave the nearest ones decide and the answer says so.
#pragma once

#include "sim/base/work.hpp"
#include "sim/base/yaml.hpp"

#include <array>
#include <string>
#include <vector>

namespace spillway {

class KernelTable {
public:
  enum class Op : std::uint8_t { matmul, grouped_matmul, attention };

  // As a table file calls them; the last column is a time in us.
  [[nodiscard]] static const std::string& name_of(Op op);
  [[nodiscard]] static const std::vector<std::string>& columns_of(Op op);

  // Reads a `kind: kernel_table` file.
  static KernelTable read(const YamlNode& node, Diagnostics& diagnostics);

  struct Answer {
    double rate = 0;          // flop/s in the table's own conditions, scale included
    bool other_heads = false; // attention: no row has these head sizes
    bool beyond = false;      // no row within an octave, or other_heads
  };
  [[nodiscard]] Answer rate(const Work& work) const;
  [[nodiscard]] bool serves(Stage wanted) const; // has rows for this stage (or for any)
  [[nodiscard]] bool any_stage() const { return any_stage_; }

  Op op = Op::matmul;
  DataType type = DataType::bf16;
  Stage stage = Stage::forward; // unless any_stage()
  std::string device;
  std::string source;
  std::string kind;  // measured, or inferred when borrowed from a sibling
  double derate = 1; // share of the micro-benchmark rate at which rows were taken
  std::vector<std::size_t> rate_factors; // of the device that lists this table, not in rate()

private:
  static constexpr std::size_t dimensions = 4;
  using Point = std::array<double, dimensions>; // logarithms, unused ones 0
  [[nodiscard]] static Point point_of(const Work& work);

  bool any_stage_ = false;
  std::vector<Point> points_;
  void fit_line();

  double scale_ = 1;                  // of the rates
  double t0_ = 0, s_per_flop_ = 0;    // the line
  std::vector<double> flops_, times_; // by row, s
  std::vector<double> log_residuals_;
  std::vector<std::int64_t> head_shapes_; // attention: qk_dim * 4096 + v_dim of each row
};

} // namespace spillway
