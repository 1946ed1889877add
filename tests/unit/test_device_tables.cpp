// The kernel tables that a hardware file names or contains.
#include "tests/support/device_file.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

using namespace spillway;

namespace {

const std::string inline_table = "kind: kernel_table\nop: matmul\ndtype: bf16\nstage: any\n"
                                 "device: \"Own\"\nprovenance: measured\nsource: {title: Mine}\n"
                                 "columns: [m, n, k, us]\nrows: |\n  512 512 512 20\n";

// The matrix tables of the first committed file, replaced by what `list` says in a file
// of this name.
Device with_tables(const std::string& list, const std::string& name, Diagnostics& diagnostics) {
  YamlNode node = changed({});
  merge_over(node, parse_yaml("gpu:\n  kernels:\n    matmul:\n      bf16:\n" + list, name));
  return read(node, diagnostics);
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin) + 1;
    all += indent + text.substr(begin, end - begin);
    begin = end;
  }
  return all;
}

} // namespace

TEST_CASE("Each kind of product needs a table, and a table must exist") {
  for (const char* none : {"[]", "own.yaml", "{kind: kernel_table}", "~"}) {
    CHECK(complaints({std::string("gpu.kernels.matmul.bf16=") + none}) ==
          "'matmul' needs a list of at least one table under 'bf16'");
  }
  CHECK_THROWS_AS(complaints({"gpu.kernels.matmul.bf16=[nowhere.yaml]"}), InputError);
  std::string many;
  for (int i = 0; i < 65; ++i) {
    many += "h200-matmul-bf16.yaml, ";
  }
  CHECK(complaints({"gpu.kernels.matmul.bf16=[" + many + "]"}) ==
        "'matmul' has more than 64 tables");
}

TEST_CASE("A table may stand in the hardware file itself") {
  Diagnostics diagnostics;
  const std::string lines = indented(inline_table, "          ");
  const Device device = with_tables("        - " + lines.substr(10), "own.yaml", diagnostics);
  CHECK(report_text(diagnostics) == "");
  CHECK(device.tables.front()->device == "Own");
  CHECK(device.tables.front()->source == "Mine");
  Work work;
  work.kind = WorkKind::matmul;
  work.m = work.n = work.k = 512;
  CHECK(device.tables.front()->rate(work).rate == doctest::Approx(2.0 * 512 * 512 * 512 / 20e-6));
}

TEST_CASE("A table named by a path is relative to the file that says it") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("tables/one.yaml", inline_table));
  static_cast<void>(folder.write("beside.yaml", inline_table));
  for (const char* name : {"tables/one.yaml", "./tables/one.yaml", "./beside.yaml"}) {
    Diagnostics diagnostics;
    const Device device =
        with_tables(std::string("        - ") + name, folder.path("hardware.yaml"), diagnostics);
    CHECK(report_text(diagnostics) == "");
    CHECK(device.tables.front()->device == "Own");
  }
  // A bare name means a committed table, whatever lies beside the file.
  Diagnostics diagnostics;
  CHECK_THROWS_AS(static_cast<void>(with_tables("        - beside.yaml",
                                                folder.path("hardware.yaml"), diagnostics)),
                  InputError);
  // --set stands in no file: its paths start where the program runs.
  CHECK(complaints({"gpu.kernels.matmul.bf16=[" + folder.path("beside.yaml") + "]"}) == "");
  const std::string committed = catalog().table_folder().string();
  const YamlNode file = changed({});
  const YamlNode* kernels = file.find("gpu")->find("kernels");
  const std::string table = kernels->find("matmul")->find("bf16")->items.front().text;
  CHECK(complaints({"gpu.kernels.matmul.bf16=[" + committed + "/" + table + "]"}) == "");
}

