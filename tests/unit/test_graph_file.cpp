// Task graphs as files: what is read, what is refused in which words, and that
// nothing is lost on the way out and in again.
#include "sim/base/error.hpp"
#include "sim/engine/engine.hpp"
#include "sim/graph_file/graph_file.hpp"
#include "sim/graph_file/replay_named.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

const std::string machine_text = "kind: task_graph\n"
                                 "resources: {link: 10e9, host: 12 GB/s}\n"
                                 "lanes: [compute, copies]\n"
                                 "pools:\n"
                                 "  HBM: {capacity: 80 GB, mode: stall, held: {weights: 5 GB}}\n";

// What is wrong with the tasks, without the place, the excerpt of the file and the hint.
std::string first_mistake(const std::string& tasks) {
  try {
    static_cast<void>(parse_graph(machine_text + "tasks:\n" + tasks, "own.yaml"));
  } catch (const InputError& error) {
    const Diagnostic& first = error.diagnostics().front();
    return first.message + (first.hint.empty() ? "" : " | " + first.hint);
  }
  return "";
}

std::string message_of(const std::string& text) {
  try {
    static_cast<void>(parse_graph(text, "own.yaml"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// The example of graph_file.hpp: load moves 1e9 bytes over the link (weight 1) and the
// host (weight 0.5) at its limit of 5e9 bytes/s after 2 us, so it ends at 200002 us.
TEST_CASE("a file says all that a graph has") {
  const NamedGraph named = parse_graph(
      machine_text +
          "tasks:\n"
          "  - {name: load, lane: copies, latency: 2 us, work: 1 GB,\n"
          "     over: {link: 1, host: 0.5}, limit: 5e9, allocate: {HBM: {buffer: 1 GB}}}\n"
          "  - {name: product, lane: compute, time: 5 ms, after: [load],\n"
          "     free: {HBM: {buffer: 1 GB}}}\n",
      "own.yaml");
  CHECK(named.task_names == std::vector<std::string>{"load", "product"});
  CHECK(named.machine.resources[0].capacity == 10e9);
  CHECK(named.machine.resources[1].capacity == 12e9);
  CHECK(named.machine.pools[0].capacity == 80'000'000'000);
  CHECK(named.machine.pools[0].mode == PoolMode::stall);
  CHECK(named.machine.pools[0].owners == std::vector<std::string>{"weights", "buffer"});
  CHECK(named.graph.uses_of(named.graph.tasks[0].route).size() == 2);
  CHECK(named.graph.tasks[0].rate_limit == 5e9);
  const Timeline timeline = replay_named(named, "own.yaml");
  CHECK(timeline.tasks[0].end == SimTime{200'002'000'000});
  CHECK(timeline.makespan == SimTime{205'002'000'000});
  CHECK(timeline.peaks[0].owners == std::vector<std::int64_t>{5'000'000'000, 1'000'000'000});
}

TEST_CASE("a graph that is written and read again is the same to the last bit") {
  Machine machine;
  machine.resources = {{"link", 0.1 + 0.2}, {"a: b", 1e300}};
  machine.lanes = {{"null"}, {"lane \"two\" \\"}, {"- x"}};
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  machine.pools = {{"HBM", most, PoolMode::record, {"never used", "b", "a"}},
                   {"host", 0, PoolMode::stall, {}}};
  TaskGraphBuilder builder;
  const std::vector<Use> uses{{1, 1.0 / 3}, {0, 2e-309}}; // not normal
  static_cast<void>(builder.add_flow(2, SimTime{1}, 1e-7, builder.add_route(uses), 7.0 / 9));
  static_cast<void>(builder.add_fixed(1, SimTime{std::int64_t{1} << 62}));
  static_cast<void>(builder.add_fixed(1, SimTime{(std::int64_t{1} << 53) + 1}));
  static_cast<void>(builder.add_flow(0, SimTime{0}, 0, builder.add_route({}), 1.5));
  builder.depend(0, 3); // later in the file
  builder.depend(0, 1);
  builder.allocate_at_start(0, {0, 2, (std::int64_t{1} << 53) + 1});
  builder.free_at_end(2, {0, 1, std::int64_t{3} << 40});
  builder.hold_from_the_start({0, 1, std::int64_t{3} << 40});
  NamedGraph named{machine, {}, {"first", "~", "{3}", "#4"}};
  named.graph = std::move(builder).build(machine);

  const std::string text = graph_text(named);
  const NamedGraph again = parse_graph(text, "own.yaml");
  CHECK(graph_text(again) == text);
  CHECK(again.task_names == named.task_names);
  CHECK(again.machine.resources[0].capacity == machine.resources[0].capacity);
  CHECK(again.machine.lanes[1].name == machine.lanes[1].name);
  CHECK(again.machine.pools[0].owners == machine.pools[0].owners);
  CHECK(again.machine.pools[0].capacity == most);
  CHECK(again.graph.tasks == named.graph.tasks);
  CHECK(again.graph.route_uses[0].resource == 1);
  CHECK(again.graph.route_uses[1].weight == 2e-309);
  CHECK(again.graph.successors == named.graph.successors);
  CHECK(again.graph.allocations[0].bytes == named.graph.allocations[0].bytes);
  CHECK(again.graph.initial[0].bytes == named.graph.initial[0].bytes);
}

TEST_CASE("a graph is written in one line per pool and task, with exact short numbers") {
  Machine machine;
  machine.resources = {{"link", 10e9}};
  machine.lanes = {{"a"}};
  machine.pools = {{"HBM", std::int64_t{80} << 30, PoolMode::stall, {"x"}}};
  TaskGraphBuilder builder;
  const std::vector<Use> uses{{0, 0.5}};
  const TaskId flow = builder.add_flow(0, SimTime{2'000'000}, 1e9, builder.add_route(uses));
  builder.allocate_at_start(flow, {0, 0, 1000});
  builder.allocate_at_start(flow, {0, 0, 1}); // becomes one change of 1001 bytes
  builder.free_at_end(builder.add_fixed(0, SimTime{0}), {0, 0, 1001});
  builder.depend(1, 0);
  NamedGraph named{machine, {}, {"load", "end"}};
  named.graph = std::move(builder).build(machine);
  CHECK(graph_text(named) ==
        "kind: task_graph\n"
        "resources: {link: 10000000000}\n"
        "lanes: [a]\n"
        "pools:\n"
        "  HBM: {capacity: 80 GiB, mode: stall, owners: [x]}\n"
        "tasks:\n"
        "  - {name: load, lane: a, work: 1000000000, latency: 2 us, over: {link: 0.5}, "
        "allocate: {HBM: {x: 1001 B}}}\n"
        "  - {name: end, lane: a, time: 0 s, after: [load], free: {HBM: {x: 1001 B}}}\n");
}

TEST_CASE("an empty graph can be written and read") {
  NamedGraph named;
  named.graph = TaskGraphBuilder{}.build(named.machine);
  CHECK(graph_text(named) == "kind: task_graph\nlanes: []\ntasks: []\n");
  CHECK(parse_graph(graph_text(named), "own.yaml").graph.task_count() == 0);
}

TEST_CASE("what no file can hold is refused on writing") {
  NamedGraph named;
  named.machine.lanes = {{"a"}, {"a"}};
  named.graph = TaskGraphBuilder{}.build(named.machine);
  CHECK_THROWS_WITH_AS(static_cast<void>(graph_text(named)), "'a' cannot name a lane in a file",
                       std::logic_error);
  named.machine.lanes = {{"a"}, {""}};
  CHECK_THROWS_WITH_AS(static_cast<void>(graph_text(named)), "'' cannot name a lane in a file",
                       std::logic_error);
  named.machine.lanes = {{"a"}, {"b"}};
  named.task_names = {"task of nobody"};
  CHECK_THROWS_WITH_AS(static_cast<void>(graph_text(named)),
                       "a graph has another number of tasks than of their names", std::logic_error);
  named.task_names.clear();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  named.machine.pools = {{"HBM", 1, PoolMode::record, {"x"}}};
  TaskGraphBuilder builder;
  builder.hold_from_the_start({0, 0, most});
  builder.hold_from_the_start({0, 0, 1});
  named.graph = std::move(builder).build(named.machine);
  CHECK_THROWS_WITH_AS(static_cast<void>(graph_text(named)),
                       "'x' changes by more than 2^63 bytes at once", std::overflow_error);
}

TEST_CASE("mistakes point into the file, several in one run") {
  CHECK(message_of("kind: task_graph\n"
                   "lanes: [compute]\n"
                   "tasks:\n"
                   "  - {name: load, lane: compte, time: 1 ms}\n"
                   "  - {name: product, lane: compute, time: 1, after: [laod]}\n") ==
        "own.yaml:4:24: error: unknown lane 'compte'\n"
        "    4 |   - {name: load, lane: compte, time: 1 ms}\n"
        "      |                        ^ did you mean 'compute'?\n"
        "own.yaml:5:42: error: 'time' needs a unit\n"
        "    5 |   - {name: product, lane: compute, time: 1, after: [laod]}\n"
        "      |                                          ^ write for example \"8 us\"\n"
        "own.yaml:5:53: error: unknown task 'laod'\n"
        "    5 |   - {name: product, lane: compute, time: 1, after: [laod]}\n"
        "      |                                                     ^ did you mean 'load'?");
}

TEST_CASE("mistakes of the whole file are named") {
  CHECK(
      message_of("kind: graph\nlanes: []\ntasks: []\n").find("unknown value 'graph' for 'kind'") !=
      std::string::npos);
  const std::string nothing = message_of("kind: task_graph\nlane: [a]\n");
  CHECK(nothing.find("missing key 'lanes' in 'task_graph'") != std::string::npos);
  CHECK(nothing.find("missing key 'tasks' in 'task_graph'") != std::string::npos);
  CHECK(nothing.find("unknown key 'lane' in 'task_graph'") != std::string::npos);
  CHECK(nothing.find("did you mean 'lanes'?") != std::string::npos);
  const std::string shapes = message_of("kind: task_graph\nresources: []\nlanes: a\npools: 1\n"
                                        "tasks: {a: 1}\n");
  CHECK(shapes.find("'resources' must be a map") != std::string::npos);
  CHECK(shapes.find("'lanes' must be a list of names") != std::string::npos);
  CHECK(shapes.find("write [a]") != std::string::npos);
  CHECK(shapes.find("'pools' must be a map") != std::string::npos);
  CHECK(shapes.find("'tasks' must be a list") != std::string::npos);
  const std::string values =
      message_of("kind: task_graph\nresources: {link: 0, host: 1 GBs}\nlanes: [a, a, [b]]\n"
                 "pools: {HBM: {capacity: 1, mode: stal, owners: [x, x], held: {y: 1 B}}}\n"
                 "tasks: []\n");
  CHECK(values.find("'link' must be greater than 0, not 0") != std::string::npos);
  CHECK(values.find("unknown unit 'GBs' in 'host'") != std::string::npos);
  CHECK(values.find("lane 'a' is named twice") != std::string::npos);
  CHECK(values.find("'capacity' needs a unit") != std::string::npos);
  CHECK(values.find("unknown value 'stal' for 'mode'") != std::string::npos);
  CHECK(values.find("owner 'x' is named twice") != std::string::npos);
  CHECK(values.find("unknown owner 'y'") != std::string::npos);
  CHECK(message_of("kind: task_graph\npools: {HBM: {}}\nlanes: []\ntasks: []\n")
            .find("missing key 'capacity' in 'HBM'") != std::string::npos);
}

// 5e-324 is the least that a double holds, so a ninth of it is none.
TEST_CASE("a rate that is too small to be a number points at the weight") {
  CHECK(message_of("kind: task_graph\nresources: {r0: 5e-324}\nlanes: [a]\ntasks:\n"
                   "  - {name: t, lane: a, work: 5e-324, over: {r0: 9}}\n") ==
        "own.yaml:5:49: error: weight 9 is too large for the capacity 5e-324 of 'r0'\n"
        "    5 |   - {name: t, lane: a, work: 5e-324, over: {r0: 9}}\n"
        "      |                                                 ^");
}

TEST_CASE("mistakes of a task are named, with what would be right") {
  CHECK(first_mistake("  - {lane: compute, time: 1 s}\n") == "missing key 'name' in 'tasks[0]'");
  CHECK(first_mistake("  - {name: a, time: 1 s}\n") == "missing key 'lane' in 'a'");
  CHECK(first_mistake("  - {name: '', lane: compute, time: 1 s}\n") ==
        "'name' must be a text that is not empty");
  CHECK(first_mistake("  - {name: a, lane: [compute], time: 1 s}\n") == "'lane' must be a name");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s}\n"
                      "  - {name: a, lane: compute, time: 1 s}\n") == "task 'a' is named twice");
  CHECK(first_mistake("  - 1\n") == "'tasks[0]' must be a map, not '1'");
  CHECK(first_mistake("  - {name: a, lane: compute}\n") ==
        "task 'a' has neither 'time' nor 'work'");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s, work: 1, limit: 1}\n") ==
        "'time' and 'work' exclude each other | what a flow needs before it moves anything is its "
        "'latency'");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s, over: {link: 1}}\n") ==
        "'over' goes with 'work' | a task with 'time' uses nothing");
  CHECK(first_mistake("  - {name: a, lane: compute, work: 1}\n") ==
        "a flow over no resource needs a 'limit'");
  CHECK(first_mistake("  - {name: a, lane: compute, work: -1, limit: 1}\n") ==
        "'work' must be at least 0, not -1");
  CHECK(first_mistake("  - {name: a, lane: compute, work: 1, limit: 0}\n") ==
        "'limit' must be greater than 0, not 0");
  CHECK(first_mistake("  - {name: a, lane: compute, work: 1, over: {lnik: 1}}\n") ==
        "unknown resource 'lnik' | did you mean 'link'?");
  CHECK(first_mistake("  - {name: a, lane: compute, work: 1, over: {link: 0}}\n") ==
        "'link' must be greater than 0, not 0");
  // 12e9 / 1e-300 is above 1.8e308. Two flows of weight 1e308 would sum up to more.
  CHECK(first_mistake("  - {name: a, lane: compute, work: 1, over: {host: 1e-300}}\n") ==
        "weight 1e-300 is too small for the capacity 12000000000 of 'host'");
  CHECK(first_mistake("  - {name: a, lane: compute, work: 0, over: {link: 1e298}}\n").empty());
  CHECK(first_mistake("  - {name: a, lane: compute, work: 0, over: {link: 1e308}}\n") ==
        "weight 1e+308 is too large for the capacity 10000000000 of 'link'");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 2000 h}\n") ==
        "'time' must be between 0 s and 1281 h, not 2000 h");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s, after: a}\n") ==
        "'after' must be a list of names | write [a]");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s, after: [a]}\n") ==
        "task 'a' cannot run after itself");
  CHECK(first_mistake("  - {name: b, lane: compute, time: 1 s}\n"
                      "  - {name: a, lane: compute, time: 1 s, after: [b, b]}\n") ==
        "'after' names 'b' twice");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s, allocate: {HMB: {x: 1 B}}}\n") ==
        "unknown pool 'HMB' | did you mean 'HBM'?");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s, free: {HBM: 1 GB}}\n") ==
        "'HBM' must be a map");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s, allocate: {HBM: {x: 1.5 B}}}\n") ==
        "'x' must be a whole number of bytes, not '1.5 B'");
  CHECK(first_mistake("  - {name: a, lane: compute, time: 1 s, afetr: [a]}\n") ==
        "unknown key 'afetr' in 'a' | did you mean 'after'?");
}

