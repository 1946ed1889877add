// Kernel tables: every shape is kept, the line through them is their summary.
#include "hw_models/calibration/fits.hpp"

#include <limits>
#include <utility>

namespace spillway {
namespace {

// A shape may be slow for reasons of its own, but not many times as fast as the others.
constexpr double most_speed = 3;
constexpr double any = std::numeric_limits<double>::infinity();

void add_table(const std::string& name, const std::vector<Sample>& samples, MeasuredTable table,
               Calibration& out, Diagnostics& diagnostics) {
  if (samples.empty()) {
    return;
  }
  std::optional<LineFit> fit = fit_line(samples, {name, -any, most_speed - 1}, diagnostics);
  if (!fit) {
    return;
  }
  table.rows = fit->samples;
  out.tables.push_back(std::move(table));
  out.fits.push_back({name, Dimension::flop_rate, true, std::move(*fit)});
}

} // namespace

void fit_tables(const Measurements& measured, Calibration& out, Diagnostics& diagnostics) {
  using Op = KernelTable::Op;
  add_table("matmul", measured.matmul,
            {Op::matmul,
             "any",
             "matmul-bf16",
             {"C[m,n] = A[m,k] B[k,n]: m counts tokens in a forward product."},
             {}},
            out, diagnostics);
  add_table("grouped_matmul", measured.grouped_matmul,
            {Op::grouped_matmul,
             "any",
             "grouped-matmul-bf16",
             {"Expert products, m rows for each of `groups` experts, as strided batches of equal",
              "size. n and k are the sizes of the forward product in all three stages; the work is",
              "2 groups m n k FLOP in each."},
             {}},
            out, diagnostics);
  const std::string work = "Causal, bf16. Work of the forward: batch heads seq^2 (qk_dim + v_dim) "
                           "FLOP; of the backward: 2.5";
  add_table("attention forward", measured.attention_forward,
            {Op::attention, "forward", "attention-gqa-forward-bf16", {work, "times that."}, {}},
            out, diagnostics);
  add_table("attention backward", measured.attention_backward,
            {Op::attention,
             "backward",
             "attention-gqa-backward-bf16",
             {work, "times that. Time of forward and backward less the time of the forward alone."},
             {}},
            out, diagnostics);
}

} // namespace spillway
