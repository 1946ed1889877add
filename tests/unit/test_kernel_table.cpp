#include "hw_models/kernel_table.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

using namespace spillway;

namespace {

// Rows start on line 9.
std::string table_text(const std::string& op, const std::string& columns, const std::string& rows,
                       const std::string& extra = "") {
  return "kind: kernel_table\n"
         "op: " +
         op +
         "\n"
         "dtype: bf16\n"
         "device: a test\n"
         "provenance: measured\n"
         "source: {title: made up}\n"
         "columns: [" +
         columns + "]\nrows: |\n" + rows + (extra.empty() ? "stage: any\n" : extra);
}
std::string matmul_text(const std::string& rows, const std::string& extra = "") {
  return table_text("matmul", "m, n, k, us", rows, extra);
}
std::string attention_text(const std::string& rows) {
  return table_text("attention", "batch, heads, kv_heads, seq, qk_dim, v_dim, us", rows,
                    "stage: forward\n");
}

KernelTable read(const std::string& text) {
  Diagnostics diagnostics;
  KernelTable table = KernelTable::read(parse_yaml(text, "t.yaml"), diagnostics);
  CHECK(report_text(diagnostics) == "");
  return table;
}

std::string reports(const std::string& text) {
  Diagnostics diagnostics;
  static_cast<void>(KernelTable::read(parse_yaml(text, "t.yaml"), diagnostics));
  return report_text(diagnostics);
}

Work matmul(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups = 1) {
  Work work;
  work.kind = WorkKind::matmul;
  work.groups = groups;
  work.m = m;
  work.n = n;
  work.k = k;
  return work;
}

Work attention(std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t seq,
               std::int64_t qk_dim, std::int64_t v_dim) {
  Work work;
  work.kind = WorkKind::attention;
  work.batch = batch;
  work.heads = heads;
  work.kv_heads = kv_heads;
  work.seq = seq;
  work.qk_dim = qk_dim;
  work.v_dim = v_dim;
  return work;
}

// 2 1024^3 = 2147483648 FLOP in 2147.483648 us are 1 TFLOP/s; 2 4096 1024^2 =
// 8589934592 FLOP in the same time are 4.
const std::string row_1 = "  1024 1024 1024 2147.483648\n";
const std::string row_4 = "  4096 1024 1024 2147.483648\n";

doctest::Approx about(double value) {
  return doctest::Approx(value).epsilon(1e-9);
}

} // namespace

