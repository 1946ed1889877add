// Kernel tables: every shape is kept, the line through them is their summary.
#include "hw_models/calibration/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace spillway {
namespace {

// A shape may be slow for reasons of its own, but neither as slow as a slip of units
// makes it nor many times as fast as the others.
constexpr double most_slowness = 10;
constexpr double most_speed = 3;

void add_table(const std::string& name, const std::vector<Sample>& samples, MeasuredTable table,
               Calibration& out, Diagnostics& diagnostics) {
  if (samples.empty()) {
    return;
  }
  std::optional<LineFit> fit =
      fit_line(samples, {name, 1 / most_slowness - 1, most_speed - 1, true}, diagnostics);
  if (!fit) {
    return;
  }
  table.rows = fit->samples;
  out.tables.push_back(std::move(table));
  out.fits.push_back({name, Dimension::flop_rate, true, std::move(*fit)});
}

// What timing one product at a time adds, for the tables of products.
void find_timing_overhead(Calibration& out) {
  const auto launch =
      std::find_if(out.coefficients.begin(), out.coefficients.end(), [](const auto& fitted) {
        return fitted.coefficient.path == "gpu.kernel_overhead";
      });
  const auto line = std::find_if(out.fits.begin(), out.fits.end(),
                                 [](const NamedFit& fit) { return fit.name == "matmul"; });
  if (launch == out.coefficients.end() || line == out.fits.end()) {
    return;
  }
  const Sample& smallest =
      *std::min_element(line->line.samples.begin(), line->line.samples.end(),
                        [](const Sample& a, const Sample& b) { return a.seconds < b.seconds; });
  const double queued = launch->coefficient.value;
  if (smallest.work / line->line.rate > queued || smallest.seconds <= queued) {
    add_dropped(out.dropped, "gemm", "no product small enough to tell what timing adds", 0);
    return;
  }
  for (MeasuredTable& table : out.tables) {
    if (table.op != KernelTable::Op::attention) { // timed many in a row
      table.timing_overhead = smallest.seconds - queued;
      table.timing_note =
          fmt::format("calls are timed one by one: the smallest product takes {}, an empty kernel "
                      "in a queue {}",
                      format_seconds(smallest.seconds), format_seconds(queued));
    }
  }
}

} // namespace

void fit_tables(const Measurements& measured, Calibration& out, Diagnostics& diagnostics) {
  using Op = KernelTable::Op;
  add_table("matmul", measured.matmul,
            {Op::matmul,
             "any",
             "matmul-bf16",
             {"C[m,n] = A[m,k] B[k,n]: m counts tokens in a forward product."},
             {},
             0,
             {}},
            out, diagnostics);
  add_table("grouped_matmul", measured.grouped_matmul,
            {Op::grouped_matmul,
             "any",
             "grouped-matmul-bf16",
             {"Expert products, m rows for each of `groups` experts, as strided batches of equal",
              "size. n and k are the sizes of the forward product in all three stages; the work is",
              "2 groups m n k FLOP in each."},
             {},
             0,
             {}},
            out, diagnostics);
  const std::string work = "Causal, bf16. Work of the forward: batch heads seq^2 (qk_dim + v_dim) "
                           "FLOP; of the backward: 2.5";
  add_table(
      "attention forward", measured.attention_forward,
      {Op::attention, "forward", "attention-gqa-forward-bf16", {work, "times that."}, {}, 0, {}},
      out, diagnostics);
  add_table("attention backward", measured.attention_backward,
            {Op::attention,
             "backward",
             "attention-gqa-backward-bf16",
             {work, "times that. Time of forward and backward less the time of the forward alone."},
             {},
             0,
             {}},
            out, diagnostics);
  find_timing_overhead(out);
}

} // namespace spillway
