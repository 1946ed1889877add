// Kernels and copies of a step, added up.
#include "results/profiles.hpp"
#include "results/step_activity.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace spillway;

namespace {

constexpr SimTime us(std::int64_t microseconds) {
  return SimTime{microseconds * 1'000'000};
}

Activity made(const std::string& name, ActivityClass kind, std::int64_t start, std::int64_t end) {
  Activity activity;
  activity.name = name;
  activity.kind = kind;
  activity.start = us(start);
  activity.end = us(end);
  return activity;
}

Activity copy(ActivityClass kind, std::int64_t start, std::int64_t end, std::int64_t bytes) {
  Activity activity = made("copy", kind, start, end);
  activity.bytes = Bytes{bytes};
  return activity;
}

StepTotals totals_of(const std::vector<Activity>& activities) {
  return total(activities);
}

} // namespace

// The picture in the header: kernels 0..4 and 8..12, a copy 3..10.
TEST_CASE("A copy is exposed while no kernel runs and hidden otherwise") {
  const StepTotals t =
      totals_of({made("a", ActivityClass::matmul, 0, 4), made("b", ActivityClass::memory, 8, 12),
                 copy(ActivityClass::store, 3, 10, 700)});
  CHECK(t.step == us(12));
  CHECK(t.stores.busy == us(7));
  CHECK(t.stores.exposed == us(4));
  CHECK(t.stores.hidden_fraction() == doctest::Approx(3.0 / 7));
  CHECK(t.exposed == us(4));
  CHECK(t.idle == us(0));
  CHECK(t.of(ActivityClass::matmul).busy == us(4));
  CHECK(t.of(ActivityClass::matmul).count == 1);
  CHECK(t.of(ActivityClass::memory).busy == us(4));
  CHECK(t.of(ActivityClass::unclassified).count == 0);
}

// Kernel 10..20 and 30..40 from one queue, 35..45 from another; idle 20..25 and 28..30.
// A copy of each direction: 25..28 and 26..27, exposed together for 3.
TEST_CASE("Idle is what neither kernels nor copies fill, and directions share exposed time") {
  const StepTotals t =
      totals_of({made("a", ActivityClass::matmul, 10, 20), made("a", ActivityClass::matmul, 30, 40),
                 made("b", ActivityClass::matmul, 35, 45), copy(ActivityClass::store, 25, 28, 1),
                 copy(ActivityClass::reload, 26, 27, 1)});
  CHECK(t.step == us(35));
  CHECK(t.of(ActivityClass::matmul).busy == us(30)); // the sum of the kernels
  CHECK(t.stores.exposed == us(3));
  CHECK(t.reloads.exposed == us(1));
  CHECK(t.exposed == us(3));
  CHECK(t.idle == us(7));
}

// Two streams wait for one engine: 0..10 and 5..20 are 20 long, not 25. Of 3,000 bytes
// in these 20 us the rate is 150e6 a second; a copy by a kernel and one of unknown size
// count in time, not in rate.
TEST_CASE("The rate of copies is that of the engine, and copies that overlap count once") {
  std::vector<Activity> copies{
      copy(ActivityClass::store, 0, 10, 1000), copy(ActivityClass::store, 5, 20, 2000),
      copy(ActivityClass::store, 30, 40, 5000), made("copy", ActivityClass::store, 50, 55)};
  copies[2].by_kernel = true;
  const StepTotals t = totals_of(copies);
  CHECK(t.stores.count == 4);
  CHECK(t.stores.busy == us(35));
  CHECK(t.stores.by_kernels == us(10));
  CHECK(t.stores.bytes_per_second() == doctest::Approx(150e6));
  CHECK(t.stores.hidden_fraction() == doctest::Approx(0.0));
  CHECK_FALSE(t.reloads.hidden_fraction());
  CHECK_FALSE(t.reloads.bytes_per_second());
}

