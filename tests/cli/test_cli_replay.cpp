// `spillway replay` of the built program.
#include "tests/cli/cli.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const std::string three_lanes = "tests/graphs/three-lanes.yaml";
const std::string stall = "tests/graphs/stall.yaml";

std::string graph_with(const std::string& tasks) {
  return "kind: task_graph\nlanes: [a, b]\ntasks:\n" + tasks;
}

} // namespace

// The copies: load 1 has the host alone, 1e9 x 2 / 12e9 = 166.7 ms. While load 2 and store
// 1 share the host, rates are x and 2 x + x = 12e9, so 4e9 each, 43.3 ms longer for load 2
// than alone at 6e9 from 246.7 ms on.
TEST_CASE("replay says what decides the time, and why") {
  const ProgramResult result = ask({"replay", three_lanes});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(result.out ==
        R"(tests/graphs/three-lanes.yaml: 6 tasks on 3 lanes, 774.7 ms
696.7 ms if no flow shared and every pool had room

What decides the time: 4 tasks, each started by the end of the one before
  task       lane     why it started then        start      took  lost to sharing
  -------------------------------------------------------------------------------
  load 1     loads    nothing held it              0 s  166.7 ms
  product 1  compute  depends on load 1       166.7 ms     80 ms
  store 1    stores   depends on product 1    246.7 ms    278 ms  78 ms on host
  store 2    stores   lane busy with store 1  524.7 ms    250 ms

Time lost to sharing
  resource  task       took     alone      lost
  ---------------------------------------------
  host      2 tasks                    121.3 ms
            store 1  278 ms    200 ms     78 ms
            load 2   210 ms  166.7 ms  43.33 ms

How busy the lanes are
  lane     tasks      busy   share  waits for tasks  for memory  done early
  -------------------------------------------------------------------------
  loads        2  376.7 ms  48.6 %              0 s         0 s      398 ms
  compute      2    160 ms  20.7 %         296.7 ms         0 s      318 ms
  stores       2    528 ms  68.2 %         246.7 ms         0 s         0 s

Peak of HBM: 8 GB of 8 GB, at 376.7 ms when product 2 started; counted only, nothing waits
  weights  3 GB  37.5 %
  inputs   1 GB  12.5 %
  outputs  4 GB  50.0 %
)");
}

TEST_CASE("replay says which task waited for memory, and --top shortens its lists") {
  const ProgramResult result = ask({"replay", stall});
  CHECK(contains(result.out, ", 800 ms\n700 ms if no flow shared and every pool had room\n"));
  CHECK(contains(result.out, "  load 2     loads    no room in buffers until product 1 freed some  "
                             "400 ms  100 ms\n"));
  const ProgramResult shorter = ask({"replay", stall, "--top", "2"});
  CHECK(contains(shorter.out, "  product 1  compute"));
  CHECK_FALSE(contains(shorter.out, "  load 2  "));
  CHECK(contains(shorter.out, "  and 2 more, 800 ms in all\n"));
  CHECK_FALSE(contains(shorter.out, "less busy"));
  const ProgramResult one = ask({"replay", stall, "--top", "1"});
  CHECK(contains(one.out, "  compute      2  600 ms"));
  CHECK_FALSE(contains(one.out, "  loads        2"));
  CHECK(contains(one.out, "  and 1 lane less busy\n"));
}

TEST_CASE("replay of one task has little to say") {
  const TemporaryFolder folder;
  const std::string file = folder.write("one.yaml", "kind: task_graph\nlanes: [a]\ntasks:\n"
                                                    "  - {name: alone, lane: a, time: 1 s}\n");
  const ProgramResult result = ask({"replay", file});
  CHECK(result.out.starts_with(
      file + ": 1 task on 1 lane, 1 s\nno sharing and no full pool makes it longer\n"));
  CHECK_FALSE(contains(result.out, "Time lost to sharing"));
  const std::string none = folder.write("none.yaml", "kind: task_graph\nlanes: []\ntasks: []\n");
  CHECK(ask({"replay", none}).out.starts_with(none + ": 0 tasks on 0 lanes, 0 s\n"));
}