TEST_CASE("freeing what an owner does not hold is the file's mistake") {
  const NamedGraph named = parse_graph(
      machine_text + "tasks:\n  - {name: a, lane: compute, time: 1 s, free: {HBM: {x: 1 kB}}}\n",
      "own.yaml");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(replay_named(named, "own.yaml")),
      "own.yaml:7:12: error: task 'a' frees 1 kB of pool 'HBM' for 'x', which holds 0 B "
      "then\n"
      "    7 |   - {name: a, lane: compute, time: 1 s, free: {HBM: {x: 1 kB}}}\n"
      "      |            ^ an owner frees what tasks that started before have allocated for it",
      InputError);
}

TEST_CASE("what cannot be counted is the file's mistake, of a task where one alone is too long") {
  const auto replayed = [](const std::string& tasks) {
    static_cast<void>(
        replay_named(parse_graph(machine_text + "tasks:\n" + tasks, "own.yaml"), "own.yaml"));
  };
  CHECK_THROWS_WITH_AS(
      replayed("  - {name: a, lane: compute, time: 1 s}\n"
               "  - {name: b, lane: compute, work: 1e300, limit: 1}\n"),
      "own.yaml:8:12: error: task 'b': a flow takes longer than 2^62 ps (53 days)\n"
      "    8 |   - {name: b, lane: compute, work: 1e300, limit: 1}\n"
      "      |            ^",
      InputError);
  CHECK_THROWS_WITH_AS(replayed("  - {name: a, lane: compute, time: 1281 h}\n"
                                "  - {name: b, lane: compute, time: 1281 h}\n"),
                       "own.yaml: error: the simulated time exceeds 2^62 ps (53 days)", InputError);
}