TEST_CASE("A table of one row has that row's rate everywhere") {
  const KernelTable table = read(matmul_text(row_1));
  CHECK(table.rate(matmul(1024, 1024, 1024)).rate == about(1e12));
  CHECK(table.rate(matmul(7, 300, 100000)).rate == about(1e12));
  CHECK(table.rate(matmul(1, 1, 1'000'000'000)).rate == about(1e12));
}

TEST_CASE("A table of one row reproduces that row") {
  // 2 x 3000 x 500 x 700 = 2.1e9 FLOP in 12.5 us.
  CHECK(read(matmul_text("  3000 500 700 12.5\n")).rate(matmul(3000, 500, 700)).rate ==
        about(2.1e9 / 12.5e-6));
  // 4 x 16 x 512^2 x (192 + 128) = 5368709120 FLOP in 40 us.
  CHECK(read(attention_text("  4 16 2 512 192 128 40\n"))
            .rate(attention(4, 16, 2, 512, 192, 128))
            .rate == about(5368709120.0 / 40e-6));
}

// 2 x 1000^3 = 2e9 FLOP in 12 us and twice as many in 22 us: 10 us for 2e9 more are
// R = 200 TFLOP/s, and t0 = 12 - 10 = 2 us. Nothing is left of either row, so every shape
// takes 2 us + flops / R: 8e9 in 42 us, 2 x 500 x 3000 x 700 = 2.1e9 in 12.5 us, and a
// very large one runs at R.
TEST_CASE("Two rows of one family fix a start-up time and a rate") {
  const KernelTable table = read(matmul_text("  1000 1000 1000 12\n  2000 1000 1000 22\n"));
  CHECK(table.rate(matmul(1000, 1000, 1000)).rate == about(2e9 / 12e-6));
  CHECK(table.rate(matmul(2000, 1000, 1000)).rate == about(4e9 / 22e-6));
  CHECK(table.rate(matmul(4000, 1000, 1000)).rate == about(8e9 / 42e-6));
  CHECK(table.rate(matmul(500, 3000, 700)).rate == about(2.1e9 / 12.5e-6));
  CHECK(table.rate(matmul(1'000'000, 1'000'000, 1'000'000)).rate == about(2e14));
}

// Times of 5 us + flops / 100 TFLOP/s: 2e9 -> 25, 4e9 -> 45, 3e9 -> 35, 16e9 -> 165 us.
TEST_CASE("Rows on one line give that line's rate at any other shape") {
  const std::string rows = "  1000 1000 1000 25\n  2000 1000 1000 45\n  500 3000 1000 35\n"
                           "  2000 2000 2000 165\n";
  const KernelTable table = read(matmul_text(rows));
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{2000, 2000, 2000}, std::array<std::int64_t, 3>{500, 3000, 1000},
        std::array<std::int64_t, 3>{1500, 1500, 1500}, std::array<std::int64_t, 3>{10, 20, 30},
        std::array<std::int64_t, 3>{100000, 4000, 7000}}) {
    CAPTURE(m);
    const double flops =
        2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    CHECK(table.rate(matmul(m, n, k)).rate == about(flops / (5e-6 + flops / 1e14)));
  }
}

// A line through 2e9 FLOP in 10 us and 8e9 in 60 us would start at -20/3 us. A start-up
// time cannot be negative: what is left are rates of 200 and 133.3 TFLOP/s, and half way
// between the shapes their mean, 4e9 FLOP in sqrt(10 x 60) = 24.4948974278 us.
TEST_CASE("A start-up time is never negative") {
  const KernelTable table = read(matmul_text("  1000 1000 1000 10\n  4000 1000 1000 60\n"));
  CHECK(table.rate(matmul(2000, 1000, 1000)).rate == about(std::sqrt(2e14 * 8e9 / 60e-6)));
}

// m = 2048 is one octave from both rows: equal weights, sqrt(1 x 4) = 2 TFLOP/s.
// m = 1024 lies on the first row and two octaves from the second, whose weight is
// exp(-(2 log 2)^2 / (2 (log 2)^2)) = exp(-2) = 0.1353352832. The mean of the logarithms is
// log 4 x 0.1353352832 / 1.1353352832 = log 4 x 0.1192029220, and 4^0.1192029220 =
// 1.179688403. Symmetrically, m = 4096 gives 4 / 1.179688403.
TEST_CASE("Two rows give the mean of their logarithms, weighted by distance in octaves") {
  const KernelTable table = read(matmul_text(row_1 + row_4));
  CHECK(table.rate(matmul(2048, 1024, 1024)).rate == about(2e12));
  CHECK(table.rate(matmul(1024, 1024, 1024)).rate == about(1.179688403e12));
  CHECK(table.rate(matmul(4096, 1024, 1024)).rate == about(4e12 / 1.179688403));
  // A distance in n or k that both rows share changes no weight.
  CHECK(table.rate(matmul(2048, 1536, 700)).rate == about(2e12));
}

// At m = 8192 the distances are 3 and 1 octaves: the first row's weight relative to the
// second is exp(-(9 - 1) / 2) = exp(-4) = 0.01831563889, so the rate is
// 4^(1 / 1.01831563889) = 4^0.9820137900 = 3.901496431 TFLOP/s.
TEST_CASE("Beyond the last row the nearest rows decide, without a jump") {
  const KernelTable table = read(matmul_text(row_1 + row_4));
  CHECK(table.rate(matmul(8192, 1024, 1024)).rate == about(3.901496431e12));
  // So far outside that plain weights would vanish.
  CHECK(table.rate(matmul(1'000'000'000, 1024, 1024)).rate == about(4e12));
}

// Distance as in the formula: the root of the sum of the squared logarithms.
TEST_CASE("A shape with no row within an octave is beyond the table") {
  const KernelTable table = read(matmul_text(row_1 + row_4));
  const auto beyond = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return table.rate(matmul(m, n, k)).beyond;
  };
  CHECK_FALSE(beyond(1024, 1024, 1024));
  CHECK_FALSE(beyond(1900, 1024, 1024));
  CHECK_FALSE(beyond(2200, 1024, 1024)); // 0.9 octaves from the second row
  CHECK_FALSE(beyond(4096 * 19 / 10, 1024, 1024));
  CHECK(beyond(4096 * 21 / 10, 1024, 1024));
  CHECK_FALSE(beyond(1024 * 10 / 19, 1024, 1024));
  CHECK(beyond(1024 * 10 / 21, 1024, 1024));
  CHECK(beyond(1024, 2100, 1024));
  CHECK(beyond(1024, 1024, 480));
  // 0.77 octaves in each of two dimensions are 1.08 together, 0.63 in each are 0.90.
  CHECK(beyond(1024, 1740, 1740));
  CHECK_FALSE(beyond(1024, 1580, 1580));
}

TEST_CASE("A gap between rows is beyond the table as much as its outside") {
  const KernelTable table = read(matmul_text(row_1 + "  65536 1024 1024 2147.483648\n"));
  CHECK(table.rate(matmul(8192, 1024, 1024)).beyond);
  CHECK_FALSE(table.rate(matmul(40000, 1024, 1024)).beyond);
}

// Rows of one shape count separately: sqrt(1 x 4) from 1 and 4 TFLOP/s.
TEST_CASE("Repeated rows are averaged in the logarithm") {
  const KernelTable table = read(matmul_text(row_1 + "  1024 1024 1024 536.870912\n"));
  CHECK(table.rate(matmul(1024, 1024, 1024)).rate == about(2e12));
  const KernelTable thrice = read(matmul_text(row_1 + row_1 + "  1024 1024 1024 134.217728\n"));
  CHECK(thrice.rate(matmul(1024, 1024, 1024)).rate == about(1e12 * 2.5198420998)); // 16^(1/3)
}

TEST_CASE("A scale multiplies the rate and says what kind of number it then is") {
  const KernelTable plain = read(matmul_text(row_1));
  CHECK(plain.kind == "measured");
  CHECK(plain.derate == 1);
  const KernelTable table = read(matmul_text(
      row_1, "stage: any\nscale: {value: 0.5, kind: inferred, note: why}\nderate: 0.73\n"));
  CHECK(table.rate(matmul(1024, 1024, 1024)).rate == about(0.5e12));
  CHECK(table.kind == "inferred");
  CHECK(table.derate == 0.73); // kept beside the rate, not in it
}

TEST_CASE("A table serves its own stage, or any") {
  const KernelTable any = read(matmul_text(row_1));
  CHECK(any.any_stage());
  for (const Stage stage : {Stage::forward, Stage::dgrad, Stage::wgrad, Stage::backward}) {
    CHECK(any.serves(stage));
  }
  const KernelTable wgrad = read(matmul_text(row_1, "stage: wgrad\n"));
  CHECK_FALSE(wgrad.any_stage());
  CHECK(wgrad.serves(Stage::wgrad));
  CHECK_FALSE(wgrad.serves(Stage::forward));
  CHECK_FALSE(wgrad.serves(Stage::dgrad));
  CHECK(wgrad.op == KernelTable::Op::matmul);
  CHECK(wgrad.type == DataType::bf16);
  CHECK(wgrad.device == "a test");
  CHECK(wgrad.source == "made up");
}

// 4 groups of 2 1024^3 FLOP in 2147.483648 us are 4 TFLOP/s.
TEST_CASE("Rows per group decide about a grouped product, not the number of groups") {
  const KernelTable table =
      read(table_text("grouped_matmul", "groups, m, n, k, us",
                      "  4 1024 1024 1024 2147.483648\n  64 2048 1024 1024 2147.483648\n"));
  // The second row: 64 x 2 2048 1024^2 FLOP in the same time, 128 TFLOP/s.
  for (const std::int64_t groups : {2, 4, 1000}) {
    const KernelTable::Answer low = table.rate(matmul(1024, 1024, 1024, groups));
    const KernelTable::Answer high = table.rate(matmul(2048, 1024, 1024, groups));
    CHECK_FALSE(low.beyond);
    CHECK(low.rate * high.rate == about(4e12 * 128e12)); // symmetric about the middle
    CHECK(low.rate < high.rate);
  }
}

// 1 8 1024^2 (64 + 64) = 1073741824 FLOP in 1073.741824 us: 1 TFLOP/s; the second row's
// 1 8 1024^2 (128 + 64) = 1610612736 FLOP in 201.326592 us: 8 TFLOP/s.
TEST_CASE("Attention takes the rows of its own head shape only") {
  const KernelTable table = read(attention_text("  1 8 8 1024 64 64 1073.741824\n"
                                                "  1 8 8 1024 128 64 201.326592\n"));
  const KernelTable::Answer first = table.rate(attention(1, 8, 8, 1024, 64, 64));
  CHECK(first.rate == about(1e12));
  CHECK_FALSE(first.beyond);
  CHECK(table.rate(attention(1, 8, 8, 1024, 128, 64)).rate == about(8e12));
  // Neither: all rows count and the answer says so. Both are equally far: sqrt(1 x 8).
  const KernelTable::Answer other = table.rate(attention(1, 8, 8, 1024, 64, 128));
  CHECK(other.rate == about(2.8284271247e12));
  CHECK(other.beyond);
}

// Batch and heads count as a product; the ratio of heads to key/value heads by itself.
TEST_CASE("Attention depends on sequences times heads, length and sharing of heads") {
  const KernelTable table = read(attention_text("  1 8 8 1024 64 64 1073.741824\n"
                                                "  1 8 2 1024 64 64 268.435456\n"));
  CHECK(table.rate(attention(1, 8, 4, 1024, 64, 64)).rate == about(2e12)); // half way
  CHECK(table.rate(attention(1, 8, 8, 1024, 64, 64)).rate == about(1.179688403e12));
  CHECK(table.rate(attention(4, 2, 2, 1024, 64, 64)).rate == about(1.179688403e12));
  // Ratios of 9 and 6 beside 4: 1.17 and 0.58 octaves; the latter with 12 heads beside 8.
  CHECK(table.rate(attention(1, 9, 1, 1024, 64, 64)).beyond);
  CHECK_FALSE(table.rate(attention(2, 6, 1, 1024, 64, 64)).beyond);
}

// The rows of other head shapes do not enter the rate, so they cannot vouch for it.
TEST_CASE("Rows of other head shapes do not count as near") {
  const KernelTable table = read(attention_text("  1 8 8 1024 64 64 1073.741824\n"
                                                "  1 8 8 16384 128 64 51539.607552\n"));
  CHECK_FALSE(table.rate(attention(1, 8, 8, 16384, 128, 64)).beyond);
  CHECK(table.rate(attention(1, 8, 8, 16384, 64, 64)).beyond);
}

// 12.5 us of which 2.5 are the timing's: 2.1e9 FLOP in 10 us.
TEST_CASE("What timing adds to every row is taken off") {
  const std::string overhead =
      "stage: any\ntiming_overhead: {value: 2.5 us, kind: measured, note: an idle stream}\n";
  CHECK(read(matmul_text("  3000 500 700 12.5\n", overhead)).rate(matmul(3000, 500, 700)).rate ==
        about(2.1e9 / 10e-6));
  CHECK(reports(matmul_text("  3000 500 700 12.5\n  100 100 100 2.5\n", overhead)) ==
        "10:1: a row must take longer than 'timing_overhead'");
  CHECK(
      reports(matmul_text(row_1, "stage: any\ntiming_overhead: {value: 2.5 us, kind: guessed, "
                                 "note: n}\n")) ==
      "11:40: unknown value 'guessed' for 'kind' | known: datasheet, measured, inferred, assumed");
  CHECK(reports(
            matmul_text(row_1, "stage: any\ntiming_overhead: {value: 2.5 us, kind: measured}\n")) ==
        "11:18: missing key 'note' in 'timing_overhead'");
}

TEST_CASE("A bad row is reported with file, line and column") {
  const std::string text = matmul_text(row_1 + "  1024 1024 2147.483648\n" + row_4);
  Diagnostics diagnostics;
  static_cast<void>(KernelTable::read(parse_yaml(text, "tables/t.yaml"), diagnostics));
  std::string what;
  try {
    diagnostics.throw_if_any();
  } catch (const InputError& error) {
    what = error.what();
  }
  CHECK(what == "tables/t.yaml:10:1: error: a row must be 3 sizes and a time, positive numbers "
                "separated by spaces\n"
                "   10 |   1024 1024 2147.483648\n"
                "      | ^");
}

TEST_CASE("A row must be as many positive numbers as there are columns") {
  const std::string text =
      "9:1: a row must be 3 sizes and a time, positive numbers separated by spaces";
  for (const char* row : {"1024 1024 1024", "1024 1024 1024 5 5", "1024 1024 1024 fast",
                          "1024 1024 1024 0", "1024 -1024 1024 5", "1024 1024 1024 5us",
                          "1024, 1024, 1024, 5", "1024 1024 1024 nan", "1024 1024 1024 inf"}) {
    CAPTURE(row);
    CHECK(reports(matmul_text("  " + std::string(row) + "\n")) == text);
  }
  CHECK(reports(attention_text("  1 8 8 1024 64 64 1\n  1 8 8 1024 64 1\n")) ==
        "10:1: a row must be 6 sizes and a time, positive numbers separated by spaces");
}

// A size below one would be read as zero and make every rate of the table NaN.
TEST_CASE("Sizes of a row must be whole numbers") {
  CHECK(reports(matmul_text("  0.5 1024 1024 5\n")).substr(0, 4) == "9:1:");
  CHECK(reports(matmul_text("  1024 1024.5 1024 5\n")).substr(0, 4) == "9:1:");
  CHECK(reports(matmul_text("  1024 1024 1024 0.5\n")) == ""); // a time need not be whole
}

TEST_CASE("Columns in another order or of another table are refused") {
  const std::string text = "the columns of this table must be [m, n, k, us]";
  CHECK(reports(table_text("matmul", "n, m, k, us", row_1)) == "7:10: " + text);
  CHECK(reports(table_text("matmul", "m, n, k", row_1)) == "7:10: " + text);
  CHECK(reports(replaced(matmul_text(row_1), "columns: [m, n, k, us]\n", "")) == "0:0: " + text);
  CHECK(reports(table_text("grouped_matmul", "m, n, k, us", "  1 1 1 1 1\n")) ==
        "7:10: the columns of this table must be [groups, m, n, k, us]");
  CHECK(reports(table_text("attention", "m, n, k, us", "  1 1 1 1 1 1 1\n", "stage: forward\n")) ==
        "7:10: the columns of this table must be [batch, heads, kv_heads, seq, qk_dim, v_dim, us]");
}

TEST_CASE("A table without rows is refused") {
  CHECK(reports(replaced(matmul_text(row_1), "rows: |\n" + row_1, "rows: \"\"\n")) ==
        "8:7: a kernel table needs at least one row");
  CHECK(reports(replaced(matmul_text(row_1), "rows: |\n" + row_1, "")) ==
        "0:0: missing key 'rows' in 'kernel_table'");
}

TEST_CASE("Unknown words and keys of a table are reported") {
  CHECK(reports(replaced(matmul_text(row_1), "op: matmul", "op: matmull")) ==
        "2:5: unknown value 'matmull' for 'op' | did you mean 'matmul'?");
  CHECK(reports(replaced(matmul_text(row_1), "stage: any", "stage: both")) ==
        "10:8: unknown value 'both' for 'stage' | known: forward, dgrad, wgrad, backward, any");
  CHECK(reports(replaced(matmul_text(row_1), "dtype: bf16", "dtype: fp16")) ==
        "3:8: unknown value 'fp16' for 'dtype' | known: fp32, bf16, fp8");
  CHECK(reports(matmul_text(row_1, "stage: any\nderate: 1.5\n")) ==
        "11:9: 'derate' must be greater than 0 and at most 1, not 1.5");
  CHECK(reports(matmul_text(row_1, "stage: any\nscales: 2\n")) ==
        "11:1: unknown key 'scales' in 'kernel_table' | did you mean 'scale'?");
}
