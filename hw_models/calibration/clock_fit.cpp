// The clock rule: what kinds of work draw, and how the power of matmuls grows with speed.
#include "hw_models/calibration/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace spillway {
namespace {

constexpr double throttled_below = 0.99; // of the highest clock
constexpr double limited_from = 0.90;    // of the limit
constexpr double least_filler = 0.05;    // share of a cycle that says anything of its filler
constexpr double most_exponent = 6;
constexpr double most_power = 1.5; // of the limit, of kernels bound by HBM
constexpr std::size_t least_shapes = 3;
constexpr std::size_t least_cycles = 3;

bool is_throttled(const BoardState& board) {
  return board.clock < throttled_below * board.highest_clock &&
         board.power >= limited_from * board.limit;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

Interval range_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

// One duty cycle of matmuls and a filler, against the same matmuls alone at the limit.
struct Cycle {
  bool copies = false; // the filler leaves compute idle
  bool throttled = false;
  double clock = 0;
  double share = 0; // of the time in matmuls
  double speed = 0; // rate over the rate alone
  double rate = 0;
  double power = 0; // mean, over what the board holds at its limit
  Place place;
};

// Products of one shape alone at the limit, repeats merged.
struct Alone {
  Shape shape{};
  double rate = 0;
  double power = 0; // W
  double clock = 0;
};

struct Board {
  double limit_rate = 0;
  double idle = 0; // share of the mean power at the limit
  double exponent = 0;

  // Power of a matmul of this rate at this speed.
  [[nodiscard]] double matmul(double rate, double speed) const {
    return idle + (1 - idle) * rate / limit_rate * std::pow(speed, exponent - 1);
  }
};

std::vector<const PowerRecord*> limited(const Measurements& measured, const std::string& work) {
  std::vector<const PowerRecord*> found;
  for (const PowerRecord& record : measured.power) {
    if (record.work == work && is_throttled(record.board)) {
      found.push_back(&record);
    }
  }
  return found;
}

// Medians of repeats, whose rates must agree as times must.
std::vector<Alone> products_alone(const Measurements& measured, Diagnostics& diagnostics) {
  std::map<Shape, std::vector<const PowerRecord*>> by_shape;
  for (const PowerRecord* record : limited(measured, "gemm")) {
    by_shape[record->shape].push_back(record);
  }
  std::vector<Alone> all;
  for (const auto& [shape, records] : by_shape) {
    std::vector<double> rates;
    std::vector<double> powers;
    std::vector<double> clocks;
    for (const PowerRecord* record : records) {
      rates.push_back(record->rate);
      powers.push_back(record->board.power);
      clocks.push_back(record->board.clock);
    }
    const Interval range = range_of(rates);
    if (range.high > (1 + most_repeat_spread) * range.low) {
      diagnostics.add(records.back()->place,
                      fmt::format("power: products of one shape at the limit run at {} and at {}",
                                  format_flop_rate(range.low), format_flop_rate(range.high)),
                      fmt::format("rates of one shape may differ by {:g} %: measure again under "
                                  "one condition",
                                  100 * most_repeat_spread));
    }
    all.push_back({shape, median(rates), median(powers), median(clocks)});
  }
  return all;
}

std::vector<Cycle> cycles_of(const Measurements& measured, const std::vector<Alone>& alone,
                             double limit_power) {
  std::vector<Cycle> cycles;
  for (const DutyRecord& record : measured.duty) {
    const auto same = std::find_if(alone.begin(), alone.end(),
                                   [&](const Alone& other) { return other.shape == record.shape; });
    const double share = record.matmul_s / (record.matmul_s + record.filler_s);
    if (same != alone.end() && 1 - share >= least_filler) {
      cycles.push_back({record.filler != "hbm", is_throttled(record.board), record.board.clock,
                        share, record.rate / same->rate, record.rate,
                        record.board.power / limit_power, record.place});
    }
  }
  return cycles;
}

void add(const std::string& name, std::optional<Dimension> dimension, double value,
         const Interval& range, std::string note, std::size_t records, Calibration& out) {
  Coefficient c;
  c.path = "gpu.clock." + name;
  c.dimension = dimension;
  c.value = value;
  c.low = range.low;
  c.high = range.high;
  c.kind = "measured";
  out.coefficients.push_back({std::move(c), std::move(note), records, {}});
}

// What matmuls draw above idle over (1 - p_x) rate / limit_rate is speed^(e - 1): a line
// through the origin in the logarithms, each cycle weighted by the square of log speed.
// False after a diagnostic.
bool fit_exponent(const std::vector<Cycle>& cycles, Board& board, Calibration& out,
                  Diagnostics& diagnostics) {
  const std::size_t mistakes = diagnostics.count();
  double xx = 0;
  double xy = 0;
  std::vector<std::pair<double, double>> points;
  const Place* place = nullptr;
  for (const Cycle& cycle : cycles) {
    if (!cycle.copies) {
      continue;
    }
    place = &cycle.place;
    const double power = (cycle.power - (1 - cycle.share) * board.idle) / cycle.share;
    const double dynamic =
        (power - board.idle) / ((1 - board.idle) * cycle.rate / board.limit_rate);
    if (!(dynamic > 0)) {
      diagnostics.add(cycle.place, "duty: this cycle draws no more than copies alone",
                      "its products must draw something: measure again");
      continue;
    }
    const double x = std::log(cycle.speed);
    points.emplace_back(x, std::log(dynamic));
    xx += x * x;
    xy += x * points.back().second;
  }
  if (diagnostics.count() > mistakes) {
    return false;
  }
  const double slope = xx > 0 ? xy / xx : 0;
  double squares = 0;
  for (const auto& [x, y] : points) {
    squares += (y - slope * x) * (y - slope * x);
  }
  const std::size_t degrees = points.size() - 1; // three cycles at least
  const double error =
      xx > 0 ? student_975(degrees) * std::sqrt(squares / static_cast<double>(degrees) / xx) : 0;
  board.exponent = 1 + slope;
  if (!(slope - error > 0) || !(board.exponent + error <= most_exponent)) {
    diagnostics.add(
        *place,
        fmt::format("duty: the exponent of the clock rule comes out at {:.3g} +- {:.3g}",
                    board.exponent, error),
        fmt::format("between 1 and {:g} with its interval: measure cycles of more "
                    "speeds",
                    most_exponent));
    return false;
  }
  add("exponent", std::nullopt, board.exponent, {board.exponent - error, board.exponent + error},
      fmt::format("power of matmuls above idle against their speed in {} duty cycles with copies, "
                  "95 % interval",
                  points.size()),
      points.size(), out);
  return true;
}

// Speed of matmuls at a clock, between the cycles with copies and the products alone.
std::optional<double> speed_at(double clock, const std::vector<Cycle>& cycles,
                               const std::vector<Alone>& alone) {
  std::vector<std::pair<double, double>> points; // clock, speed
  std::vector<double> clocks;
  clocks.reserve(alone.size());
  for (const Alone& product : alone) {
    clocks.push_back(product.clock);
  }
  points.emplace_back(median(clocks), 1.0);
  for (const Cycle& cycle : cycles) {
    if (cycle.copies && cycle.clock > points.front().first) {
      points.emplace_back(cycle.clock, cycle.speed);
    }
  }
  std::sort(points.begin(), points.end());
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto& [low, slow] = points[i - 1];
    const auto& [high, fast] = points[i];
    if (low <= clock && clock <= high && low < high) {
      return slow + (fast - slow) * (clock - low) / (high - low);
    }
  }
  return std::nullopt;
}

// Attention alone at the limit: p_x + (p_a - p_x) s^e = 1 at the speed of its clock.
std::vector<double> attention_powers(const Measurements& measured, const Board& board,
                                     const std::vector<Cycle>& cycles,
                                     const std::vector<Alone>& alone, Calibration& out) {
  std::vector<double> powers;
  for (const char* work : {"attention_forward", "attention_backward"}) {
    for (const PowerRecord* record : limited(measured, work)) {
      if (const auto speed = speed_at(record->board.clock, cycles, alone)) {
        powers.push_back(board.idle + (1 - board.idle) / std::pow(*speed, board.exponent));
      } else {
        add_dropped(out.dropped, "power", "attention at a clock that no duty cycle reaches");
      }
    }
  }
  return powers;
}

// HBM-bound kernels beside matmuls at the limit: what the matmuls leave. Cycles weigh as
// the square of the filler's share, since that is what their errors are divided by.
struct MemoryPower {
  double mean = 0;
  Interval range;
  std::size_t cycles = 0;
};
MemoryPower memory_power(const Board& board, const std::vector<Cycle>& cycles,
                         Diagnostics& diagnostics) {
  std::vector<double> powers;
  double weights = 0;
  double sum = 0;
  for (const Cycle& cycle : cycles) {
    if (cycle.copies || !cycle.throttled) {
      continue;
    }
    const double filler = 1 - cycle.share;
    const double power =
        (cycle.power - cycle.share * board.matmul(cycle.rate, cycle.speed)) / filler;
    if (!(power > 0) || !(power <= most_power)) {
      diagnostics.add(cycle.place,
                      fmt::format("duty: HBM-bound kernels come out at {:.3g} of the limit", power),
                      fmt::format("between 0 and {:g}: measure again", most_power));
    }
    powers.push_back(power);
    weights += filler * filler;
    sum += filler * filler * power;
  }
  return {sum / weights, range_of(powers), powers.size()};
}

std::vector<double> idle_powers(const Measurements& measured, double limit_power) {
  std::vector<double> powers;
  for (const PowerRecord& record : measured.power) {
    if (record.work == "d2h" || record.work == "h2d") {
      powers.push_back(record.board.power / limit_power);
    }
  }
  return powers;
}

// What a rule cannot be made without; empty if all is there.
std::string lacking(std::size_t shapes, std::size_t idle, const std::vector<Cycle>& cycles) {
  std::vector<std::string> all;
  if (shapes < least_shapes) {
    all.push_back(fmt::format("products of {} shapes that hold the board at its limit, not {}",
                              least_shapes, shapes));
  }
  if (idle == 0) {
    all.emplace_back("copies alone");
  }
  const auto count = [&](bool copies) {
    return std::count_if(cycles.begin(), cycles.end(), [&](const Cycle& cycle) {
      return cycle.copies == copies && (copies || cycle.throttled);
    });
  };
  if (static_cast<std::size_t>(count(true)) < least_cycles) {
    all.push_back(fmt::format("{} duty cycles with copies, of products that are there alone too",
                              least_cycles));
  }
  if (count(false) == 0) {
    all.emplace_back("a duty cycle with HBM-bound kernels at the limit");
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

// One board, and copies that leave most of its power.
void check_board(const Measurements& measured, double idle, Diagnostics& diagnostics) {
  std::vector<std::pair<double, Place>> limits;
  for (const PowerRecord& record : measured.power) {
    limits.emplace_back(record.board.limit, record.place);
  }
  for (const DutyRecord& record : measured.duty) {
    limits.emplace_back(record.board.limit, record.place);
  }
  for (const auto& [limit, place] : limits) {
    if (limit != limits.front().first) {
      diagnostics.add(place,
                      fmt::format("power: a limit of {:g} W here, {:g} W in the first record",
                                  limit, limits.front().first),
                      "calibrate one machine under one limit at a time");
      return;
    }
  }
  if (!(idle < 1)) {
    diagnostics.add(limits.front().second,
                    fmt::format("power: copies alone draw {:.3g} of what products draw", idle),
                    "less than 1: measure again");
  }
}

// Rates alone over the tables', of shapes that both have: what `matmul_derate` stands for.
std::string against_tables(const std::vector<Alone>& alone, const Calibration& out) {
  std::vector<double> ratios;
  for (const MeasuredTable& table : out.tables) {
    for (const Sample& row : table.rows) {
      for (const Alone& product : alone) {
        if (table.op == KernelTable::Op::matmul && row.shape == product.shape) {
          ratios.push_back(product.rate * (row.seconds - table.timing_overhead) / row.work);
        }
      }
    }
  }
  return ratios.empty() ? ""
                        : fmt::format(", {:.3f} of the table's rates in the median of {}",
                                      median(ratios), ratios.size());
}

} // namespace

void fit_clock(const Measurements& measured, Calibration& out, Diagnostics& diagnostics) {
  const std::size_t mistakes = diagnostics.count();
  const std::vector<Alone> alone = products_alone(measured, diagnostics);
  std::vector<double> rates;
  std::vector<double> powers;
  for (const Alone& product : alone) {
    rates.push_back(product.rate);
    powers.push_back(product.power);
  }
  const double limit_power = alone.empty() ? 0 : mean(powers);
  const std::vector<double> idle =
      alone.empty() ? std::vector<double>{} : idle_powers(measured, limit_power);
  const std::vector<Cycle> cycles = cycles_of(measured, alone, limit_power);
  if (diagnostics.count() > mistakes) {
    return;
  }
  const std::string missing = lacking(alone.size(), idle.size(), cycles);
  if (!missing.empty()) {
    const std::size_t records = measured.power.size() + measured.duty.size();
    if (records > 0) {
      add_dropped(out.dropped, "power, duty", "a clock rule needs " + missing, records);
    }
    return;
  }
  check_board(measured, mean(idle), diagnostics);
  Board board{median(rates), mean(idle), 0};
  if (diagnostics.count() > mistakes || !fit_exponent(cycles, board, out, diagnostics)) {
    return;
  }
  add("limit_rate", Dimension::flop_rate, board.limit_rate, range_of(rates),
      fmt::format("median and range of {} shapes that hold the board at {:.0f} W{}", rates.size(),
                  limit_power, against_tables(alone, out)),
      rates.size(), out);
  add("idle_power", std::nullopt, board.idle, range_of(idle), "copies alone: mean and range",
      idle.size(), out);
  const MemoryPower memory = memory_power(board, cycles, diagnostics);
  add("memory_power", std::nullopt, memory.mean, memory.range,
      fmt::format("what matmuls leave in {} duty cycles at the limit: weighted mean and range",
                  memory.cycles),
      memory.cycles, out);
  const std::vector<double> attention = attention_powers(measured, board, cycles, alone, out);
  if (!attention.empty()) {
    add("attention_power", std::nullopt, mean(attention), range_of(attention),
        "attention alone at the limit, at the speed that matmuls have at its clock: mean and range",
        attention.size(), out);
  }
  const auto fastest =
      std::max_element(cycles.begin(), cycles.end(),
                       [](const Cycle& a, const Cycle& b) { return a.speed < b.speed; });
  const double highest = std::max(1.0, fastest->speed);
  add("max_speed", std::nullopt, highest, {highest, highest},
      "matmuls in the duty cycle that leaves them the most room, over the same alone",
      cycles.size(), out);
}

} // namespace spillway
