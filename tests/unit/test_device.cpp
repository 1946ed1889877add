#include "tests/support/device_file.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;

namespace {

// A source of the test's own, so that no tag of the file matters.
const std::string own_source =
    "sources={mine: {title: Mine, url: u, commit: c}, other: {title: O}}";

// Complaints about gpu.hbm_rate written as `value`. The file's tags are gone with its
// sources, so only those that name this coefficient are of interest.
std::string complaints_about(const std::string& value) {
  YamlNode node = changed({});
  remove(node, "sources");
  remove(entry_of(node, "gpu"), "hbm_rate");
  set_path(node, own_source);
  set_path(node, "gpu.hbm_rate=" + value);
  Diagnostics diagnostics;
  static_cast<void>(read(node, diagnostics));
  std::string all;
  try {
    diagnostics.throw_if_any();
  } catch (const InputError& error) {
    for (const Diagnostic& found : error.diagnostics()) {
      if (found.place.source && found.place.source->name == "--set") {
        all += (all.empty() ? "" : "\n") + found.message +
               (found.hint.empty() ? "" : " | " + found.hint);
      }
    }
  }
  return all;
}

} // namespace

TEST_CASE("Every committed hardware file is read without a complaint") {
  const std::vector<std::string> names = catalog().names(CatalogKind::hardware);
  REQUIRE(names.size() >= 2);
  for (const std::string& name : names) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const Device device = read(hardware_file(name), diagnostics);
    CHECK(report_text(diagnostics) == "");
    CHECK(device.name == name);
    CHECK_FALSE(device.title.empty());
    CHECK(device.scale_up_domain % device.gpus_per_cpu == 0);
  }
}

TEST_CASE("Every committed coefficient has a kind, a source and an ordered range") {
  const std::set<std::string> kinds{"datasheet", "measured", "inferred", "assumed"};
  for (const std::string& name : catalog().names(CatalogKind::hardware)) {
    Diagnostics diagnostics;
    const Device device = read(hardware_file(name), diagnostics);
    std::set<std::string> paths;
    for (const Coefficient* c : device.coefficients()) {
      CAPTURE(name);
      CAPTURE(c->path);
      CHECK(kinds.count(c->kind) == 1);
      CHECK_FALSE(c->source.empty());
      CHECK(c->source != "set by the user");
      const bool derived = c->kind == "inferred" || c->kind == "assumed";
      CHECK((!derived || !c->note.empty())); // the reasoning, for everyone to judge
      CHECK(c->low <= c->value);
      CHECK(c->value <= c->high);
      CHECK(c->value > 0);
      CHECK(paths.insert(c->path).second);
    }
    // All 23 fields of Device, one more where both directions share a limit, one where
    // stores in a loop have a share, the six of a clock rule, and the tables' factors.
    const std::size_t optional = (device.duplex_rate ? 1U : 0U) +
                                 (device.loop_store_share ? 1U : 0U) + (device.clock ? 6U : 0U) +
                                 device.rate_factors.size();
    CHECK(paths.size() == 23 + optional);
    CHECK(paths.count("gpu.shape_factor") == 1);
    for (const char* path :
         {"gpu.clock.limit_rate", "gpu.clock.attention_power", "gpu.clock.memory_power",
          "gpu.clock.idle_power", "gpu.clock.max_speed", "gpu.clock.exponent"}) {
      CHECK(paths.count(path) == (device.clock ? 1 : 0));
    }
  }
}

TEST_CASE("No committed memory of a CPU is slower than the link of one GPU") {
  for (const std::string& name : catalog().names(CatalogKind::hardware)) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const Device device = read(hardware_file(name), diagnostics);
    CHECK(device.host_pool_rate.value >= device.d2h_rate.value);
    CHECK(device.host_pool_rate.value >= device.h2d_rate.value);
  }
}

