#include "results/explanation.hpp"
#include "sim/analysis/explain.hpp"
#include "sim/analysis/waiting.hpp"
#include "tests/support/hand_made_step.hpp"
#include "tests/support/slack_list.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace spillway;
using namespace spillway::testing;

namespace {

// compute    A 0-2 ............ C 7-8, store z 8-10
// copies     store x 0-4, reload y 4-7           C depends on y
// exchanges  gather 0-1, 1-2, after A 2-3        store z depends on the second
// weights    store x 0-1
Simulation small_step() {
  HandMadeStep step;
  const TaskId a = step.add(0, TaskKind::kernel, "A", 2);
  step.add(1, TaskKind::store, "store x", 4);
  const TaskId y = step.add(1, TaskKind::reload, "reload y", 3);
  step.add(0, TaskKind::kernel, "C", 1, {y});
  step.add(2, TaskKind::collective, "gather", 1);
  const TaskId second = step.add(2, TaskKind::collective, "gather", 1);
  step.add(2, TaskKind::collective, "gather", 1, {a});
  step.add(3, TaskKind::store, "store x", 1);
  step.add(0, TaskKind::store, "store z", 2, {second});
  return step.simulate();
}

template <class Group>
const Group& named(const std::vector<Group>& groups, const std::string& what) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& group) { return group.what == what; });
  REQUIRE(found != groups.end());
  return *found;
}

bool same(const StartCounts& a, const StartCounts& b) {
  return a.beginning == b.beginning && a.lane == b.lane && a.dependency == b.dependency &&
         a.memory == b.memory;
}

double bin(const Simulation& run, TimeBin which) {
  return run.result.time[static_cast<std::size_t>(which)];
}

} // namespace

// From the end: z by its lane, C by y, y by its lane, x from the beginning.
TEST_CASE("The critical sequence says what started its tasks") {
  const Explanation explanation = explain(small_step());
  CHECK(explanation.critical_tasks == 4);
  CHECK(same(explanation.started, {1, 2, 1, 0}));
  CHECK(same(named(explanation.critical, "C").started, {0, 0, 1, 0}));
  CHECK(same(named(explanation.critical, "store z").started, {0, 1, 0, 0}));
  CHECK(explanation.lost.empty());
  const auto classes = time_by_class(explanation);
  REQUIRE(classes.size() == 2);
  CHECK(classes[0] == std::pair(std::string("copy"), SimTime{9}));
  CHECK(classes[1] == std::pair(std::string("forward"), SimTime{1}));
}

// The gap 2-7 before C is y's from 4 on, and x's before, since y waited for its lane.
TEST_CASE("A wait belongs to the task that ran, back along the causes") {
  const Simulation run = small_step();
  const std::vector<SimTime> waited = waited_for(run.lowered.graph, run.timeline, 0);
  CHECK(waited == std::vector<SimTime>{SimTime{0}, SimTime{2}, SimTime{3}, SimTime{0}, SimTime{0},
                                       SimTime{0}, SimTime{0}, SimTime{0}, SimTime{0}});
}

TEST_CASE("Copies and collectives are exposed while compute waits for them or runs them") {
  const std::vector<ExposureGroup> groups = explain(small_step()).exposure;
  REQUIRE(groups.size() == 4);
  const std::vector<std::string> order{"reload y", "store x", "store z", "gather"};
  const std::vector<std::vector<std::int64_t>> numbers{
      {1, 3, 3, 0}, {2, 5, 2, 3}, {1, 2, 2, 0}, {3, 3, 0, 3}};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    CHECK(groups[i].what == order[i]);
    CHECK(std::vector<std::int64_t>{groups[i].count, groups[i].time.count(),
                                    groups[i].exposed.count(),
                                    groups[i].hidden().count()} == numbers[i]);
  }
  const std::vector<ExposureGroup> totals = totals_of(groups);
  REQUIRE(totals.size() == 2);
  CHECK(totals[0].phase == "copy");
  CHECK(totals[0].count == 4);
  CHECK(totals[0].time == SimTime{10});
  CHECK(totals[0].exposed == SimTime{7});
  CHECK(totals[1].phase == "collective");
  CHECK(totals[1].hidden() == SimTime{3});
  CHECK(totals_of({}).empty());
}