TEST_CASE("What is neither a table's file nor a table is reported") {
  const std::string wrong = "a table must be a file name, a map of one and its 'rate_factors', or "
                            "a map of kind kernel_table";
  CHECK(complaints({"gpu.kernels.matmul.bf16=[[a]]"}) == wrong);
  CHECK(complaints({"gpu.kernels.matmul.bf16=['', ~]"}) == wrong + "\n" + wrong);
  const std::string mistakes = complaints({"gpu.kernels.matmul.bf16=[{kind: kernel_tabel}]"});
  CHECK(mistakes.find("unknown value 'kernel_tabel' for 'kind'") != std::string::npos);
  CHECK(mistakes.find("is not a table of") == std::string::npos); // one mistake, one message
}

// A committed file's tables, with one of its matrix tables multiplied by factors.
TEST_CASE("The table of another device names factors that are coefficients") {
  const std::string file =
      changed({}).find("gpu")->find("kernels")->find("matmul")->find("bf16")->items.front().text;
  Diagnostics diagnostics;
  const Device device = read(
      changed({"sources.mine={title: Mine}", "gpu.rate_factors.old=2",
               "gpu.rate_factors.newer={value: 3, low: 2, high: 4, kind: inferred, source: mine, "
               "note: n}",
               "gpu.kernels.matmul.bf16=[{table: " + file + ", rate_factors: [newer, old]}]"}),
      diagnostics);
  CHECK(report_text(diagnostics) == "");
  REQUIRE(device.rate_factors.size() >= 2);
  const std::size_t last = device.rate_factors.size() - 1;
  const Coefficient& newer = device.rate_factors[last];
  CHECK(newer.path == "gpu.rate_factors.newer");
  CHECK(newer.has_range());
  CHECK(newer.note == "n");
  CHECK(device.rate_factors[last - 1].kind == "assumed"); // set by the user
  CHECK(device.coefficients().back() == &newer);
  CHECK(device.tables.front()->rate_factors == std::vector<std::size_t>{last, last - 1});
  CHECK(device.tables.front()->kind == "inferred");
}

TEST_CASE("A reference to another device's table is read strictly") {
  const std::string file =
      changed({}).find("gpu")->find("kernels")->find("matmul")->find("bf16")->items.front().text;
  const auto said = [&](const std::string& reference) {
    return complaints(
        {"gpu.rate_factors.newer=3", "gpu.kernels.matmul.bf16=[{" + reference + "}]"});
  };
  CHECK(said("table: " + file + ", rate_factors: [newer]") == "");
  CHECK(said("table: " + file + ", rate_factors: [newr]")
            .find("'gpu.rate_factors' has no 'newr' | did you mean 'newer'?") != std::string::npos);
  CHECK(
      said("table: " + file).find("'rate_factors' must list at least one of 'gpu.rate_factors'") !=
      std::string::npos);
  CHECK(said("table: " + file + ", rate_factors: [newer], scale: 2").find("unknown key 'scale'") !=
        std::string::npos);
  CHECK(said("table: [a], rate_factors: [newer]").find("'table' must be") != std::string::npos);
  CHECK(complaints({"gpu.rate_factors.newer=0"}).find("'newer' must be") != std::string::npos);
  CHECK(complaints({"gpu.rate_factors=[2]"}).find("'rate_factors' must be a map") !=
        std::string::npos);
}

// Else a table in the wrong list is quietly used, or never.
TEST_CASE("A table listed under another kind of product is refused") {
  Diagnostics diagnostics;
  const YamlNode file = changed({});
  const YamlNode* kernels = file.find("gpu")->find("kernels");
  const std::string attention = kernels->find("attention")->find("bf16")->items.front().text;
  CHECK(complaints({"gpu.kernels.matmul.bf16=[" + attention + "]"}) ==
        "'" + attention + "' is not a table of bf16 matmul");
  const std::string own = "{kind: kernel_table, op: matmul, dtype: fp8, stage: any, device: d, "
                          "provenance: measured, source: {title: t}, columns: [m, n, k, us], "
                          "rows: '1 1 1 1'}";
  CHECK(complaints({"gpu.kernels.matmul.bf16=[" + own + "]"}) ==
        "this is not a table of bf16 matmul");
}
