// A measured table of kernel times, and the rate it implies for other shapes.
//
// The rate (flops per second) at a shape is a weighted geometric mean of the
// rates of the rows near it, near meaning in the logarithm of the shape:
//
//   log rate(x) = sum_i w_i log rate_i / sum_i w_i,  w_i = exp(-|log x - log x_i|^2 / 2h^2)
//
// with h = log 2, one octave. Single rows of such tables scatter by -10 to +30 %
// from run to run, so a row's own value is deliberately smoothed by its
// neighbours. Where no row lies within an octave the nearest ones decide and the
// answer says so.
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

  // Reads a `kind: kernel_table` file.
  static KernelTable read(const YamlNode& node, Diagnostics& diagnostics);

  struct Answer {
    double rate = 0;          // flop/s in the table's own conditions, scale included
    bool other_heads = false; // attention: no row has these head sizes
    bool beyond = false;      // no row within an octave, or other_heads
  };
  [[nodiscard]] Answer rate(const Work& work) const;
  [[nodiscard]] bool serves(Stage stage) const; // has rows for this stage (or for any)
  [[nodiscard]] bool any_stage() const { return any_stage_; }

  Op op = Op::matmul;
  DataType type = DataType::bf16;
  Stage stage = Stage::forward; // unless any_stage()
  std::string device;
  std::string source;
  std::string kind;  // measured, or inferred when borrowed from a sibling
  double derate = 1; // share of the micro-benchmark rate at which rows were taken

private:
  static constexpr std::size_t dimensions = 4;
  using Point = std::array<double, dimensions>; // logarithms, unused ones 0
  [[nodiscard]] static Point point_of(const Work& work);

  bool any_stage_ = false;
  std::vector<Point> points_;
  std::vector<double> log_rates_;
  std::vector<std::int64_t> head_shapes_; // attention: qk_dim * 4096 + v_dim of each row
};

} // namespace spillway
