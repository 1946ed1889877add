// Measurements of a made-up machine, whose numbers the fits must find again.
#include "hw_models/calibration/hardware_file.hpp"
#include "sim/lower/catalog.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace spillway;

namespace {

constexpr double l2 = 50e6;

Place line_of_file(int line) {
  static const auto source = std::make_shared<const SourceText>(SourceText{"m.jsonl", {}});
  return {source, line, 1};
}

// Bytes and times on start + bytes / rate; `moved` bytes count for each byte of the size.
std::vector<Sample> on_a_line(double start, double rate, double moved,
                              const std::vector<double>& sizes) {
  std::vector<Sample> samples;
  for (const double size : sizes) {
    samples.push_back({{static_cast<std::int64_t>(size)},
                       moved * size,
                       start + moved * size / rate,
                       line_of_file(static_cast<int>(samples.size()) + 1)});
  }
  return samples;
}

const std::vector<double> copy_sizes{4e3, 64e3, 1e6, 16e6, 256e6, 4e9};

Measurements machine() {
  Measurements m;
  m.files = {"m.jsonl"};
  m.device = {"Own \"GPU\"", 80'000'000'000, static_cast<std::int64_t>(l2), line_of_file(1)};
  m.stream = on_a_line(5e-6, 2e12, 2, {200e6, 400e6, 1e9, 4e9});
  m.d2h = on_a_line(3e-6, 50e9, 1, copy_sizes);
  m.h2d = on_a_line(4e-6, 40e9, 1, copy_sizes);
  m.duplex = on_a_line(5e-6, 60e9, 2, copy_sizes);
  m.launch = {{{}, 0, 2e-6, line_of_file(2)}};
  for (const std::int64_t size : {512, 1024, 4096, 8192}) {
    const double flops = 2.0 * static_cast<double>(size * size * size);
    m.matmul.push_back({{size, size, size}, flops, 10e-6 + flops / 400e12, line_of_file(3)});
  }
  return m;
}

const FittedCoefficient& found(const Calibration& calibration, const std::string& path) {
  const auto at = std::find_if(calibration.coefficients.begin(), calibration.coefficients.end(),
                               [&](const auto& f) { return f.coefficient.path == path; });
  REQUIRE(at != calibration.coefficients.end());
  return *at;
}

double value_of(const Calibration& calibration, const std::string& path) {
  return found(calibration, path).coefficient.value;
}

const Coefficient& only_one(const Device& device, const std::string& path) {
  std::vector<const Coefficient*> matches = device.coefficients();
  std::erase_if(matches, [&](const Coefficient* c) { return c->path != path; });
  INFO(path);
  REQUIRE(matches.size() == 1);
  return *matches.front();
}

std::string refusal(const Measurements& measurements) {
  return messages_of([&] { static_cast<void>(calibrate(measurements)); });
}

HardwareFile described(const std::string& title, const std::string& table_file = "") {
  HardwareFile file;
  file.name = "own";
  file.title = title;
  file.source_title = "s";
  if (!table_file.empty()) {
    file.table_files = {table_file};
  }
  return file;
}

Work square_product(std::int64_t size) {
  Work work;
  work.kind = WorkKind::matmul;
  work.m = work.n = work.k = size;
  return work;
}

YamlNode written(const Calibration& calibration, const HardwareFile& file) {
  return parse_yaml(hardware_yaml(calibration, file), "own.yaml");
}

} // namespace

TEST_CASE("The numbers of a machine are found again from its times") {
  const Calibration c = calibrate(machine());
  CHECK(value_of(c, "gpu.memory") == 80e9);
  CHECK(value_of(c, "gpu.hbm_rate") == doctest::Approx(2e12));
  CHECK(value_of(c, "gpu.kernel_overhead") == 2e-6);
  CHECK(value_of(c, "host.d2h.rate") == doctest::Approx(50e9));
  CHECK(value_of(c, "host.d2h.latency") == doctest::Approx(3e-6));
  CHECK(value_of(c, "host.h2d.rate") == doctest::Approx(40e9));
  CHECK(value_of(c, "host.h2d.latency") == doctest::Approx(4e-6));
  CHECK(value_of(c, "host.duplex_rate") == doctest::Approx(60e9)); // both directions together
  for (const FittedCoefficient& fitted : c.coefficients) {
    CHECK(fitted.coefficient.kind == "measured");
    CHECK(fitted.coefficient.low <= fitted.coefficient.value);
    CHECK(fitted.coefficient.value <= fitted.coefficient.high);
    CHECK_FALSE(fitted.note.empty());
    CHECK(fitted.records > 0);
  }
  REQUIRE(c.tables.size() == 1);
  CHECK(c.fits[1].name == "matmul");
  CHECK(c.fits[1].line.rate == doctest::Approx(400e12));
  CHECK(c.fits[1].line.t0 == doctest::Approx(10e-6));
}

// 4 x 50 MB = 200 MB: reading and writing 100 MB each is dropped, 101 MB is used.
TEST_CASE("Working sets that the L2 cache can hold a quarter of are dropped") {
  Measurements m = machine();
  for (const double size : {1e6, 100e6}) {
    m.stream.push_back(on_a_line(0, 20e12, 2, {size}).front()); // faster than HBM
  }
  const Calibration c = calibrate(m);
  CHECK(value_of(c, "gpu.hbm_rate") == doctest::Approx(2e12));
  CHECK(found(c, "gpu.hbm_rate").records == 4);
  REQUIRE(c.dropped.size() == 1);
  CHECK(c.dropped[0].kind == "hbm_stream");
  CHECK(c.dropped[0].records == 2);
  CHECK(c.dropped[0].reason == "working set of at most 4 times the L2 cache of 50 MB");
  m.stream.push_back(on_a_line(5e-6, 2e12, 2, {101e6}).front());
  CHECK(found(calibrate(m), "gpu.hbm_rate").records == 5);

  m.stream = on_a_line(0, 20e12, 2, {1e6, 100e6});
  CHECK(refusal(m) == "hbm_stream: no working set is larger than 4 times the L2 cache of 50 MB | "
                      "what fits in the cache says nothing of HBM");
  m.stream = on_a_line(0, 20e12, 2, {1e6, 50e6, 100e6, 101e6, 200e6, 4e9});
  CHECK(refusal(m) == "hbm_stream: 3 sizes cannot give a start and a rate | measure at least 4; "
                      "not used for a working set of at most 4 times the L2 cache of 50 MB: 3");
}

TEST_CASE("Launches give their median, from the fastest to the slowest") {
  Measurements m = machine();
  for (const double seconds : {2.1e-6, 2.15e-6}) {
    m.launch.push_back({{}, 0, seconds, line_of_file(4)});
  }
  const Calibration c = calibrate(m);
  const Coefficient& overhead = found(c, "gpu.kernel_overhead").coefficient;
  CHECK(overhead.value == 2.1e-6);
  CHECK(overhead.low == 2e-6);
  CHECK(overhead.high == 2.15e-6);
  m.launch.push_back({{}, 0, 4e-6, line_of_file(5)});
  CHECK(refusal(m).starts_with("this launch takes 4 us, but the same on m.jsonl:2 2 us"));
}

TEST_CASE("The range of both directions holds what copies reached beside kernels") {
  Measurements m = machine();
  m.interference = {{"gemm", "none", 2.0, 0, 0, {}},
                    {"gemm", "d2h", 2.1, 70e9, 0, {}},
                    {"gemm", "both", 2.2, 35e9, 30e9, {}},
                    {"other", "both", 1.0, 30e9, 24e9, {}}};
  const Calibration c = calibrate(m);
  const Coefficient& duplex = found(c, "host.duplex_rate").coefficient;
  CHECK(duplex.value == doctest::Approx(60e9));
  CHECK(duplex.low == 54e9);
  CHECK(duplex.high == 65e9); // one direction alone is no sum
  REQUIRE(c.beside.size() == 4);
  CHECK(*c.beside[0].over_alone == 1);
  CHECK(*c.beside[2].over_alone == doctest::Approx(1.1));
  CHECK_FALSE(c.beside[3].over_alone.has_value()); // never measured alone
}

// Copies both ways reach 60 GB/s on their line, one way 50 and 40 GB/s: three times and a
// third are 180 and 20 GB/s, and 10 % above the sum 99 GB/s.
TEST_CASE("Rates beside kernels that contradict the copies alone are refused") {
  const auto with = [](const std::string& copies, double d2h, double h2d) {
    Measurements m = machine();
    m.interference = {{"w", copies, 1.0, d2h, h2d, line_of_file(1)}};
    return refusal(m);
  };
  const std::string bounds = " without work | up to 3 times as much or as little is accepted: "
                             "measure again";
  CHECK(with("both", 50e12, 44e12) ==
        "w beside both copies: copies reach 94 TB/s, but 60 GB/s" + bounds);
  CHECK(with("both", 1, 1) == "w beside both copies: copies reach 2 B/s, but 60 GB/s" + bounds);
  CHECK(with("both", 10e9, 9e9) ==
        "w beside both copies: copies reach 19 GB/s, but 60 GB/s" + bounds);
  CHECK(with("both", 10e9, 11e9) == "");
  CHECK(with("d2h", 16e9, 0) == "w beside d2h copies: copies reach 16 GB/s, but 50 GB/s" + bounds);
  CHECK(with("d2h", 17e9, 0) == "");
  CHECK(with("h2d", 0, 119e9) == "");
  CHECK(with("h2d", 0, 121e9) ==
        "w beside h2d copies: copies reach 121 GB/s, but 40 GB/s" + bounds);
  CHECK(with("both", 54e9, 44e9) == "");
  CHECK(with("both", 55e9, 45e9) ==
        "copies both ways reach 100 GB/s, but one way at a time at most 50 GB/s and 40 GB/s | up "
        "to 10 % above the sum is accepted: measure again");
}

TEST_CASE("Both directions together faster than one at a time are refused") {
  Measurements m = machine();
  m.duplex = on_a_line(5e-6, 98e9, 2, copy_sizes);
  CHECK(refusal(m) == "");
  m.duplex = on_a_line(5e-6, 600e9, 2, copy_sizes);
  CHECK(refusal(m) ==
        "copies both ways reach 600 GB/s, but one way at a time at most 50 GB/s and 40 GB/s | up "
        "to 10 % above the sum is accepted: measure again");
}

TEST_CASE("Repeats of the same work beside the same copies must agree within 10 %") {
  const auto with = [](const InterferenceRecord& again) {
    Measurements m = machine();
    m.interference = {{"w", "none", 1.0, 0, 0, line_of_file(1)},
                      {"w", "both", 1.0, 35e9, 30e9, line_of_file(2)},
                      again};
    return refusal(m);
  };
  CHECK(with({"w", "none", 1.1, 0, 0, line_of_file(3)}) == "");
  CHECK(with({"w", "none", 1.2, 0, 0, line_of_file(3)}) ==
        "this w alone takes 1.2 s, but the same on m.jsonl:1 1 s | times of one shape may differ "
        "by 10 %: measure again under one condition");
  CHECK(with({"w", "both", 2.0, 35e9, 30e9, line_of_file(3)})
            .starts_with("this w beside both copies takes 2 s, but the same on m.jsonl:2 1 s"));
  CHECK(with({"w", "both", 1.0, 35e9, 25e9, line_of_file(3)}) ==
        "w beside both copies: h2d copies reach 30 GB/s, but the same on m.jsonl:3 25 GB/s | rates "
        "beside one work may differ by 10 %: measure again under one condition");
  CHECK(with({"other", "both", 2.0, 25e9, 25e9, line_of_file(3)}) == "");
}

TEST_CASE("A kernel in less than a third of the time that the others suggest is refused") {
  Measurements m = machine();
  for (const std::int64_t size : {768, 1536, 3072, 6144, 10240, 12288, 16384}) {
    const double work = 2.0 * static_cast<double>(size * size * size);
    m.matmul.push_back({{size, size, size}, work, 10e-6 + work / 400e12, line_of_file(8)});
  }
  const double flops = 2.0 * 2048 * 2048 * 2048;
  const auto with = [&](double seconds) {
    Measurements changed = m;
    changed.matmul.push_back({{2048, 2048, 2048}, flops, seconds, line_of_file(9)});
    return refusal(changed);
  };
  // 52.95 us on the line, a third is 17.65 us. Slow shapes are a table's business; the line bends a
  // little.
  CHECK(with(53e-6) == "");
  CHECK(with(300e-6) == "");
  CHECK(with(20e-6) == "");
  CHECK(with(17e-6) == "matmul: 17 us measured, but the line through the others says 52.95 us | up "
                       "to 200 % more is accepted: measure again");
  // Ten times are 529.5 us.
  CHECK(with(520e-6) == "");
  const std::string bounds = "but the line through the others says 52.95 us | up to 90 % less is "
                             "accepted: measure again";
  CHECK(with(540e-6) == "matmul: 540 us measured, " + bounds);
  CHECK(with(53e-3) == "matmul: 53 ms measured, " + bounds);
}

// The start, 10 us, is less than 1 % of 16384^3 products: 22 ms. One of nearly that size in
// twice its time is a row of the table, but no rate of the line.
TEST_CASE("A slow kernel is kept in its table and left out of the range of the rate") {
  Measurements m = machine();
  for (const std::int64_t size : {768, 1536, 2048, 3072, 6144, 10240, 12288, 16384}) {
    const double work = 2.0 * static_cast<double>(size * size * size);
    m.matmul.push_back({{size, size, size}, work, 10e-6 + work / 400e12, line_of_file(8)});
  }
  const double work = 2.0 * 16000 * 16384 * 16384;
  m.matmul.push_back({{16000, 16384, 16384}, work, 2 * (10e-6 + work / 400e12), line_of_file(9)});
  const Calibration c = calibrate(m);
  CHECK(c.tables[0].rows.size() == 13);
  CHECK(c.fits[1].line.rate_range.low > 250e12); // the slow one alone: 200 TFLOP/s
}

TEST_CASE("A table whose large kernels get slower is kept, its line starts at 0") {
  Measurements m = machine();
  m.matmul.clear();
  for (std::int64_t tokens = 128; tokens <= 262144; tokens *= 2) {
    const double octaves = std::log2(static_cast<double>(tokens) / 128);
    const double work = 2.0 * static_cast<double>(tokens) * 1024 * 1024;
    m.matmul.push_back(
        {{tokens, 1024, 1024}, work, work / 400e12 * std::pow(1.03, octaves), line_of_file(3)});
  }
  const Calibration c = calibrate(m);
  REQUIRE(c.tables.size() == 1);
  CHECK(c.tables[0].rows.size() == 12);
  CHECK(c.fits[1].line.t0 == 0);
}

TEST_CASE("Several fits are refused together") {
  Measurements m = machine();
  m.d2h.resize(3);
  m.matmul.resize(2);
  m.duplex = on_a_line(1e-3, 60e9, 2, {1e6, 2e6, 3e6, 4e6});
  CHECK(refusal(m) == "matmul: 2 sizes cannot give a start and a rate | measure at least 4\n"
                      "copy d2h: 3 sizes cannot give a start and a rate | measure at least 4\n"
                      "copy both ways: the largest size is only 4 times the smallest | measure "
                      "sizes that span a factor of at least 16");
}

TEST_CASE("What was not measured is not written") {
  Measurements m;
  m.device = machine().device;
  const Calibration c = calibrate(m);
  CHECK(c.coefficients.size() == 1);
  const YamlNode file = written(c, described("t"));
  CHECK(file.find("host") == nullptr);
  CHECK(file.find("gpu")->entries.size() == 1);
}

TEST_CASE("The written file gives the fitted values back, to four digits, and the tables") {
  const Calibration c = calibrate(machine());
  const Catalog catalog({"."});
  const YamlNode own = written(c, described("a \"b\" \\c"));
  const std::string any = catalog.names(CatalogKind::hardware).front();
  YamlNode node =
      catalog.load_file(CatalogKind::hardware, catalog.find(CatalogKind::hardware, any));
  const std::size_t tables_before = [&] {
    Diagnostics diagnostics;
    return read_device(node, catalog.table_folder(), diagnostics).tables.size();
  }();
  const std::size_t replaced =
      node.find("gpu")->find("kernels")->find("matmul")->find("bf16")->items.size();
  merge_over(node, own);
  Diagnostics diagnostics;
  const Device device = read_device(node, catalog.table_folder(), diagnostics);
  CHECK(report_text(diagnostics) == "");
  CHECK(device.title == "a \"b\" \\c");
  for (const FittedCoefficient& fitted : c.coefficients) {
    const Coefficient& read = only_one(device, fitted.coefficient.path);
    CHECK(read.value == doctest::Approx(fitted.coefficient.value).epsilon(5e-4));
    CHECK(read.low == doctest::Approx(fitted.coefficient.low).epsilon(5e-4));
    CHECK(read.high == doctest::Approx(fitted.coefficient.high).epsilon(5e-4));
    CHECK(read.kind == "measured");
    CHECK(read.source == "s");
  }
  CHECK(device.memory.value == 80e9); // in full
  CHECK(device.tables.size() == tables_before - replaced + 1);
  CHECK(device.tables.front()->device == "Own \"GPU\"");
  const Work work = square_product(4096);
  const double flops = work.flops().value();
  // The start is the timing's but for a launch of 2 us, as the smallest product tells.
  const double timing = machine().matmul.front().seconds - 2e-6;
  CHECK(device.tables.front()->rate(work).rate ==
        doctest::Approx(flops / (10e-6 - timing + flops / 400e12)).epsilon(1e-3));
}

TEST_CASE("A table's file is the table, and the hardware file names it") {
  const Calibration c = calibrate(machine());
  Diagnostics diagnostics;
  const KernelTable table = KernelTable::read(
      parse_yaml(table_yaml(c, c.tables.front(), "s"), "matmul.yaml"), diagnostics);
  CHECK(report_text(diagnostics) == "");
  CHECK(table.op == KernelTable::Op::matmul);
  CHECK(table.any_stage());
  CHECK(table.kind == "measured");
  CHECK(table.source == "s");
  const YamlNode file = written(c, described("t", "./matmul.yaml"));
  const YamlNode* list = file.find("gpu")->find("kernels")->find("matmul")->find("bf16");
  REQUIRE(list->items.size() == 1);
  CHECK(list->items[0].text == "./matmul.yaml");
}