// The first line that the program prints, and the last.
struct StopLines {
  std::string first;
  std::string last;
};

StopLines stop_lines(const std::string& pools, const std::string& tasks) {
  const NamedGraph named = parse_graph(
      "kind: task_graph\nlanes: [l, m]\npools: {" + pools + "}\ntasks:\n" + tasks, "own.yaml");
  try {
    static_cast<void>(replay_named(named, "own.yaml"));
  } catch (const FileDeadlock& deadlock) {
    CHECK(deadlock.out_of_memory());
    const std::string text = deadlock.what();
    return {text.substr(0, text.find('\n')), text.substr(text.rfind('\n') + 1)};
  }
  return {};
}

// 'a' fits in 2 kB and 'b', which frees nothing either, in 5 kB. Of the two pools only
// one is too small.
TEST_CASE("a deadlock of a file says with which pools every task ends") {
  const StopLines lines =
      stop_lines("p: {capacity: 1 kB, mode: stall}, q: {capacity: 9 kB, mode: stall}",
                 "  - {name: a, lane: l, time: 1 s, allocate: {p: {x: 2 kB}, q: {x: 9 kB}}}\n"
                 "  - {name: b, lane: l, time: 1 s, allocate: {p: {x: 3 kB}}}\n");
  CHECK(lines.first ==
        "own.yaml:5:12: error: 2 of 2 tasks can never start: there is no room in pool 'p'");
  CHECK(lines.last ==
        "with 5 kB in pool 'p' there is room enough: every task ends, as a replay shows");
}

