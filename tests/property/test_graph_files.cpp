// Task graphs as files: the committed ones as test input for both engines, and random
// ones written and read again.
#include "sim/graph_file/graph_file.hpp"
#include "tests/support/engine_outcome.hpp"
#include "tests/support/random_graph.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace spillway::test {
namespace {

// A graph that made the engines differ once is kept here, too.
std::vector<std::string> committed_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/graphs")) {
    files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

TEST_CASE("both engines do the same on the committed graphs") {
  const std::vector<std::string> files = committed_files();
  CHECK(files.size() >= 7);
  std::size_t deadlocks = 0;
  for (const std::string& file : files) {
    INFO(file);
    const NamedGraph named = load_graph(file);
    const Outcome outcome = run(named.graph, named.machine);
    CHECK(difference_to_reference(outcome, named.graph, named.machine) == "");
    CHECK(graph_text(parse_graph(graph_text(named), file)) == graph_text(named));
    deadlocks += outcome.timeline.has_value() ? 0U : 1U;
  }
  CHECK(deadlocks >= 3);
  CHECK(deadlocks < files.size());
}

bool same_task(const Task& a, const Task& b) {
  return a.lane == b.lane && a.fixed_time == b.fixed_time && a.work == b.work &&
         a.rate_limit == b.rate_limit;
}

bool same_rows(const TaskGraph& a, const TaskGraph& b) {
  return std::ranges::equal(a.tasks, b.tasks, same_task) &&
         a.successor_offset == b.successor_offset && a.successors == b.successors &&
         a.lane_offset == b.lane_offset && a.lane_tasks == b.lane_tasks;
}

// Routes get other numbers, and changes of one owner are added up; what is replayed is
// the same to the last bit, owners at the peaks included.
TEST_CASE("random graphs are the same after writing and reading") {
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    CAPTURE(seed);
    const RandomCase made = random_case(seed);
    const std::string text = graph_text(named(made));
    const NamedGraph again = parse_graph(text, fmt::format("seed {}", seed));
    REQUIRE(graph_text(again) == text);
    REQUIRE(same_rows(again.graph, made.graph));
    const Outcome before = run(made.graph, made.machine);
    const Outcome after = run(again.graph, again.machine);
    REQUIRE(before.timeline.has_value() == after.timeline.has_value());
    REQUIRE(before.out_of_memory == after.out_of_memory);
    if (before.timeline.has_value()) {
      REQUIRE(difference_between(*before.timeline, *after.timeline) == "");
      REQUIRE(before.timeline->solver_calls == after.timeline->solver_calls);
    }
  }
}

} // namespace
} // namespace spillway::test