TEST_CASE("Every committed factor of another device's tables has a range") {
  for (const std::string& name : catalog().names(CatalogKind::hardware)) {
    Diagnostics diagnostics;
    for (const Coefficient& factor : read(hardware_file(name), diagnostics).rate_factors) {
      CAPTURE(name);
      CAPTURE(factor.path);
      CHECK(factor.low < factor.high);
    }
  }
}

TEST_CASE("One memory rate of one source is of the same kind in every committed file") {
  std::map<std::pair<std::string, double>, std::string> kinds;
  for (const std::string& name : catalog().names(CatalogKind::hardware)) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const Coefficient rate = read(hardware_file(name), diagnostics).hbm_rate;
    const auto [first, added] = kinds.emplace(std::pair(rate.source, rate.value), rate.kind);
    CHECK((added || first->second == rate.kind));
  }
}

TEST_CASE("Every committed hardware has tables for all kinds of product and stages") {
  for (const std::string& name : catalog().names(CatalogKind::hardware)) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const Device device = read(hardware_file(name), diagnostics);
    const auto served = [&](KernelTable::Op op, Stage stage) {
      return std::any_of(device.tables.begin(), device.tables.end(), [&](const auto& table) {
        return table->op == op && table->type == DataType::bf16 && table->serves(stage);
      });
    };
    for (const Stage stage : {Stage::forward, Stage::dgrad, Stage::wgrad}) {
      CHECK(served(KernelTable::Op::matmul, stage));
      CHECK(served(KernelTable::Op::grouped_matmul, stage));
    }
    CHECK(served(KernelTable::Op::attention, Stage::forward));
    CHECK(served(KernelTable::Op::attention, Stage::backward));
  }
}

// A value that only this coefficient is set to, as text and in base units. Plain numbers
// lie between 1.01 and 1.30, which is inside the range of all of them.
std::pair<std::string, double> own_value(const Coefficient& c, int step) {
  const std::string digits = std::to_string(step);
  if (!c.dimension) {
    const double value = 1 + step / 100.0;
    return {std::to_string(value), value};
  }
  switch (*c.dimension) {
  case Dimension::bytes: return {digits + " kB", step * 1e3};
  case Dimension::seconds: return {digits + " us", step * 1e-6};
  case Dimension::byte_rate: return {digits + " GB/s", step * 1e9};
  case Dimension::flop_rate: return {digits + " TFLOP/s", step * 1e12};
  }
  return {};
}

// A file's value reaches the field of its path: each coefficient set to its own number.
TEST_CASE("A value under --set lands in the coefficient of that path") {
  for (const std::string& name : catalog().names(CatalogKind::hardware)) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const Device plain = read(hardware_file(name), diagnostics);
    int step = 0;
    for (const Coefficient* c : plain.coefficients()) {
      CAPTURE(c->path);
      step += 1;
      const auto [text, value] = own_value(*c, step);
      YamlNode node = hardware_file(name);
      set_path(node, c->path + "=" + text);
      const Device device = read(node, diagnostics);
      CHECK(report_text(diagnostics) == "");
      std::size_t differing = 0;
      for (const Coefficient* found : device.coefficients()) {
        if (found->kind == "assumed" && found->source == "set by the user") {
          ++differing;
          CHECK(found->path == c->path);
          CHECK(found->value == doctest::Approx(value).epsilon(1e-12));
          CHECK_FALSE(found->has_range());
          CHECK(found->low == found->value);
          CHECK(found->high == found->value);
        }
      }
      CHECK(differing == 1);
    }
  }
}

const char* const clock_text =
    "gpu.clock={limit_rate: 600 TFLOP/s, attention_power: 0.9, memory_power: 0.6, "
    "idle_power: 0.3, max_speed: 1.25, exponent: 2.5}";

