#include "hw_models/kernel_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace spillway {
namespace {

constexpr std::size_t max_columns = 7;
const std::array<std::string, 3> op_names{"matmul", "grouped_matmul", "attention"};
const std::array<std::string, 5> stage_names{"forward", "dgrad", "wgrad", "backward", "any"};
const std::array<std::string, 4> number_kinds{"datasheet", "measured", "inferred", "assumed"};
const std::array<std::string, 3> type_names{"fp32", "bf16", "fp8"};

const std::array<std::vector<std::string>, 3> column_names{{
    {"m", "n", "k", "us"},
    {"groups", "m", "n", "k", "us"},
    {"batch", "heads", "kv_heads", "seq", "qk_dim", "v_dim", "us"},
}};

// Sizes are whole numbers, the last column is a time.
bool is_cell(double value, bool is_time) {
  return value > 0 && value < 1e15 && (is_time || value == std::floor(value));
}

// One line of numbers; empty when a cell is not a positive number or the count is wrong.
std::optional<std::array<double, max_columns>> read_row(std::string_view line, std::size_t count) {
  std::array<double, max_columns> row{};
  std::size_t column = 0;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (at != end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    double value = 0;
    const auto [next, status] = std::from_chars(at, end, value);
    const bool ends_cell = next == end || *next == ' ';
    if (status != std::errc{} || !ends_cell || column == count ||
        !is_cell(value, column + 1 == count)) {
      return std::nullopt;
    }
    row[column++] = value;
    at = next;
  }
  return column == count ? std::optional(row) : std::nullopt;
}

Work work_of(KernelTable::Op op, Stage stage, const std::array<double, max_columns>& row) {
  const auto at = [&](std::size_t i) { return static_cast<std::int64_t>(row[i]); };
  Work work;
  work.stage = stage;
  if (op == KernelTable::Op::attention) {
    work.kind = WorkKind::attention;
    work.batch = at(0);
    work.heads = at(1);
    work.kv_heads = at(2);
    work.seq = at(3);
    work.qk_dim = at(4);
    work.v_dim = at(5);
    return work;
  }
  work.kind = WorkKind::matmul;
  const std::size_t first = op == KernelTable::Op::grouped_matmul ? 1 : 0;
  work.groups = first == 1 ? at(0) : 1;
  work.m = at(first);
  work.n = at(first + 1);
  work.k = at(first + 2);
  return work;
}

std::int64_t head_shape(const Work& work) {
  return work.qk_dim * 4096 + work.v_dim;
}

} // namespace

const std::string& KernelTable::name_of(Op op) {
  return op_names[static_cast<std::size_t>(op)];
}

const std::vector<std::string>& KernelTable::columns_of(Op op) {
  return column_names[static_cast<std::size_t>(op)];
}

KernelTable::Point KernelTable::point_of(const Work& work) {
  const auto log_of = [](std::int64_t value) { return std::log(static_cast<double>(value)); };
  if (work.kind == WorkKind::attention) {
    return {log_of(work.batch * work.heads), log_of(work.seq),
            log_of(work.heads) - log_of(work.kv_heads), 0};
  }
  // Rows per group, not the number of groups, decides the rate of a grouped product.
  return {log_of(work.m), log_of(work.n), log_of(work.k), 0};
}

