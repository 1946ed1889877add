// Work: what one operation has to do, in hardware-free terms.
//
// The one noun that workloads produce and hardware models price, so that
// neither has to know the other.
#pragma once

#include "sim/base/units.hpp"

#include <cstdint>

namespace spillway {

enum class WorkKind : std::uint8_t {
  none,
  matmul,         // groups x [m, k] x [k, n]; groups > 1 is a grouped product, m rows per group
  attention,      // causal fused attention, forward or backward by `stage`
  memory,         // bound by HBM: `bytes` read plus written
  all_gather,     // `bytes` = size of the gathered result
  reduce_scatter, // `bytes` = size of the input that is reduced
  all_to_all, // `bytes` = what one rank holds before or after, the larger, its own part included
};

// Which measured kernel table applies.
enum class Stage : std::uint8_t { forward, dgrad, wgrad, backward };

enum class DataType : std::uint8_t { fp32, bf16, fp8 };

[[nodiscard]] constexpr std::int64_t bytes_per_element(DataType type) {
  switch (type) {
  case DataType::fp32: return 4;
  case DataType::bf16: return 2;
  case DataType::fp8: return 1;
  }
  return 0;
}

// The ranks that take part in a collective: `size` of them, `stride` apart in
// the numbering of GPUs. Neighbouring numbers sit in one scale-up domain.
struct RankGroup {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

struct Work {
  WorkKind kind = WorkKind::none;
  Stage stage = Stage::forward;
  DataType type = DataType::bf16;

  // matmul
  std::int64_t groups = 1, m = 0, n = 0, k = 0;
  // attention; scores are [batch, heads, seq, seq]
  std::int64_t batch = 0, heads = 0, kv_heads = 0, seq = 0, qk_dim = 0, v_dim = 0;
  std::int64_t window = 0; // tokens that each one sees, itself included; 0 = all before it
  // memory, collectives
  Bytes bytes;
  RankGroup group;

  // Floating-point operations; causal attention counts half of the square, a window W of
  // S tokens S W - W^2 / 2 pairs; its backward 2.5 times the forward (five products for two).
  [[nodiscard]] Flops flops() const;
  [[nodiscard]] bool is_collective() const {
    return kind == WorkKind::all_gather || kind == WorkKind::reduce_scatter ||
           kind == WorkKind::all_to_all;
  }
};

[[nodiscard]] inline Flops Work::flops() const {
  if (kind == WorkKind::matmul) {
    return Flops{2.0 * static_cast<double>(groups) * static_cast<double>(m) *
                 static_cast<double>(n) * static_cast<double>(k)};
  }
  if (kind == WorkKind::attention) {
    const auto sequence = static_cast<double>(seq);
    const auto seen = static_cast<double>(window > 0 && window < seq ? window : seq);
    const double pairs = static_cast<double>(batch) * static_cast<double>(heads) * seen *
                         (2 * sequence - seen); // twice those that are computed
    const double forward = pairs * static_cast<double>(qk_dim + v_dim);
    return Flops{stage == Stage::backward ? 2.5 * forward : forward};
  }
  return Flops{};
}

} // namespace spillway
