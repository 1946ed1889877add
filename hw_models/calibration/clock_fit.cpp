// The clock rule: what kinds of work draw, and how the power of matmuls grows with speed.
#include "hw_models/calibration/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace spillway {
namespace {

constexpr double throttled_below = 0.99; // of the highest clock
constexpr std::size_t least_shapes = 3;
constexpr std::size_t least_cycles = 3;

bool is_throttled(const BoardState& board) {
  return board.clock < throttled_below * board.highest_clock;
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
};

struct Board {
  double limit_power = 0; // W
  double limit_rate = 0;
  double idle = 0; // shares of limit_power
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

std::vector<Cycle> cycles_of(const Measurements& measured, const Board& board) {
  const std::vector<const PowerRecord*> alone = limited(measured, "gemm");
  std::vector<Cycle> cycles;
  for (const DutyRecord& record : measured.duty) {
    const auto same = std::find_if(alone.begin(), alone.end(), [&](const PowerRecord* other) {
      return other->shape == record.shape;
    });
    if (same != alone.end()) {
      cycles.push_back({record.filler != "hbm", is_throttled(record.board), record.board.clock,
                        record.matmul_s / (record.matmul_s + record.filler_s),
                        record.rate / (*same)->rate, record.rate,
                        record.board.power / board.limit_power});
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
void fit_exponent(const std::vector<Cycle>& cycles, Board& board, Calibration& out) {
  double xx = 0;
  double xy = 0;
  std::vector<std::pair<double, double>> points;
  for (const Cycle& cycle : cycles) {
    const double power = (cycle.power - (1 - cycle.share) * board.idle) / cycle.share;
    const double dynamic =
        (power - board.idle) / ((1 - board.idle) * cycle.rate / board.limit_rate);
    if (cycle.copies && dynamic > 0) {
      const double x = std::log(cycle.speed);
      points.emplace_back(x, std::log(dynamic));
      xx += x * x;
      xy += x * points.back().second;
    }
  }
  const double slope = xy / xx;
  double squares = 0;
  for (const auto& [x, y] : points) {
    squares += (y - slope * x) * (y - slope * x);
  }
  const std::size_t degrees = points.size() - 1;
  const double error =
      student_975(degrees) * std::sqrt(squares / static_cast<double>(degrees) / xx);
  board.exponent = 1 + slope;
  add("exponent", std::nullopt, board.exponent, {board.exponent - error, board.exponent + error},
      fmt::format("power of matmuls above idle against their speed in {} duty cycles with copies, "
                  "95 % interval",
                  points.size()),
      points.size(), out);
}

// Speed of matmuls at a clock, between the cycles on either side.
std::optional<double> speed_at(double clock, std::vector<Cycle> cycles) {
  std::erase_if(cycles, [](const Cycle& cycle) { return !cycle.copies; });
  std::sort(cycles.begin(), cycles.end(),
            [](const Cycle& a, const Cycle& b) { return a.clock < b.clock; });
  for (std::size_t i = 1; i < cycles.size(); ++i) {
    const Cycle& below = cycles[i - 1];
    const Cycle& above = cycles[i];
    if (below.clock <= clock && clock <= above.clock && below.clock < above.clock) {
      return below.speed +
             (above.speed - below.speed) * (clock - below.clock) / (above.clock - below.clock);
    }
  }
  return std::nullopt;
}

// Attention alone at the limit: p_x + (p_a - p_x) s^e = 1 at the speed of its clock.
std::vector<double> attention_powers(const Measurements& measured, const Board& board,
                                     const std::vector<Cycle>& cycles) {
  std::vector<double> powers;
  for (const char* work : {"attention_forward", "attention_backward"}) {
    for (const PowerRecord* record : limited(measured, work)) {
      if (const auto speed = speed_at(record->board.clock, cycles)) {
        powers.push_back(board.idle + (1 - board.idle) / std::pow(*speed, board.exponent));
      }
    }
  }
  return powers;
}

// HBM-bound kernels beside matmuls at the limit: what the matmuls leave.
std::vector<double> memory_powers(const Board& board, const std::vector<Cycle>& cycles) {
  std::vector<double> powers;
  for (const Cycle& cycle : cycles) {
    if (!cycle.copies && cycle.throttled) {
      powers.push_back((cycle.power - cycle.share * board.matmul(cycle.rate, cycle.speed)) /
                       (1 - cycle.share));
    }
  }
  return powers;
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

void check_sane(const Board& board, const std::vector<double>& memory, const Place& place,
                Diagnostics& diagnostics) {
  if (!(board.idle < 1) || !(board.exponent > 1 && board.exponent <= 6)) {
    diagnostics.add(place,
                    fmt::format("clock: idle power comes out at {:.3g} of the limit and the "
                                "exponent at {:.3g}",
                                board.idle, board.exponent),
                    "between 0 and 1, and between 1 and 6: measure again");
  } else if (!(range_of(memory).low > 0) || !(range_of(memory).high <= 1.5)) {
    diagnostics.add(place,
                    fmt::format("clock: the power of HBM-bound kernels comes out between {:.3g} "
                                "and {:.3g} of the limit",
                                range_of(memory).low, range_of(memory).high),
                    "between 0 and 1.5: measure again");
  }
}

} // namespace

void fit_clock(const Measurements& measured, Calibration& out, Diagnostics& diagnostics) {
  const std::vector<const PowerRecord*> products = limited(measured, "gemm");
  std::vector<double> rates;
  std::vector<double> powers;
  for (const PowerRecord* record : products) {
    rates.push_back(record->rate);
    powers.push_back(record->board.power);
  }
  Board board;
  std::vector<double> idle;
  std::vector<Cycle> cycles;
  if (!products.empty()) {
    board.limit_power = mean(powers);
    idle = idle_powers(measured, board.limit_power);
    cycles = cycles_of(measured, board);
  }
  const std::string missing = lacking(products.size(), idle.size(), cycles);
  if (!missing.empty()) {
    const std::size_t records = measured.power.size() + measured.duty.size();
    if (records > 0) {
      add_dropped(out.dropped, "power, duty", "a clock rule needs " + missing, records);
    }
    return;
  }
  board.limit_rate = median(rates);
  board.idle = mean(idle);
  add("limit_rate", Dimension::flop_rate, board.limit_rate, range_of(rates),
      fmt::format("median and range of {} shapes that hold the board at {:.0f} W", rates.size(),
                  board.limit_power),
      rates.size(), out);
  add("idle_power", std::nullopt, board.idle, range_of(idle), "copies alone: mean and range",
      idle.size(), out);
  fit_exponent(cycles, board, out);
  const std::vector<double> memory = memory_powers(board, cycles);
  check_sane(board, memory, measured.duty.front().place, diagnostics);
  add("memory_power", std::nullopt, mean(memory), range_of(memory),
      fmt::format("what matmuls leave in {} duty cycles at the limit: mean and range",
                  memory.size()),
      memory.size(), out);
  const std::vector<double> attention = attention_powers(measured, board, cycles);
  if (!attention.empty()) {
    add("attention_power", std::nullopt, mean(attention), range_of(attention),
        "attention alone at the limit, at the speed that matmuls have at its clock: mean and range",
        attention.size(), out);
  }
  const auto fastest =
      std::max_element(cycles.begin(), cycles.end(),
                       [](const Cycle& a, const Cycle& b) { return a.speed < b.speed; });
  add("max_speed", std::nullopt, fastest->speed, {fastest->speed, fastest->speed},
      "matmuls in the duty cycle that leaves them the most room, over the same alone",
      cycles.size(), out);
}

} // namespace spillway