TEST_CASE("A clock rule is there only where the file has one, with all six numbers") {
  Diagnostics diagnostics;
  YamlNode without = changed({});
  remove(entry_of(without, "gpu"), "clock");
  CHECK_FALSE(read(without, diagnostics).clock.has_value());
  CHECK_FALSE(read(changed({"gpu.clock=off"}), diagnostics).clock.has_value());
  CHECK(complaints({"gpu.clock=on"}) == "'clock' must be a map, not 'on'");
  const Device device = read(changed({clock_text}), diagnostics);
  CHECK(report_text(diagnostics) == "");
  REQUIRE(device.clock.has_value());
  CHECK(device.clock->limit_rate.value == 600e12);
  CHECK(device.clock->attention_power.value == 0.9);
  CHECK(device.clock->memory_power.value == 0.6);
  CHECK(device.clock->idle_power.value == 0.3);
  CHECK(device.clock->max_speed.value == 1.25);
  CHECK(device.clock->exponent.value == 2.5);
  CHECK(complaints({clock_text, "gpu.clock.max_speed=0.9"}) ==
        "'max_speed' must be between 1 and 4, not 0.9");
  CHECK(complaints({clock_text, "gpu.clock.exponent=1"}) ==
        "'exponent' must be greater than 1 and at most 6, not 1");
  CHECK(complaints({"gpu.clock={limit_rate: 600 TFLOP/s, attention_power: 0.9, "
                    "memory_power: 0.6, idle_power: 0.3, max_speed: 1.25}"}) ==
        "missing key 'exponent' in 'clock'");
}

TEST_CASE("Coefficients of paths read into the fields that carry their names") {
  Diagnostics diagnostics;
  const Device device = read(
      changed({"host.d2h.rate=1 GB/s", "host.h2d.rate=2 GB/s", "host.d2h.latency=3 us",
               "host.h2d.latency=4 us", "scale_up.all_gather=0.1", "scale_up.reduce_scatter=0.2",
               "scale_up.all_to_all=0.3", "scale_up.latency=5 us", "scale_out.latency=6 us",
               "host.duplex_rate=7 GB/s", "host.pool_rate=8 GB/s", "gpu.matmul_derate=0.4",
               "gpu.attention_derate=0.5", "host.gpus_per_cpu=3", "scale_up.domain=9"}),
      diagnostics);
  CHECK(report_text(diagnostics) == "");
  CHECK(device.d2h_rate.value == 1e9);
  CHECK(device.h2d_rate.value == 2e9);
  CHECK(device.d2h_latency.value == doctest::Approx(3e-6));
  CHECK(device.h2d_latency.value == doctest::Approx(4e-6));
  CHECK(device.all_gather.value == 0.1);
  CHECK(device.reduce_scatter.value == 0.2);
  CHECK(device.all_to_all.value == 0.3);
  CHECK(device.scale_up_latency.value == doctest::Approx(5e-6));
  CHECK(device.scale_out_latency.value == doctest::Approx(6e-6));
  REQUIRE(device.duplex_rate.has_value());
  CHECK(device.duplex_rate->value == 7e9);
  CHECK(device.host_pool_rate.value == 8e9);
  CHECK(device.matmul_derate.value == 0.4);
  CHECK(device.attention_derate.value == 0.5);
  CHECK(device.gpus_per_cpu == 3);
  CHECK(device.scale_up_domain == 9);
}

TEST_CASE("A coefficient is read with its range, kind and the full text of its source") {
  YamlNode node = changed({"sources.mine={title: Mine, url: u, commit: c}"});
  remove(entry_of(node, "gpu"), "hbm_rate");
  set_path(node, "gpu.hbm_rate={value: 5 TB/s, low: 4 TB/s, high: 6.5 TB/s, kind: inferred, "
                 "source: mine, note: why}");
  Diagnostics diagnostics;
  const Device device = read(node, diagnostics);
  CHECK(report_text(diagnostics) == "");
  CHECK(device.hbm_rate.path == "gpu.hbm_rate");
  CHECK(device.hbm_rate.value == 5e12);
  CHECK(device.hbm_rate.low == 4e12);
  CHECK(device.hbm_rate.high == 6.5e12);
  CHECK(device.hbm_rate.has_range());
  CHECK(device.hbm_rate.kind == "inferred");
  CHECK(device.hbm_rate.source == "Mine, u at c");
}