// Task 'b' starves once 'a' runs.
TEST_CASE("pools that are lacked later are told from those lacked now, in readable numbers") {
  const std::string small = "{capacity: 1 kB, mode: stall}";
  CHECK(stop_lines("p: " + small + ", q: " + small + ", r: " + small,
                   "  - {name: a, lane: l, time: 1 s,\n"
                   "     allocate: {p: {x: 2000000000000060 kB}, q: {x: 2 kB}}}\n"
                   "  - {name: b, lane: l, time: 1 s, allocate: {r: {x: 3 kB}}}\n")
            .last == "with 2000 PB (2000000000000060000 B) in pool 'p', 2 kB in pool 'q' and 3 kB "
                     "in pool 'r' (for which nobody waits yet) there is room enough: every task "
                     "ends, as a replay shows");
}

// Task 'b' frees what nobody took, which shows only once it can start.
TEST_CASE("a deadlock says why no pools are known to be enough") {
  const std::string pool = "p: {capacity: 1 kB, mode: stall}";
  CHECK(stop_lines(pool, "  - {name: a, lane: l, time: 1 s, allocate: {p: {x: 2 kB}}}\n"
                         "  - {name: b, lane: l, time: 1 s, free: {p: {x: 3 kB}}}\n")
            .last == "no pools are known to be large enough: where nothing waits for room, task "
                     "'b' frees 3 kB of pool 'p' for 'x', which holds 2 kB then");
  CHECK(stop_lines(pool, "  - {name: a, lane: l, time: 1 s, allocate: {p: {x: 9000 PB}}}\n"
                         "  - {name: b, lane: m, time: 1 s, allocate: {p: {x: 9000 PB}}}\n")
            .last == "no pools are known to be large enough: where nothing waits for room, pool "
                     "'p' holds more than 2^63 bytes");
}

