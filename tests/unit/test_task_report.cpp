#include "results/task_report.hpp"
#include "tests/support/hand_made_step.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace spillway;
using namespace spillway::testing;
using Json = nlohmann::ordered_json;

namespace {

// compute  A 0-2 ............ C 7-8       C depends on the reload
// copies   store x 0-4, reload y 4-7      the reload depends on A
Simulation small_step() {
  HandMadeStep step;
  const TaskId a = step.add(0, TaskKind::kernel, "A", 2);
  const TaskId x = step.add(1, TaskKind::store, "store x", 4);
  const TaskId y = step.add(1, TaskKind::reload, "reload y", 3, {a});
  step.add(0, TaskKind::kernel, "C", 1, {y});
  step.take(x, 0, 2);
  step.take(y, 1, 5);
  step.give_back(y, 0, 2);
  return step.simulate();
}

// Two GPUs of one CPU, every copy on the compute lane, so that both copy at once.
Simulation run_two() {
  return run(scenario_from(R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 2}
hardware: gb200-nvl72
batch: {micro: 1, sequence: 4096}
gpus: 2
runtime: {schedule: serialized, pipelined_host_offloading: false}
policies:
  offload: {preset: full, tensors: {query_proj: offload}}
)"),
             "offload");
}

TaskReport report_of(const Simulation& run, const std::string& text, std::int64_t rank = 0,
                     std::int64_t occurrence = 1) {
  return report_task(run, find_task(run.lowered, run.timeline, text, rank, occurrence));
}