TEST_CASE("A coefficient without its unit is reported") {
  CHECK(complaints({"gpu.hbm_rate=5"}) ==
        "'hbm_rate' needs a unit | write for example \"193 GB/s\"");
  CHECK(complaints({"gpu.hbm_rate.value=5"}) ==
        "'value' needs a unit | write for example \"193 GB/s\"");
  CHECK(complaints({"host.d2h.latency=5"}) ==
        "'latency' needs a unit | write for example \"8 us\"");
  CHECK(complaints({"gpu.matmul_derate=0.5 GB/s"}) ==
        "'matmul_derate' must be a number, not '0.5 GB/s'");
}

TEST_CASE("A source that the file does not list is reported with the nearest one") {
  CHECK(complaints_about("{value: 5 TB/s, kind: measured, source: mien}") ==
        "'hbm_rate' names the unknown source 'mien' | did you mean 'mine'?");
  CHECK(complaints_about("{value: 5 TB/s, kind: measured, source: rumour}") ==
        "'hbm_rate' names the unknown source 'rumour' | known: mine, other");
  CHECK(complaints_about("{value: 5 TB/s, kind: measured, source: mine}") == "");
  CHECK(complaints_about("{value: 5 TB/s, kind: measured}") ==
        "missing key 'source' in 'hbm_rate'");
}

TEST_CASE("A range needs both ends and must enclose the value") {
  const auto with = [](const std::string& range) {
    return complaints_about("{value: 5 TB/s, " + range + ", kind: measured, source: mine}");
  };
  const std::string both = "'hbm_rate' needs both 'low' and 'high', or neither";
  const std::string order = "'hbm_rate' must have low <= value <= high";
  CHECK(with("low: 4 TB/s") == both);
  CHECK(with("high: 6 TB/s") == both);
  CHECK(with("low: 5.5 TB/s, high: 6 TB/s") == order);
  CHECK(with("low: 4 TB/s, high: 4.5 TB/s") == order);
  CHECK(with("low: 6 TB/s, high: 4 TB/s") == order);
  CHECK(with("low: 5 TB/s, high: 5 TB/s") == "");
}

TEST_CASE("An unknown kind of number is reported with the nearest one") {
  CHECK(complaints_about("{value: 5 TB/s, kind: measurd, source: mine}") ==
        "unknown value 'measurd' for 'kind' | did you mean 'measured'?");
  CHECK(complaints_about("{value: 5 TB/s, kind: guessed, source: mine}") ==
        "unknown value 'guessed' for 'kind' | known: datasheet, measured, inferred, assumed");
  CHECK(complaints_about("{value: 5 TB/s, source: mine}") == "missing key 'kind' in 'hbm_rate'");
}

TEST_CASE("An unknown path of the NIC is reported, the known ones are read") {
  CHECK(complaints({"scale_out.path=gpu"}) ==
        "unknown value 'gpu' for 'path' | known: separate, host, gpu_link");
  CHECK(complaints({"scale_out.path=gpu_lnk"}) ==
        "unknown value 'gpu_lnk' for 'path' | did you mean 'gpu_link'?");
  const std::array<std::pair<const char*, NicPath>, 3> paths{
      {{"separate", NicPath::separate}, {"host", NicPath::host}, {"gpu_link", NicPath::gpu_link}}};
  for (const auto& [text, path] : paths) {
    Diagnostics diagnostics;
    CHECK(read(changed({std::string("scale_out.path=") + text}), diagnostics).nic_path == path);
    CHECK(report_text(diagnostics) == "");
  }
}