TEST_CASE("where a graph has no places, the file as a whole is to blame") {
  NamedGraph named = load_graph("tests/graphs/cycle.yaml");
  named.task_places.clear();
  std::string text;
  try {
    static_cast<void>(replay_named(named, "own.yaml"));
  } catch (const FileDeadlock& deadlock) {
    text = deadlock.what();
  }
  CHECK(text.starts_with("own.yaml: error: 6 of 6 tasks can never start: they wait for each other "
                         "in a circle\na circle of 4 waits\n"));
}

// Only files are to blame for what a replay finds out.
TEST_CASE("a graph of another machine is not the file's mistake") {
  NamedGraph named = parse_graph(machine_text + "tasks: []\n", "own.yaml");
  named.machine.lanes.clear();
  CHECK_THROWS_WITH_AS(static_cast<void>(replay_named(named, "own.yaml")),
                       "the task graph was built for another machine", std::logic_error);
}

TEST_CASE("a stalling pool cannot hold more than its capacity from the start") {
  const auto pool = [](const std::string& mode, const std::string& held) {
    return message_of(
        "kind: task_graph\nlanes: []\ntasks: []\npools:\n  HBM: {capacity: 3 GB, mode: " + mode +
        ", held: {" + held + "}}\n");
  };
  CHECK(pool("stall", "a: 2 GB, b: 2 GB") ==
        "own.yaml:5:57: error: pool 'HBM' holds more from the start than its 3 GB\n"
        "    5 |   HBM: {capacity: 3 GB, mode: stall, held: {a: 2 GB, b: 2 GB}}\n"
        "      |                                                         ^");
  CHECK(pool("stall", "a: 2 GB, b: 1 GB").empty());
  CHECK(pool("record", "a: 2 GB, b: 2 GB").empty());
}

