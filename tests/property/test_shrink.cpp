// The shrinker itself, with complaints whose smallest graphs are known.
#include "sim/graph_file/graph_file.hpp"
#include "tests/support/engine_outcome.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/shrink_graph.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace spillway::test {
namespace {

// A flow over two resources, in a graph with a pool that stalls.
bool has_wide_flow_and_stalling_pool(const NamedGraph& named) {
  const TaskGraph& graph = named.graph;
  bool wide = false;
  for (TaskId task = 0; task < graph.task_count(); ++task) {
    wide = wide ||
           (graph.tasks[task].route != no_id && graph.uses_of(graph.tasks[task].route).size() >= 2);
  }
  return wide && std::ranges::any_of(named.machine.pools,
                                     [](const Pool& pool) { return pool.mode == PoolMode::stall; });
}

TEST_CASE("a graph is shrunk to the two things that its complaint is about") {
  int shrunk = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const NamedGraph graph = named(random_case(seed));
    if (!has_wide_flow_and_stalling_pool(graph)) {
      continue;
    }
    CAPTURE(seed);
    ++shrunk;
    NamedGraph small = shrink(graph, has_wide_flow_and_stalling_pool);
    REQUIRE(small.task_names.size() == 1);
    small.task_names[0] = "task";
    small.machine.lanes[0].name = "lane";
    small.machine.pools[0].name = "pool";
    small.machine.resources[0].name = "a";
    small.machine.resources[1].name = "b";
    REQUIRE(graph_text(small) == "kind: task_graph\n"
                                 "resources: {a: 1, b: 1}\n"
                                 "lanes: [lane]\n"
                                 "pools:\n"
                                 "  pool: {capacity: 0 B, mode: stall, owners: []}\n"
                                 "tasks:\n"
                                 "  - {name: task, lane: lane, work: 0, over: {a: 1, b: 1}}\n");
  }
  CHECK(shrunk > 20);
}

// An engine that lets one byte too many into each stalling pool: replayed with larger
// pools, it differs from the naive engine in what waits. Two tasks show that: one holds
// what the other asks for.
std::string difference_of_lax_engine(const NamedGraph& named) {
  Machine lax = named.machine;
  for (Pool& pool : lax.pools) {
    ++pool.capacity;
  }
  try {
    return difference_to_reference(run(named.graph, lax), named.graph, named.machine);
  } catch (const std::logic_error&) { // as engine_difference
  } catch (const std::overflow_error&) {}
  return "";
}

TEST_CASE("a mistake of an engine is shrunk to the tasks that show it") {
  int shrunk = 0;
  for (std::uint64_t seed = 1; seed <= 300 && shrunk < 10; ++seed) {
    const NamedGraph graph = named(random_case(seed));
    if (difference_of_lax_engine(graph).empty()) {
      continue;
    }
    CAPTURE(seed);
    ++shrunk;
    const NamedGraph small = shrink(graph, [](const NamedGraph& candidate) {
      return !difference_of_lax_engine(candidate).empty();
    });
    INFO(graph_text(small));
    REQUIRE_FALSE(difference_of_lax_engine(small).empty());
    REQUIRE(small.graph.task_count() <= 2);
    REQUIRE(small.machine.pools.size() == 1);
    REQUIRE(small.machine.resources.empty());
    REQUIRE(small.graph.successors.empty());
  }
  CHECK(shrunk == 10);
}

TEST_CASE("a shrunk graph is written where the report says, and can be read and replayed") {
  const TemporaryFolder folder;
  std::uint64_t seed = 1;
  while (difference_of_lax_engine(named(random_case(seed))).empty()) {
    ++seed;
  }
  const std::string report =
      shrunk_report(seed, named(random_case(seed)), difference_of_lax_engine, folder.path("made"));
  const std::string file = folder.path("made/seed-" + std::to_string(seed) + ".yaml");
  CHECK(report.starts_with("seed " + std::to_string(seed) + ": "));
  CHECK(report.ends_with(" tasks do: " + file));
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK(text.starts_with("# Seed " + std::to_string(seed) + ": "));
  const NamedGraph again = load_graph(file);
  CHECK_FALSE(difference_of_lax_engine(again).empty());
  CHECK(engine_difference(again.graph, again.machine) == "");
  CHECK_THROWS_AS(static_cast<void>(shrunk_report(seed, again, difference_of_lax_engine, file)),
                  std::runtime_error);
}

TEST_CASE("a graph that frees what nobody holds is no complaint about the engine") {
  Machine machine;
  machine.lanes = {{"a"}};
  machine.pools = {{"HBM", 1, PoolMode::record, {"x"}}};
  TaskGraphBuilder builder;
  builder.free_at_end(builder.add_fixed(0, SimTime{1}), {0, 0, 1});
  CHECK(engine_difference(std::move(builder).build(machine), machine) == "");
}

} // namespace
} // namespace spillway::test