TEST_CASE("A kernel that belongs to another one's call adds time, not a count") {
  std::vector<Activity> kernels{made("main", ActivityClass::attention_backward, 0, 10),
                                made("part", ActivityClass::attention_backward, 10, 12),
                                made("main", ActivityClass::attention_backward, 12, 20)};
  kernels[1].counted = false;
  const StepTotals t = totals_of(kernels);
  CHECK(t.of(ActivityClass::attention_backward).busy == us(20));
  CHECK(t.of(ActivityClass::attention_backward).count == 2);
  REQUIRE(t.names.size() == 2);
  CHECK(t.names[0].name == "main");
  CHECK(t.names[0].count == 2);
  CHECK(t.names[0].busy == us(18));
  CHECK(t.names[1].name == "part");
}

TEST_CASE("Nothing adds up to nothing") {
  const StepTotals t = totals_of({});
  CHECK(t.step == us(0));
  CHECK(t.names.empty());
}

// Checkpointed: attention runs forward, again in backward, and backward, in 4 layers.
// Gate and up go to the host and come back; the last layer's store and the first reload
// are peeled, two tensors each.
TEST_CASE("A simulated step is all of its kernels and copies, without the gap after it") {
  ProfileRecord record;
  record.id = record.policy = "test";
  record.model.name = "small";
  record.model.hidden = 4096;
  record.model.layers = record.model.dense_layers = 4;
  record.model.dense.width = 14336;
  record.model.vocabulary = 32000;
  record.model.attention.heads = 32;
  record.model.attention.kv_heads = 8;
  record.model.attention.head_dim = 128;
  record.batch.micro = 2;
  record.batch.sequence = 4096;
  record.fates = {{"mlpwi_0", Fate::offload}, {"mlpwi_1", Fate::offload}};
  record.offloads = true;
  record.command_buffers = false;
  const Catalog catalog({"."});
  Diagnostics diagnostics;
  const Device device = read_device(
      catalog.load_file(CatalogKind::hardware, catalog.find(CatalogKind::hardware, "h200")),
      catalog.table_folder(), diagnostics);
  const FrameworkSpec framework = read_framework(
      catalog.load_file(CatalogKind::framework, catalog.find(CatalogKind::framework, "jax-scan")),
      diagnostics);
  diagnostics.throw_if_any();
  const Scenario scenario = profile_scenario(record, device, framework);
  RateCache cache;
  const Simulation run = simulate(scenario, scenario.policies.front(), cache);
  const StepTotals t = total(activities_of(run));

  CHECK(t.step + to_sim_time(Seconds{framework.step_gap.value}) == run.timeline.makespan);
  CHECK(t.of(ActivityClass::attention_forward).count == 8);
  CHECK(t.of(ActivityClass::attention_backward).count == 4);
  CHECK(t.of(ActivityClass::unclassified).count == 0);
  CHECK(t.of(ActivityClass::memory).busy > us(0));
  // 8,192 tokens x 14,336 x 2 bytes, two tensors, 4 layers; one layer's by kernels.
  CHECK(t.stores.count == 8);
  CHECK(t.reloads.count == 8);
  CHECK(t.stores.sized.count() == std::int64_t{8192} * 14336 * 2 * 2 * 3);
  CHECK(t.reloads.sized.count() == t.stores.sized.count());
  CHECK(t.stores.by_kernels > us(0));
  CHECK(t.stores.exposed > us(0));
  CHECK(t.exposed == t.stores.exposed + t.reloads.exposed);
  SimTime kernels{0};
  for (const KernelTotal& kernel : t.kernels) {
    kernels += kernel.busy;
  }
  CHECK(kernels + t.exposed + t.idle == t.step); // one compute lane: kernels do not overlap
  CHECK(to_seconds(t.exposed).count() ==
        doctest::Approx(run.result.time[static_cast<std::size_t>(TimeBin::exposed_offload)]));
}