KernelTable KernelTable::read(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> file_kinds{"kernel_table"};
  MapReader in(node, "kernel_table", diagnostics);
  KernelTable table;
  static_cast<void>(in.choice("kind", file_kinds));
  table.op = static_cast<Op>(in.choice("op", op_names));
  table.type = static_cast<DataType>(in.choice("dtype", type_names));
  const std::size_t stage = in.choice("stage", stage_names);
  table.any_stage_ = stage == 4;
  table.stage = table.any_stage_ ? Stage::forward : static_cast<Stage>(stage);
  table.device = in.text("device");
  table.kind = in.text("provenance");
  if (const YamlNode* source = in.required_child("source")) {
    MapReader map(*source, "source", diagnostics);
    table.source = map.text("title");
    for (const char* key : {"url", "commit", "license", "note"}) {
      static_cast<void>(map.text_or(key, ""));
    }
    map.finish();
  }
  if (const YamlNode* node_scale = in.child("scale")) {
    MapReader map(*node_scale, "scale", diagnostics);
    table.scale_ = map.number("value", {0.0, 100.0, true});
    table.kind = map.text_or("kind", table.kind);
    static_cast<void>(map.text_or("note", ""));
    map.finish();
  }
  table.derate = in.number_or("derate", {0.0, 1.0, true}, 1.0);
  double timing_overhead = 0;
  if (const YamlNode* node_timing = in.child("timing_overhead")) {
    MapReader map(*node_timing, "timing_overhead", diagnostics);
    timing_overhead = map.quantity("value", Dimension::seconds, {0.0, 1.0});
    static_cast<void>(map.choice("kind", number_kinds));
    static_cast<void>(map.text("note"));
    map.finish();
  }
  const std::vector<std::string>& columns = columns_of(table.op);
  if (in.text_list_or_empty("columns") != columns) {
    std::string expected;
    for (const std::string& column : columns) {
      expected += (expected.empty() ? "" : ", ") + column;
    }
    in.error("columns", "the columns of this table must be [" + expected + "]");
  }
  const std::string text = in.text("rows");
  in.finish();

  Place place = in.place_of("rows");
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    ++place.line; // a block scalar's rows start on the line after its key
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    const auto row = read_row(line, columns.size());
    if (!row) {
      place.column = 1;
      diagnostics.add(place, "a row must be " + std::to_string(columns.size() - 1) +
                                 " sizes and a time, positive numbers separated by spaces");
      continue;
    }
    const Work work = work_of(table.op, table.stage, *row);
    const Point point = point_of(work);
    const double seconds = (*row)[columns.size() - 1] * 1e-6 - timing_overhead;
    if (!(seconds > 0)) {
      place.column = 1;
      diagnostics.add(place, "a row must take longer than 'timing_overhead'");
      continue;
    }
    table.points_.push_back(point);
    table.flops_.push_back(work.flops().value());
    table.times_.push_back(seconds);
    table.head_shapes_.push_back(head_shape(work));
  }
  if (table.points_.empty() && diagnostics.empty()) {
    in.error("rows", "a kernel table needs at least one row");
  }
  table.fit_line();
  return table;
}

// Minimises sum ((t0 + c f_i) / t_i - 1)^2 over t0 and c; t0 is not negative.
void KernelTable::fit_line() {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0; // of a_i = 1 / t_i, b_i = f_i / t_i
  for (std::size_t row = 0; row < times_.size(); ++row) {
    const double x = 1 / times_[row];
    const double y = flops_[row] / times_[row];
    aa += x * x;
    ab += x * y;
    bb += y * y;
    a += x;
    b += y;
  }
  const double determinant = aa * bb - ab * ab;
  t0_ = determinant > 1e-9 * aa * bb ? std::max(0.0, (a * bb - b * ab) / determinant) : 0.0;
  s_per_flop_ = bb > 0 ? (b - t0_ * ab) / bb : 0.0;
  if (!(s_per_flop_ > 0)) { // times that do not grow with flops: no line to take out
    t0_ = 0;
    s_per_flop_ = bb > 0 ? b / bb : 0.0;
  }
  for (std::size_t row = 0; row < times_.size(); ++row) {
    log_residuals_.push_back(std::log(times_[row] / (t0_ + s_per_flop_ * flops_[row])));
  }
}

bool KernelTable::serves(Stage wanted) const {
  return any_stage_ || stage == wanted;
}

KernelTable::Answer KernelTable::rate(const Work& work) const {
  const double octave = std::log(2.0);
  const Point at = point_of(work);
  const std::int64_t heads = head_shape(work);
  const bool same_heads = op != Op::attention || std::find(head_shapes_.begin(), head_shapes_.end(),
                                                           heads) != head_shapes_.end();

  const auto squared_distance = [&](std::size_t row) {
    double sum = 0;
    for (std::size_t d = 0; d < dimensions; ++d) {
      const double difference = at[d] - points_[row][d];
      sum += difference * difference;
    }
    return sum;
  };
  const auto counts = [&](std::size_t row) {
    return op != Op::attention || !same_heads || head_shapes_[row] == heads;
  };
  double nearest = std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < points_.size(); ++row) {
    if (counts(row)) {
      nearest = std::min(nearest, squared_distance(row));
    }
  }
  double weights = 0;
  double sum = 0;
  for (std::size_t row = 0; row < points_.size(); ++row) {
    if (counts(row)) {
      // Relative to the nearest row, so that far outside nothing underflows.
      const double weight = std::exp((nearest - squared_distance(row)) / (2 * octave * octave));
      weights += weight;
      sum += weight * log_residuals_[row];
    }
  }
  Answer answer;
  const double flops = work.flops().value();
  answer.rate = scale_ * flops / ((t0_ + s_per_flop_ * flops) * std::exp(sum / weights));
  answer.other_heads = !same_heads;
  answer.beyond = !same_heads || nearest > octave * octave;
  return answer;
}

} // namespace spillway
