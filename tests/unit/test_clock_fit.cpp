// The clock rule of a made-up board, found again from its power records.
//
// Limit 500 W, products of 600 TFLOP/s hold it there; e = 2.5, p_x = 0.2, HBM 0.8.
#include "hw_models/calibration/hardware_file.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

using namespace spillway;

namespace {

constexpr double limit_w = 500;
constexpr double idle = 0.2;
constexpr double exponent = 2.5;
constexpr double memory = 0.8;
constexpr double rate_alone = 600e12;
const Shape shape{4096, 4096, 4096};

Place somewhere() {
  static const auto source = std::make_shared<const SourceText>(SourceText{"p.jsonl", {}});
  return {source, 7, 1};
}

BoardState board(double power, double clock) {
  return {power, 520, clock, 2000};
}

// A cycle whose products run at `speed` for `share` of the time.
DutyRecord cycle(const std::string& filler, double share, double speed, double clock) {
  const double matmul = idle + (1 - idle) * std::pow(speed, exponent);
  const double other = filler == "hbm" ? memory : idle;
  const double power = limit_w * (share * matmul + (1 - share) * other);
  return {
      filler,     shape, share * 0.02, (1 - share) * 0.02, speed * rate_alone, board(power, clock),
      somewhere()};
}

Measurements machine() {
  Measurements m;
  m.device = {"Own GPU", 80'000'000'000, 50'000'000, somewhere()};
  m.power = {{"gemm", {8192, 8192, 8192}, 610e12, board(limit_w, 1480), somewhere()},
             {"gemm", shape, rate_alone, board(limit_w, 1500), somewhere()},
             {"gemm", {2048, 2048, 2048}, 580e12, board(limit_w, 1520), somewhere()},
             {"gemm", {512, 512, 512}, 50e12, board(200, 2000), somewhere()}, // not at the limit
             {"d2h", {}, 0, board(95, 2000), somewhere()},
             {"h2d", {}, 0, board(105, 2000), somewhere()},
             {"attention_forward", {}, 300e12, board(limit_w, 1650), somewhere()}};
  m.duty = {cycle("d2h", 0.8, 1.05, 1600), cycle("d2h", 0.6, 1.10, 1700),
            cycle("h2d", 0.4, 1.20, 2000), cycle("hbm", 0.5, 1.05, 1600),
            cycle("hbm", 0.3, 1.10, 1700)};
  return m;
}

const Coefficient& found(const Calibration& calibration, const std::string& name) {
  const auto at = std::find_if(
      calibration.coefficients.begin(), calibration.coefficients.end(),
      [&](const auto& fitted) { return fitted.coefficient.path == "gpu.clock." + name; });
  REQUIRE(at != calibration.coefficients.end());
  return at->coefficient;
}

bool has_clock(const Calibration& calibration) {
  return std::any_of(
      calibration.coefficients.begin(), calibration.coefficients.end(),
      [](const auto& fitted) { return fitted.coefficient.path.starts_with("gpu.clock."); });
}

// Why no rule was made.
std::string reason(const Measurements& measurements) {
  const Calibration calibration = calibrate(measurements);
  CHECK_FALSE(has_clock(calibration));
  for (const Dropped& dropped : calibration.dropped) {
    if (dropped.kind == "power, duty") {
      CHECK(dropped.records == measurements.power.size() + measurements.duty.size());
      return dropped.reason;
    }
  }
  return "";
}

} // namespace

// Attention holds the board at its limit at 1650 MHz, half-way between cycles of 1.05 and
// 1.10: 0.2 + 0.8 / 1.075^2.5. Copies draw 95 and 105 W of 500.
TEST_CASE("The numbers of a clock rule are found again") {
  const Calibration c = calibrate(machine());
  CHECK(found(c, "limit_rate").value == rate_alone);
  CHECK(found(c, "limit_rate").low == 580e12);
  CHECK(found(c, "limit_rate").high == 610e12);
  CHECK(found(c, "idle_power").value == doctest::Approx(0.2));
  CHECK(found(c, "idle_power").low == doctest::Approx(0.19));
  CHECK(found(c, "idle_power").high == doctest::Approx(0.21));
  CHECK(found(c, "exponent").value == doctest::Approx(exponent));
  CHECK(found(c, "exponent").high - found(c, "exponent").low < 1e-6); // all on one curve
  CHECK(found(c, "memory_power").value == doctest::Approx(memory));
  CHECK(found(c, "attention_power").value ==
        doctest::Approx(0.2 + 0.8 / std::pow(1.075, exponent)));
  CHECK(found(c, "max_speed").value == doctest::Approx(1.2));
  for (const char* name : {"limit_rate", "idle_power", "exponent", "memory_power"}) {
    CHECK(found(c, name).kind == "measured");
    CHECK(found(c, name).low <= found(c, name).value);
    CHECK(found(c, name).value <= found(c, name).high);
  }
}

TEST_CASE("Cycles off the curve widen the exponent's interval") {
  Measurements m = machine();
  m.duty[1].board.power *= 1.02;
  const Calibration c = calibrate(m);
  CHECK(found(c, "exponent").high - found(c, "exponent").low > 0.1);
}

// A rule in a file that names no base is read back by its own section.
TEST_CASE("A clock rule is written as plain numbers and a rate") {
  HardwareFile file;
  file.name = "own";
  file.source_title = "s";
  const std::string text = hardware_yaml(calibrate(machine()), file);
  const YamlNode node = parse_yaml(text, "own.yaml");
  const YamlNode* clock = node.find("gpu")->find("clock");
  REQUIRE(clock != nullptr);
  CHECK(clock->find("limit_rate")->find("value")->text == "600 TFLOP/s");
  CHECK(clock->find("max_speed")->find("value")->text == "1.2");
  CHECK(text.find("value: 1.2\n") != std::string::npos); // not quoted
}

TEST_CASE("Without the records that a clock rule needs it says which") {
  Measurements m = machine();
  m.power.erase(m.power.begin() + 2);
  CHECK(reason(m) ==
        "a clock rule needs products of 3 shapes that hold the board at its limit, not 2");
  m = machine();
  std::erase_if(m.power, [](const PowerRecord& r) { return r.work == "d2h" || r.work == "h2d"; });
  CHECK(reason(m) == "a clock rule needs copies alone");
  m = machine();
  m.duty.resize(3); // none with HBM
  CHECK(reason(m) == "a clock rule needs a duty cycle with HBM-bound kernels at the limit");
  m = machine();
  m.duty[0].shape = {1, 2, 3}; // not there alone
  CHECK(reason(m) == "a clock rule needs 3 duty cycles with copies, of products that are there "
                     "alone too");
  m = machine();
  m.power.clear();
  m.duty.clear();
  CHECK(reason(m) == ""); // no record, no word
}

// What a machine with one change is refused with; nothing if it is not.
std::string refusal(const Measurements& m) {
  return messages_of([&] { static_cast<void>(calibrate(m)); });
}

TEST_CASE("Power records that contradict each other are refused") {
  Measurements m = machine();
  m.duty[3].board.power *= 3;
  CHECK(refusal(m).starts_with("duty: HBM-bound kernels come out at "));
  m = machine();
  m.duty[0].board.power = 60;
  CHECK(refusal(m) == "duty: this cycle draws no more than copies alone | its products must draw "
                      "something: measure again");
  m = machine();
  for (DutyRecord& record : m.duty) {
    record.rate = rate_alone; // one speed says nothing of its power
  }
  CHECK(refusal(m).starts_with("duty: the exponent of the clock rule comes out at "));
  m = machine();
  m.duty[1].board.power *= 0.8; // scatter that leaves the exponent open
  CHECK(refusal(m).starts_with("duty: the exponent of the clock rule comes out at "));
  m = machine();
  m.duty[2].board.limit = 350;
  CHECK(refusal(m) == "power: a limit of 350 W here, 520 W in the first record | calibrate one "
                      "machine under one limit at a time");
  m = machine();
  m.power.push_back(m.power[1]);
  m.power.back().rate *= 1.2;
  CHECK(refusal(m) == "power: products of one shape at the limit run at 600 TFLOP/s and at 720 "
                      "TFLOP/s | rates of one shape may differ by 10 %: measure again under one "
                      "condition");
  m.power.back().rate = rate_alone * 1.02; // a repeat: the median counts
  CHECK(refusal(m).empty());
  m = machine();
  for (PowerRecord& record : m.power) {
    record.board.power = record.work == "d2h" || record.work == "h2d" ? 600 : record.board.power;
  }
  CHECK(refusal(m).starts_with("power: copies alone draw 1.2 of what products draw"));
}

// A board that is throttled far below its limit (a locked clock) is not at the limit, and a
// cycle of almost nothing but products says nothing of its filler.
TEST_CASE("Records that say nothing of the limit are left out") {
  Measurements m = machine();
  m.power[0].board.power = 300;
  CHECK(reason(m) ==
        "a clock rule needs products of 3 shapes that hold the board at its limit, not 2");
  m = machine();
  m.duty.push_back(cycle("hbm", 0.99, 1.01, 1550));
  m.duty.back().board.power *= 1.1;
  CHECK(found(calibrate(m), "memory_power").value == doctest::Approx(memory));
  m = machine();
  m.power.back().board.clock = 1400; // attention below every speed
  const Calibration c = calibrate(m);
  CHECK(std::none_of(c.coefficients.begin(), c.coefficients.end(), [](const auto& fitted) {
    return fitted.coefficient.path == "gpu.clock.attention_power";
  }));
  CHECK(c.dropped.back().reason == "attention at a clock that no duty cycle reaches");
}

// The smallest of four products takes 12 us, a launch in a queue 2 us: timing adds 10 us.
// Where even the smallest computes for longer than a launch, nobody can tell.
TEST_CASE("What timing one call at a time adds is told by the smallest product") {
  const auto with_smallest = [](std::int64_t smallest) {
    Measurements m;
    m.device = machine().device;
    m.launch = {{{}, 0, 2e-6, somewhere()}};
    for (const std::int64_t size : {smallest, 2 * smallest, 4 * smallest, 8 * smallest}) {
      const double flops = 2.0 * static_cast<double>(size * size * size);
      m.matmul.push_back({{size, size, size}, flops, 12e-6 + flops / 400e12, somewhere()});
    }
    return calibrate(m);
  };
  const Calibration told = with_smallest(64);
  REQUIRE(told.tables.size() == 1);
  CHECK(told.tables[0].timing_overhead == doctest::Approx(10e-6).epsilon(1e-8));
  HardwareFile file;
  file.name = "own";
  file.source_title = "s";
  CHECK(hardware_yaml(told, file)
            .find("          timing_overhead:\n"
                  "            value: \"10 us\"\n"
                  "            kind: measured\n") != std::string::npos);
  CHECK(with_smallest(1024).tables[0].timing_overhead == 0);
}
