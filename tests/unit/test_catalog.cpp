// Scenario files that extend others, and the folders in which names are looked up.
#include "sim/lower/catalog.hpp"

#include "tests/support/dense_scenario.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/step.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

// ---- extends ----

TEST_CASE("A scenario that extends another replaces what it says and keeps the rest") {
  const TemporaryFolder folder;
  static_cast<void>(
      folder.write("base.yaml", dense + "published: {remat: {mfu: 0.5, source: s}}\n"));
  const std::string child =
      folder.write("child.yaml", "extends: base.yaml\nbatch: {micro: 3}\npublished: ~\n"
                                 "policies:\n  more: {preset: none}\n");
  const Scenario scenario = catalogue(child);
  CHECK(scenario.name == "child");
  CHECK(scenario.batch.micro == 3);
  CHECK(scenario.batch.sequence == 4096);
  CHECK(scenario.model.layers == 2);
  CHECK(scenario.published.empty());
  REQUIRE(scenario.policies.size() == 2);
  CHECK(scenario.policies[0].name == "remat");
  CHECK(scenario.policies[1].name == "more");
  CHECK(catalogue(folder.path("base.yaml")).published.size() == 1);
}

// The working directory of the test is another one, and has no such file.
TEST_CASE("A relative path in a scenario is relative to the scenario's folder") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("models/own.yaml", "extends: llama-3.1-405b\nname: own\n"));
  static_cast<void>(folder.write("chips/own.yaml", "extends: gb200-nvl72\nname: own-chip\n"));
  const std::string path = folder.write(
      "path.yaml",
      replaced(replaced(dense, "{extends: llama-3.1-405b, layers: 2}", "models/own.yaml"),
               "hardware: gb200-nvl72", "hardware: chips/own.yaml"));
  CHECK(catalogue(path).model.name == "own");
  CHECK(catalogue(path).model.layers == 126);
  CHECK(catalogue(path).device.name == "own-chip");
  const std::string extended = folder.write(
      "extended.yaml", replaced(dense, "extends: llama-3.1-405b", "extends: models/own.yaml"));
  CHECK(catalogue(extended).model.name == "own");
  CHECK(catalogue(extended).model.layers == 2);
  // A path that a base says stays relative to the base.
  const std::string child = folder.write("deeper/child.yaml", "extends: ../path.yaml\n");
  CHECK(catalogue(child).model.name == "own");
  const std::string lost =
      folder.write("lost.yaml", replaced(dense, "{extends: llama-3.1-405b, layers: 2}", "no.yaml"));
  CHECK(messages_of([&] { static_cast<void>(catalogue(lost)); }) ==
        "cannot open: no such file or directory");
}

TEST_CASE("The committed scenario on another system drops what was published") {
  CHECK(catalogue("deepseek-v3-gb200").published.size() == 2);
  const Scenario other = catalogue("deepseek-v3-h200");
  CHECK(other.published.empty());
  CHECK(other.policies.size() == 3);
  CHECK(other.batch.sequence == 4096);
}

TEST_CASE("A circle of 'extends' and a missing file are reported") {
  const TemporaryFolder folder;
  const std::string self = folder.write("self.yaml", "extends: self.yaml\n");
  CHECK(messages_of([&] { static_cast<void>(catalogue(self)); }) ==
        "'extends' goes round in a circle | a file cannot extend itself, directly or through "
        "others");
  const std::string one = folder.write("one.yaml", "extends: two.yaml\n");
  static_cast<void>(folder.write("two.yaml", "extends: one.yaml\n"));
  CHECK(messages_of([&] { static_cast<void>(catalogue(one)); }) ==
        "'extends' goes round in a circle | a file cannot extend itself, directly or through "
        "others");
  const std::string lost = folder.write("lost.yaml", "extends: nowhere.yaml\n");
  CHECK(messages_of([&] { static_cast<void>(catalogue(lost)); }) ==
        "no file '" + folder.path("nowhere.yaml") + "' to extend");
  const std::string list = folder.write("list.yaml", "extends: [a, b]\n");
  CHECK(messages_of([&] { static_cast<void>(catalogue(list)); }) ==
        "'extends' must be a name or a file");
  const std::string empty = folder.write("empty.yaml", "extends: ''\n");
  CHECK(messages_of([&] { static_cast<void>(catalogue(empty)); }) ==
        "'extends' must be a name or a file");
  const std::string name = folder.write("name.yaml", "extends: deepseek-v3-gb20\n");
  CHECK(messages_of([&] { static_cast<void>(catalogue(name)); }) ==
        "unknown scenario 'deepseek-v3-gb20' | did you mean 'deepseek-v3-gb200'?");
}

TEST_CASE("A scenario file that is not there is reported as such") {
  CHECK(messages_of([] { static_cast<void>(catalogue("no/such.yaml")); }) ==
        "cannot open: no such file or directory");
}

// ---- catalogue ----

TEST_CASE("Earlier roots of a catalogue win and names are sorted and unique") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("workloads/scenarios/deepseek-v3-gb200.yaml", dense));
  static_cast<void>(folder.write("workloads/scenarios/aaa.yaml", dense));
  static_cast<void>(folder.write("workloads/scenarios/notes.txt", "not a scenario"));
  const Catalog both({folder.path(), "."});
  const std::vector<std::string> names = both.names(CatalogKind::scenario);
  REQUIRE_FALSE(names.empty());
  CHECK(names.front() == "aaa");
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::count(names.begin(), names.end(), "deepseek-v3-gb200") == 1);
  CHECK(std::count(names.begin(), names.end(), "notes") == 0);
  CHECK(both.find(CatalogKind::scenario, "deepseek-v3-gb200") ==
        folder.path("workloads/scenarios/deepseek-v3-gb200.yaml"));
  CHECK(both.find(CatalogKind::hardware, "h200") == fs::path("./hw_models/catalog/h200.yaml"));
  CHECK(both.find(CatalogKind::scenario, "some/where.yaml") == fs::path("some/where.yaml"));
  CHECK(both.table_folder() == fs::path("./hw_models/tables"));
}

TEST_CASE("Every kind of catalogue entry has a name") {
  CHECK(std::string(catalog_kind_name(CatalogKind::model)) == "model");
  CHECK(std::string(catalog_kind_name(CatalogKind::hardware)) == "hardware");
  CHECK(std::string(catalog_kind_name(CatalogKind::framework)) == "framework");
  CHECK(std::string(catalog_kind_name(CatalogKind::scenario)) == "scenario");
  CHECK(std::string(catalog_kind_name(CatalogKind::trace_format)) == "trace_format");
}