// The gathers must end by 7, 8 (z starts) and 10; they ended at 1, 2 and 3. Of the two
// stores of x one is critical, the other may end at 10 instead of 1.
TEST_CASE("Room is told per operation, the least first, without what has none") {
  const std::vector<RoomGroup> room = explain(small_step()).room;
  REQUIRE(room.size() == 2);
  CHECK(room[0].what == "gather");
  CHECK(room[0].with_room == 3);
  CHECK(room[0].time == SimTime{3});
  CHECK(room[0].least == SimTime{6});
  CHECK(room[0].most == SimTime{7});
  CHECK(room[1].what == "store x");
  CHECK(room[1].count == 2);
  CHECK(room[1].with_room == 1);
  CHECK(room[1].time == SimTime{1});
  CHECK(room[1].least == SimTime{9});
}

// Two ways to the same number: exposed copies by task here, gaps by their cause there.
TEST_CASE("Exposed copies and collectives of a real step fill the bins of its time") {
  for (const char* name : {"deepseek-v3-gb200", "llama-3.1-405b-gb200"}) {
    const Scenario scenario = catalogue(name);
    for (const PolicySpec& policy : scenario.policies) {
      INFO(name, " ", policy.name);
      const Simulation simulation = run(scenario, policy.name);
      SimTime copies{0};
      SimTime collectives{0};
      for (const ExposureGroup& group : explain(simulation).exposure) {
        (group.phase == "copy" ? copies : collectives) += group.exposed;
        CHECK(group.exposed <= group.time);
      }
      CHECK(to_seconds(copies).count() ==
            doctest::Approx(bin(simulation, TimeBin::exposed_offload)));
      CHECK(to_seconds(collectives).count() ==
            doctest::Approx(bin(simulation, TimeBin::exposed_collective)));
    }
  }
}

TEST_CASE("On a real step no task of the critical sequence has room") {
  const Simulation simulation = run(catalogue("deepseek-v3-gb200"), "offload");
  const std::vector<SimTime> slack = test::slack_of(simulation.lowered.graph, simulation.timeline);
  for (const CriticalTask& critical :
       critical_sequence(simulation.lowered.graph, simulation.timeline)) {
    CHECK(slack[critical.task] == SimTime{0});
  }
  CHECK(*std::min_element(slack.begin(), slack.end()) == SimTime{0});
}

// Symmetric GPUs end together: the sequence is that of the reported one.
TEST_CASE("The critical sequence of symmetric GPUs ends on the first of them") {
  const Simulation simulation = run(catalogue("deepseek-v3-gb200"), "offload");
  const TaskId last = critical_sequence(simulation.lowered.graph, simulation.timeline).back().task;
  CHECK(simulation.lowered.tasks[last].rank == 0);
}

TEST_CASE("The report says in words what the explanation holds") {
  Simulation simulation = small_step();
  Scenario scenario;
  Explanation explanation = explain(simulation);
  explanation.faster = WhatIf{20, SimTime{1'000'000}, {}, {}};
  explanation.faster->changed = {{"CPU memory", SimTime{900'000}},
                                 {"HBM", SimTime{950'000}},
                                 {"NIC", SimTime{999'900}},
                                 {"power limit", SimTime{1'010'000}}};
  explanation.faster->unchanged = {"attention", "matrix products"};
  const std::string text = explanation_text(scenario, simulation, explanation, 2);
  CAPTURE(text);
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  CHECK(has("  2 were started by the task before them on their lane, 1 by a dependency, 0 by "
            "freed memory\n"));
  CHECK(has("\nCopies and collectives: exposed while the GPU waits for them, hidden otherwise\n"));
  CHECK(has("\nWhat has room: how much later it could end, alone, without a longer step\n"));
  CHECK(has("\nWhat would help: one resource 20 % faster, the step simulated anew\n"
            "  CPU memory 20 % faster:  step 1 us ->  900 ns  (-10.0 %)\n"
            "  HBM 20 % faster:         step 1 us ->  950 ns   (-5.0 %)\n"
            "  less than 0.05 %: NIC\n"
            "  no change: attention, matrix products\n"));
  CHECK_FALSE(has("power limit")); // the third that matters
  CHECK(explanation_text(scenario, simulation, explanation, 3)
            .find("  power limit 20 % higher:  step 1 us ->  1.01 us   (+1.0 %)\n") !=
        std::string::npos);
}