TEST_CASE("names have no control characters") {
  const std::string text =
      message_of("kind: task_graph\nresources: {\"a\\t\": 1}\nlanes: [\"b\\n\"]\n"
                 "pools: {\"c\\n\": {capacity: 1 B, owners: [\"d\\n\"]}, e: {capacity: 1 B, held: "
                 "{\"f\\n\": 0 B}}}\n"
                 "tasks: [{name: \"g\\n\", lane: \"b\\n\", time: 1 s}]\n");
  INFO(text);
  for (const char name : {'a', 'b', 'c', 'd', 'f', 'g'}) {
    CHECK(text.find(std::string("the name '") + name + " ' has a control character") !=
          std::string::npos);
  }
}

TEST_CASE("mistakes come in the order of the file") {
  const std::string text = message_of("kind: task_graph\nlanes: [a]\ntasks:\n"
                                      "  - {name: x, lane: b, time: 1}\n"
                                      "  - {name: x, lane: a, time: 1 s}\n"
                                      "pools: {p: {capacity: 1 XB}}\n");
  const std::size_t lane = text.find("own.yaml:4:21: error: unknown lane 'b'");
  const std::size_t time = text.find("own.yaml:4:30: error: 'time' needs a unit");
  const std::size_t name = text.find("own.yaml:5:12: error: task 'x' is named twice");
  const std::size_t pool = text.find("own.yaml:6:23: error: unknown unit 'XB'");
  CHECK(lane < time);
  CHECK(time < name);
  CHECK(name < pool);
  CHECK(pool < text.size());
}

TEST_CASE("one mistake is one error, and suggestions name what the file names") {
  const auto count = [](const std::string& tasks) {
    try {
      static_cast<void>(parse_graph(machine_text + "tasks:\n" + tasks, "own.yaml"));
    } catch (const InputError& error) {
      return error.diagnostics().size();
    }
    return std::size_t{0};
  };
  CHECK(count("  - 1\n") == 1);
  const std::string text = message_of(machine_text + "tasks:\n"
                                                     "  - {name: x, lane: compute, time: 1 s}\n"
                                                     "  - {lane: compute, time: 1 s}\n"
                                                     "  - {name: y, lane: compute, time: 1 s, "
                                                     "after: [elsewhere]}\n");
  CHECK(text.find("^ known: x, y") != std::string::npos);
  CHECK(text.find("tasks[1] ") == std::string::npos);
  const std::string other = message_of("kind: scenario\nmodel: a\n");
  CHECK(other == "own.yaml:1:7: error: a scenario is no task graph\n"
                 "    1 | kind: scenario\n"
                 "      |       ^ `spillway run` takes scenarios");
}

TEST_CASE("a deadlock of a file names its tasks") {
  const NamedGraph named = load_graph("tests/graphs/too-large.yaml");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(replay_named(named, "own.yaml")),
      "tests/graphs/too-large.yaml:8:12: error: 1 of 2 tasks can never start: there is no "
      "room in pool 'HBM'\n"
      "    8 |   - {name: large, lane: compute, time: 1 ms, allocate: {HBM: {workspace: 4 GB}}, "
      "free: {HBM: {workspace: 4 GB}}}\n"
      "      |            ^\n"
      "lane 'compute': 'large' asks for 4 GB of pool 'HBM', which has 3 GB of 10 GB free\n"
      "  held: 7 GB by 'weights' (from the start)\n"
      "  never freed: 7 GB, so at most 3 GB can ever be free\n"
      "with 11 GB in pool 'HBM' there is room enough: every task ends, as a replay shows",
      FileDeadlock);
}

} // namespace
} // namespace spillway