TEST_CASE("Values outside the range of a coefficient are reported") {
  CHECK(complaints({"gpu.hbm_rate=0 GB/s"}).substr(0, 34) == "'hbm_rate' must be greater than 0 ");
  CHECK(complaints({"gpu.matmul_derate=1.6"}) ==
        "'matmul_derate' must be greater than 0 and at most 1.5, not 1.6");
  CHECK(complaints({"scale_out.efficiency=0"}) ==
        "'efficiency' must be greater than 0 and at most 1.5, not 0");
  CHECK(complaints({"host.gpus_per_cpu=0"}) == "'gpus_per_cpu' must be between 1 and 64, not 0");
  CHECK(complaints({"gpu.kernel_overhead=0 us"}) == ""); // none at all is a legitimate what-if
}

TEST_CASE("Unknown and missing keys of a hardware file are reported") {
  CHECK(complaints({"gpu.hbm_rat=5 TB/s"}) ==
        "unknown key 'hbm_rat' in 'gpu' | did you mean 'hbm_rate'?");
  CHECK(complaints({"kind=model"}) == "unknown value 'model' for 'kind' | known: hardware");
  for (const char* section : {"sources", "gpu", "host", "scale_up", "scale_out"}) {
    YamlNode node = changed({});
    remove(node, section);
    Diagnostics diagnostics;
    static_cast<void>(read(node, diagnostics));
    const std::string text = report_text(diagnostics);
    CHECK(text.find(std::string("missing key '") + section + "' in 'hardware'") !=
          std::string::npos);
  }
  YamlNode node = changed({});
  remove(entry_of(node, "gpu"), "context");
  Diagnostics diagnostics;
  static_cast<void>(read(node, diagnostics));
  CHECK(report_text(diagnostics).find("missing key 'context' in 'gpu'") != std::string::npos);
}

TEST_CASE("A file lays low, high or note over a coefficient of the file that it extends") {
  YamlNode base = changed({"sources.mine={title: Mine}"});
  remove(entry_of(base, "gpu"), "hbm_rate");
  set_path(base, "gpu.hbm_rate={value: 5 TB/s, low: 4 TB/s, high: 6 TB/s, kind: measured, source: "
                 "mine, note: why}");
  const auto rate_with = [&](const std::string& over) {
    YamlNode node = base;
    merge_over(node, parse_yaml("gpu: {hbm_rate: " + over + "}", "over.yaml"));
    Diagnostics diagnostics;
    const Device device = read(node, diagnostics);
    return std::pair(device.hbm_rate, report_text(diagnostics));
  };
  const auto [wider, nothing] = rate_with("{low: 3 TB/s, note: seen in steps}");
  CHECK(nothing == "");
  CHECK(wider.value == 5e12);
  CHECK(wider.low == 3e12);
  CHECK(wider.high == 6e12);
  CHECK(wider.kind == "measured");
  CHECK(wider.source == "Mine");
  CHECK(rate_with("{value: 5.5 TB/s}").first.value == 5.5e12);
  CHECK(rate_with("{value: 7 TB/s}").second.find("'hbm_rate' must have low <= value <= high") !=
        std::string::npos); // a value outside of the range that was measured
}

TEST_CASE("Coefficients are shown in their own unit") {
  Coefficient c;
  CHECK(format_coefficient(c, 0.75) == "0.75");
  c.dimension = Dimension::byte_rate;
  CHECK(format_coefficient(c, 193e9) == "193 GB/s");
  c.dimension = Dimension::bytes;
  CHECK(format_coefficient(c, 174.8e9) == "174.8 GB");
  c.dimension = Dimension::flop_rate;
  CHECK(format_coefficient(c, 908.2e12) == "908.2 TFLOP/s");
  c.dimension = Dimension::seconds;
  CHECK(format_coefficient(c, 12.4e-3) == "12.4 ms");
}