TEST_CASE("the JSON of replay has every task, lane and pool in whole picoseconds") {
  const ProgramResult result = ask({"replay", stall, "--json", "-"});
  CHECK(result.exit_code == 0);
  const Json json = Json::parse(result.out);
  CHECK(json["makespan_s"] == 0.8);
  CHECK(json["makespan_ps"] == 800'000'000'000);
  CHECK(json["longest_path_ps"] == 700'000'000'000);
  CHECK(json["critical"] == Json{"load 1", "product 1", "load 2", "product 2"});
  CHECK(json["sharing"].empty());
  CHECK(json["tasks"][1] == Json{{"task", "load 2"},
                                 {"lane", "loads"},
                                 {"ready_ps", 0},
                                 {"start_ps", 400'000'000'000},
                                 {"end_ps", 500'000'000'000},
                                 {"cause", "memory"},
                                 {"cause_task", "product 1"},
                                 {"cause_pool", "buffers"},
                                 {"lost_to_sharing_ps", 0},
                                 {"bound_by", nullptr}});
  CHECK(json["lanes"][0] == Json{{"lane", "loads"},
                                 {"tasks", 2},
                                 {"busy_ps", 200'000'000'000},
                                 {"waits_for_tasks_ps", 0},
                                 {"waits_for_memory_ps", 300'000'000'000},
                                 {"done_early_ps", 300'000'000'000}});
  CHECK(json["pools"][0] == Json{{"pool", "buffers"},
                                 {"mode", "stall"},
                                 {"capacity_bytes", 1'000'000'000},
                                 {"peak_bytes", 1'000'000'000},
                                 {"peak_ps", 0},
                                 {"peak_task", "load 1"},
                                 {"peak_owners", {{"inputs", 1'000'000'000}}},
                                 {"final_bytes", 0}});
  const Json shared = Json::parse(ask({"replay", three_lanes, "--json", "-"}).out);
  CHECK(shared["sharing"][0]["resource"] == "host");
  CHECK(shared["sharing"][0]["tasks"] == 2);

  const TemporaryFolder folder;
  const std::string file = folder.path("a.json");
  const ProgramResult both = ask({"replay", stall, "--json", file});
  CHECK(read_text(file) == result.out);
  CHECK(both.out == ask({"replay", stall}).out);
}

TEST_CASE("replay remarks on what nothing uses, unless told not to") {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("own.yaml", "kind: task_graph\nresources: {link: 1}\nlanes: [a, b]\n"
                               "pools: {HBM: {capacity: 1 B, held: {x: 2 kB}}}\n"
                               "tasks: [{name: t, lane: a, time: 1 s}]\n");
  const ProgramResult result = ask({"replay", file});
  CHECK(result.exit_code == 0);
  CHECK(result.err == "lane 'b' has no tasks\nresource 'link' is used by no task\n"
                      "pool 'HBM' holds up to 2 kB, more than its 1 B\n");
  const ProgramResult quiet = ask({"replay", file, "--quiet"});
  CHECK(quiet.err.empty());
  CHECK(quiet.out == result.out);
}

TEST_CASE("a pool that is too small is the answer no, with who holds it") {
  const ProgramResult result = ask({"replay", "tests/graphs/starvation.yaml"});
  CHECK(result.exit_code == 1);
  CHECK(result.out.empty());
  CHECK(result.err ==
        "tests/graphs/starvation.yaml:10:12: error: 3 of 4 tasks can never start: there is no room "
        "in "
        "pool 'HBM'\n"
        "   10 |   - {name: load 2, lane: loads, work: 4 GB, over: {link: 1}, allocate: {HBM: "
        "{inputs: 4 GB}}}\n"
        "      |            ^\n"
        "lane 'loads': 'load 2' asks for 4 GB of pool 'HBM', which has 3 GB of 10 GB free\n"
        "  held: 4 GB by 'inputs' ('load 1') and 3 GB by 'weights' (from the start)\n"
        "  'product' frees 4 GB of 'inputs' when it ends\n"
        "    'product' waits for 'load 2': dependency\n"
        "  so at most 3 GB can be free before 'load 2' starts\n"
        "lane 'compute': 'product' waits for 'load 2': dependency\n"
        "  'load 2' waits for room in pool 'HBM'\n"
        "lane 'stores': 'store' waits for 'product': dependency\n"
        "  'product' waits, see lane 'compute'\n"
        "with 11 GB in pool 'HBM' there is room enough: every task ends, as a replay shows\n");
}

TEST_CASE("tasks that wait in a circle are wrong input, with every step") {
  const ProgramResult result = ask({"replay", "tests/graphs/cycle.yaml"});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK(result.err ==
        "tests/graphs/cycle.yaml:6:12: error: 6 of 6 tasks can never start: they wait "
        "for each other in a circle\n"
        "    6 |   - {name: forward, lane: compute, time: 1 ms, after: [reload]}\n"
        "      |            ^\n"
        "a circle of 4 waits\n"
        "  'forward' waits for 'reload': dependency\n"
        "  'reload' waits for 'offload': lane 'copies' runs it first\n"
        "  'offload' waits for 'backward': dependency\n"
        "  'backward' waits for 'forward': lane 'compute' runs it first\n"
        "lane 'optimizer': 'update' waits for 'backward': dependency\n"
        "  'backward' waits in a circle, see above\n");
}

TEST_CASE("what replay cannot read or count is refused") {
  check_refused({"replay"}, "error: 'replay' needs a task graph, a YAML file\n");
  check_refused_with({"replay", "nowhere.yaml"}, "nowhere.yaml: error: ");
  check_refused_with({"replay", stall, "--set", "a=1"}, "unknown option '--set' of 'replay'");
  const TemporaryFolder folder;
  const std::string wrong =
      folder.write("wrong.yaml", graph_with("  - {name: t, lane: c, time: 1 s}\n"));
  check_refused({"replay", wrong}, wrong + ":4:21: error: unknown lane 'c'\n"
                                           "    4 |   - {name: t, lane: c, time: 1 s}\n"
                                           "      |                     ^ known: a, b\n");
  const std::string frees =
      folder.write("frees.yaml", "kind: task_graph\nlanes: [a]\npools: {HBM: {capacity: 1 GB}}\n"
                                 "tasks: [{name: t, lane: a, time: 1 s, free: {HBM: {x: 5 B}}}]\n");
  check_refused({"replay", frees},
                frees +
                    ":4:16: error: task 't' frees 5 B of pool 'HBM' for 'x', which holds 0 B "
                    "then\n"
                    "    4 | tasks: [{name: t, lane: a, time: 1 s, free: {HBM: {x: 5 B}}}]\n"
                    "      |                ^ an owner frees what tasks that started before have "
                    "allocated for it\n");
  const std::string slow =
      folder.write("slow.yaml", graph_with("  - {name: t, lane: a, work: 1e300, limit: 1}\n"));
  check_refused({"replay", slow},
                slow + ":4:12: error: task 't': a flow takes longer than 2^62 ps (53 days)\n"
                       "    4 |   - {name: t, lane: a, work: 1e300, limit: 1}\n"
                       "      |            ^\n");
  const std::string scenario =
      folder.write("scenario.yaml", "kind: scenario\nextends: deepseek-v3-gb200\n");
  check_refused({"replay", scenario}, scenario +
                                          ":1:7: error: a scenario is no task graph\n"
                                          "    1 | kind: scenario\n"
                                          "      |       ^ `spillway run` takes scenarios\n");
  const ProgramResult run = ask({"run", three_lanes});
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, ": error: a task graph is no scenario\n"));
  CHECK(run.err.ends_with("^ `spillway replay` takes task graphs\n"));
  const std::string copy = folder.write("copy.yaml", read_text(stall));
  check_refused_with({"replay", copy, "--json", copy}, copy);
  CHECK(read_text(copy) == read_text(stall));
}