std::string refusal(const Lowered& lowered, const Timeline& timeline, const std::string& text,
                    std::int64_t rank = 0, std::int64_t occurrence = 1) {
  return messages_of(
      [&] { static_cast<void>(find_task(lowered, timeline, text, rank, occurrence)); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// "up" and "d up" in two layers, "up" of the first one twice.
Simulation layers() {
  HandMadeStep step;
  step.name_layers({"embedding", "layer 0 (dense)", "layer 1 (moe)"});
  for (const std::int32_t layer : {1, 2}) {
    step.add(0, TaskKind::kernel, "up", 1, {}, layer);
    step.add(0, TaskKind::kernel, "d up", 1, {}, layer);
  }
  step.add(0, TaskKind::kernel, "up", 5, {}, 1);
  return step.simulate();
}

} // namespace

// ---- Which task ----

TEST_CASE("A task is found by its description, with or without the kind of its layer") {
  const Simulation run = layers();
  const auto find = [&](const std::string& text, std::int64_t occurrence = 1) {
    return find_task(run.lowered, run.timeline, text, 0, occurrence);
  };
  CHECK(find("up in layer 1 (moe)").task == 2);
  CHECK(find("up in layer 1").task == 2);
  CHECK(find("d up in layer 0").task == 1);
  CHECK(find("d up in layer 1 (m").task == 3); // only one description has that
  CHECK(find("up in layer 0").task == 0);
  CHECK(find("up in layer 0").occurrences == 2);
  CHECK(find("up in layer 0", 2).task == 4);
  CHECK(find("up in layer 0", 2).occurrence == 2);
}

TEST_CASE("What names no task, or several, is refused with the nearest names") {
  const Simulation run = layers();
  const auto refused = [&](const std::string& text, std::int64_t rank = 0, std::int64_t n = 1) {
    return refusal(run.lowered, run.timeline, text, rank, n);
  };
  CHECK(refused("d pu in layer 1") ==
        "no task of gpu 0 is called 'd pu in layer 1' | did you mean 'd up in layer 1'?");
  CHECK(refused("attention") == "no task of gpu 0 is called 'attention' | known: up, d up");
  CHECK(refused("d up") == "'d up' could be any of 2 tasks | nearest: d up in layer 1 (moe), "
                           "d up in layer 0 (dense)");
  CHECK(refused("up in layer 0", 0, 3) ==
        "there is no --occurrence 3 of 'up in layer 0 (dense)' | it occurs 2 times in a step");
  CHECK(refused("up in layer 1", 0, 0) ==
        "there is no --occurrence 0 of 'up in layer 1 (moe)' | it occurs once in a step");
  CHECK(refused("up in layer 1", 1) == "--rank 1 is not simulated | only gpu 0 is");
  const Simulation two = run_two();
  CHECK(refusal(two.lowered, two.timeline, "x", 2) ==
        "--rank 2 is not simulated | gpus 0 to 1 are, all of one CPU");
}

TEST_CASE("A text that many descriptions have is answered with the twelve shortest") {
  HandMadeStep step;
  std::vector<std::string> names;
  for (int i = 0; i < 14; ++i) {
    names.push_back("layer " + std::to_string(13 - i));
    step.add(0, TaskKind::kernel, "up", 1, {}, i);
  }
  step.name_layers(names);
  const Simulation run = step.simulate();
  CHECK(refusal(run.lowered, run.timeline, "up") ==
        "'up' could be any of 14 tasks | nearest: up in layer 9, up in layer 8, up in layer 7, "
        "up in layer 6, up in layer 5, up in layer 4, up in layer 3, up in layer 2, "
        "up in layer 1, up in layer 0, up in layer 13, up in layer 12, ...");
}

// ---- What is said of it ----

TEST_CASE("A task that was ready waits for its lane") {
  const TaskReport y = report_of(small_step(), "reload y");
  CHECK(y.phase == "copy");
  CHECK(y.lane == "copies");
  CHECK(y.ready == SimTime{2});
  CHECK(y.start == SimTime{4});
  CHECK(y.end == SimTime{7});
  CHECK(y.slack == SimTime{0});
  CHECK(y.critical);
  CHECK(y.cause == Cause::lane);
  CHECK(y.by_lane == SimTime{2});
  CHECK(y.by_dependency == SimTime{0});
  CHECK(y.by_memory == SimTime{0});
  REQUIRE(y.chain.size() == 1);
  CHECK(y.chain[0].what == "store x");
  REQUIRE(y.dependencies.size() == 1);
  CHECK(y.dependencies[0].what == "A");
  REQUIRE(y.waiting.size() == 1);
  CHECK(y.waiting[0].line.what == "C");
  CHECK(y.waiting[0].through == Cause::dependency);
  CHECK(y.waiting[0].started);
  REQUIRE(y.takes.size() == 1);
  CHECK(y.takes[0].owner == "offload_staging");
  CHECK(y.takes[0].bytes == 5);
  REQUIRE(y.gives_back.size() == 1);
  CHECK(y.gives_back[0].pool == "HBM");
  CHECK(y.gives_back[0].owner == "workspace");
}

TEST_CASE("A lane that stands still waits for the last dependency") {
  const TaskReport c = report_of(small_step(), "C");
  CHECK(c.cause == Cause::dependency);
  CHECK(c.by_dependency == SimTime{5}); // the lane was free at 2
  CHECK(c.by_lane == SimTime{0});
  REQUIRE(c.chain.size() == 2);
  CHECK(c.chain[0].what == "store x");
  CHECK(c.chain[1].what == "reload y");
  CHECK(c.waiting.empty());
}

// A may end at 4, when the reload starts; C, the next on its lane, starts 5 later.
TEST_CASE("What waits for a task is told with the way it is tied to it") {
  const TaskReport a = report_of(small_step(), "A");
  CHECK_FALSE(a.critical);
  CHECK(a.slack == SimTime{2});
  CHECK(a.cause == Cause::beginning);
  REQUIRE(a.waiting.size() == 2);
  CHECK(a.waiting[0].line.what == "reload y");
  CHECK_FALSE(a.waiting[0].started);
  CHECK(a.waiting[1].line.what == "C");
  CHECK(a.waiting[1].through == Cause::lane);
  CHECK(a.waiting[1].line.start - a.end == SimTime{5});
}

// The pool holds 10: Q's 4 bytes fit when P gives back its 8, at 5.
TEST_CASE("A task that was short of memory says of which pool, and for how long") {
  HandMadeStep step(PoolMode::stall);
  const TaskId p = step.add(0, TaskKind::kernel, "P", 5);
  const TaskId q = step.add(1, TaskKind::store, "Q", 1);
  step.take(p, 0, 8);
  step.give_back(p, 0, 8);
  step.take(q, 1, 4);
  const Simulation run = step.simulate();
  const TaskReport report = report_of(run, "Q");
  CHECK(report.cause == Cause::memory);
  CHECK(report.cause_pool == "HBM");
  CHECK(report.by_memory == SimTime{5});
  const std::string text = task_text(run.result, report, 5);
  CHECK(contains(text, "\nWhat started it: room that was given back in HBM\n"));
  CHECK(contains(text, "\n  5 ps for room in HBM\n"));
  const TaskReport other = report_of(run, "P");
  REQUIRE(other.waiting.size() == 1);
  CHECK(other.waiting[0].through == Cause::memory);
}

// 134217728 bytes; two GPUs share 360 GB/s, each link carries 193 GB/s. Latency 5 us.
TEST_CASE("A copy tells its rate, the rate it has alone and what held it back") {
  const Simulation run = run_two();
  for (const std::int64_t rank : {0, 1}) {
    const TaskReport store = report_of(run, "store query_proj in layer 1", rank);
    CHECK(store.rank == rank);
    REQUIRE(store.flow);
    CHECK(store.flow->bytes == 134217728);
    CHECK(store.flow->latency == SimTime{5'000'000});
    CHECK(store.flow->rate == doctest::Approx(180e9));
    CHECK(store.flow->rate_alone == doctest::Approx(193e9));
    CHECK(store.flow->alone_bound_by == "D2H link of gpu " + std::to_string(rank));
    CHECK(store.flow->bound_by == "CPU memory");
    CHECK(to_seconds(store.flow->lost).count() ==
          doctest::Approx(134217728 / 180e9 - 134217728 / 193e9));
    REQUIRE(store.takes.size() == 1);
    CHECK(store.takes[0].pool == "host memory of gpu " + std::to_string(rank));
    CHECK(store.takes[0].owner == "query_proj");
    CHECK(contains(task_text(run.result, store, 5),
                   "\nWhat it moved: 134.2 MB at 180 GB/s, after a latency of 5 us\n"
                   "  alone 193 GB/s, bound by D2H link of gpu " +
                       std::to_string(rank) +
                       "\n  50.23 us lost to sharing, held back by CPU memory\n"));
  }
}

// Causal attention of 128 heads of 128 on 4096 tokens: 128 x 4096^2 x 256 flops.
TEST_CASE("A kernel tells its work and the rate it ran at") {
  const Simulation run = run_two();
  const TaskReport attention = report_of(run, "attention in layer 1");
  REQUIRE(attention.compute);
  CHECK(attention.compute->flops == doctest::Approx(128.0 * 4096 * 4096 * 256));
  CHECK_FALSE(attention.flow);
  const std::string text = task_text(run.result, attention, 5);
  CHECK(contains(text, "\nWhat it did: attention of 1 x 128 heads of 128 and 128 on 4096 tokens, "
                       "549.8 GFLOP at "));
  const TaskReport norm = report_of(run, "attention norm in layer 1");
  REQUIRE(norm.compute);
  CHECK(norm.compute->flops == 0);
  CHECK(norm.compute->bytes > 0);
  CHECK(contains(task_text(run.result, norm, 5), "\nWhat it did: bound by HBM, "));
}

TEST_CASE("The report of a task reads as one expects") {
  const Simulation run = small_step();
  CHECK(task_text(run.result, report_of(run, "reload y"), 5) ==
        R"(demo, policy own: reload y, copy
the only one of gpu 0

  lane   copies
  ready  0.000 ms: all that it depends on had ended
  start  0.000 ms into the step
  end    0.000 ms
  took   3 ps
  slack  none: it is on the critical sequence

What started it: the end of the task before it on its lane
  task     lane       start       end  took  started by
  -----------------------------------------------------
  store x  copies  0.000 ms  0.000 ms  4 ps  beginning

What it waited for
  2 ps for its lane, all dependencies had ended

What it depends on, the last to end first
  task  lane        start       end  took  started by
  ---------------------------------------------------
  A     compute  0.000 ms  0.000 ms  2 ps  beginning

Memory
  takes at its start     HBM  offload_staging  5 B
  gives back at its end  HBM  workspace        2 B

What waits for it
  task  lane        through  starts later by  started by it
  ---------------------------------------------------------
  C     compute  dependency              0 s  yes
)");
  const std::string a = task_text(run.result, report_of(run, "A"), 1);
  CHECK(contains(a, "\nWhat started it: nothing held it: it started with the step\n"));
  CHECK(contains(a, "\n  its turn on its lane; it depends on nothing else\n"));
  CHECK(contains(a, "\n  slack  2 ps: it alone could end so much later without a longer step\n"));
  CHECK_FALSE(contains(a, "\n  C ")); // --top 1: the first of two that wait
  CHECK(contains(task_text(run.result, report_of(run, "C"), 5), "\nWhat waits for it: nothing\n"));
  CHECK(contains(task_text(run.result, report_of(run, "C"), 5),
                 "\n  5 ps for its last dependency, its lane was free\n"));
  const Simulation twice = layers();
  CHECK(contains(task_text(twice.result, report_of(twice, "up in layer 0", 0, 2), 5),
                 "\nnumber 2 of 2 of gpu 0 in a step; --occurrence N shows another\n"));
}

TEST_CASE("JSON of a task holds what its text says") {
  const Simulation run = small_step();
  const Json json = Json::parse(task_json(run.result, report_of(run, "reload y")));
  CHECK(json["task"] == "reload y");
  CHECK(json["class"] == "copy");
  CHECK(json["gpu"] == 0);
  CHECK(json["occurrences"] == 1);
  CHECK(json["start_s"].get<double>() == doctest::Approx(4e-12));
  CHECK(json["waited_s"]["lane"].get<double>() == doctest::Approx(2e-12));
  CHECK(json["critical"] == true);
  CHECK(json["started_by"] == "lane");
  CHECK(json["started_by_pool"].is_null());
  CHECK(json["chain"][0]["task"] == "store x");
  CHECK(json["dependencies"][0]["task"] == "A");
  CHECK(json["flow"].is_null());
  CHECK(json["compute"].is_null());
  CHECK(json["takes"][0] ==
        Json::parse(R"({"pool": "HBM", "owner": "offload_staging", "bytes": 5})"));
  CHECK(json["waiting"][0]["through"] == "dependency");
  CHECK(json["waiting"][0]["started_by_it"] == true);
  const Simulation two = run_two();
  const Json store =
      Json::parse(task_json(two.result, report_of(two, "store query_proj in layer 1")));
  CHECK(store["flow"]["bound_by"] == "CPU memory");
  CHECK(store["flow"]["bytes"] == 134217728.0);
  CHECK(
      Json::parse(task_json(two.result, report_of(two, "attention in layer 1")))["compute"]["flops"]
          .get<double>() > 0);
}
