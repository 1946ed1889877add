// The space of policies: names, pins, saved sets, and policies written from choices.
#include "results/planning/policy_space.hpp"

#include "results/planning/setting_search.hpp"
#include "tests/support/random_choice.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <vector>

namespace spillway::testing {
namespace {

const std::string scenario_name = "deepseek-v3-gb200";

SettingSearch search_with(const Pins& pins) {
  return {catalogue(scenario_name), pins, Folding::automatic};
}

const GroupSpace& group_of(const SettingSearch& search, const std::string& kind) {
  const auto& groups = search.groups();
  return *std::find_if(groups.begin(), groups.end(),
                       [&](const GroupSpace& group) { return group.kind() == kind; });
}

std::uint32_t bit_of(const GroupSpace& group, const std::string& name) {
  const auto found = std::find(group.names().begin(), group.names().end(), name);
  REQUIRE(found != group.names().end());
  return 1U << (found - group.names().begin());
}

GroupChoice written(const SettingSearch& search, const GroupSpace& group, GroupChoice choice) {
  PolicySpec policy;
  policy.preset = Preset::custom;
  group.write(choice, policy);
  return group.choice_of(policy, search.scenario().trace, search.scenario().framework);
}

TEST_CASE("A kind's names are those that the framework knows, once each") {
  const SettingSearch search = search_with({});
  REQUIRE(search.groups().size() == 2);
  const std::vector<std::string>& known = search.scenario().framework.policy_names;
  for (const GroupSpace& group : search.groups()) {
    const std::set<std::string> names(group.names().begin(), group.names().end());
    CHECK(names.size() == group.names().size());
    for (const std::string& name : names) {
      CHECK(std::count(known.begin(), known.end(), name) == 1);
    }
    CHECK(names.count("decoder_layer_input") == 1);
    CHECK(names.count("query_proj") == 1);
    CHECK(names.count("moe_mlpwi_0") == (group.kind() == "moe" ? 1 : 0));
  }
}

TEST_CASE("The layer's input is kept or offloaded, every other name has three fates") {
  const SettingSearch search = search_with({});
  const GroupSpace& dense = group_of(search, "dense");
  double policies = 1;
  for (std::size_t i = 0; i < dense.names().size(); ++i) {
    const bool input = dense.names()[i] == "decoder_layer_input";
    CHECK(dense.may_be(i, Fate::keep));
    CHECK(dense.may_be(i, Fate::offload));
    CHECK(dense.may_be(i, Fate::recompute) == !input);
    policies *= input ? 2 : 3;
  }
  CHECK(dense.policies() == policies);
  CHECK(dense.least().saved == bit_of(dense, "decoder_layer_input"));
  CHECK(dense.least().offloaded == 0);
}

TEST_CASE("A pin of one kind is stronger than one of all, and leaves one fate") {
  const SettingSearch search =
      search_with({{"query_proj", Fate::offload}, {"dense.query_proj", Fate::recompute}});
  const GroupSpace& dense = group_of(search, "dense");
  const GroupSpace& moe = group_of(search, "moe");
  const SettingSearch all = search_with({});
  CHECK(dense.policies() * 3 == group_of(all, "dense").policies());
  CHECK(moe.policies() * 3 == group_of(all, "moe").policies());
  CHECK((moe.least().offloaded & bit_of(moe, "query_proj")) != 0);
  for (const std::uint32_t saved : dense.saved_sets()) {
    CHECK((saved & bit_of(dense, "query_proj")) == 0);
  }
  for (const std::uint32_t saved : moe.saved_sets()) {
    CHECK((saved & bit_of(moe, "query_proj")) != 0);
  }
}

TEST_CASE("Pins that name nothing or recompute the layer's input are refused") {
  const SettingSearch search = search_with({});
  check_pins({{"query_proj", Fate::keep}, {"moe.moe_mlpwi_0", Fate::offload}}, search.groups());
  for (const char* name : {"query_pro", "dense.moe_mlpwi_0", "query_proj.moe"}) {
    CHECK_THROWS_AS(check_pins({{name, Fate::keep}}, search.groups()), InputError);
  }
  for (const char* name : {"decoder_layer_input", "moe.decoder_layer_input"}) {
    CHECK_THROWS_AS(check_pins({{name, Fate::recompute}}, search.groups()), InputError);
    CHECK_NOTHROW(check_pins({{name, Fate::offload}}, search.groups()));
  }
}

// What a set saves in effect: names of tensors that are saved and needed.
std::uint32_t in_effect(const SettingSearch& search, const GroupSpace& group, std::uint32_t saved) {
  return written(search, group, {saved, 0}).saved;
}

TEST_CASE("Too many names to choose for are refused, until some are pinned") {
  Scenario scenario = catalogue(scenario_name);
  scenario.framework.policy_names.clear();
  const auto moe = std::find_if(scenario.trace.kinds.begin(), scenario.trace.kinds.end(),
                                [](const LayerKind& kind) { return kind.name == "moe"; });
  const StepBound::Group group{"moe",
                               {static_cast<std::uint32_t>(moe - scenario.trace.kinds.begin())}};
  const auto name_first = [&](std::size_t count) { // and no others
    for (std::size_t t = 0; t < moe->tensors.size(); ++t) {
      moe->tensors[t].policy_names.clear();
      if (t < count) {
        moe->tensors[t].policy_names.push_back("tensor " + std::to_string(t));
      }
    }
  };
  const auto message = [&](const Pins& pins) -> std::string {
    try {
      static_cast<void>(GroupSpace(scenario, group, pins));
    } catch (const InputError& error) {
      return error.diagnostics().front().message;
    }
    return {};
  };
  name_first(21); // the input has two fates
  CHECK(message({}).empty());
  name_first(22);
  CHECK(message({}) == "moe layers have 22 tensors to choose for, more than 20");
  CHECK(message({{"tensor 1", Fate::keep}}).empty());
  name_first(31);
  CHECK(message({}) == "moe layers have 31 tensors to choose for, more than 20");
}

TEST_CASE("Saved sets are all that differ in effect, each once") {
  const SettingSearch search = search_with({});
  for (const GroupSpace& group : search.groups()) {
    CAPTURE(group.kind());
    const std::vector<std::uint32_t> sets = group.saved_sets();
    const std::set<std::uint32_t> distinct(sets.begin(), sets.end());
    CHECK(distinct.size() == sets.size());
    std::set<std::uint32_t> effects;
    const std::uint32_t input = group.least().saved;
    for (std::uint32_t saved = 0; saved < 1U << group.names().size(); saved += 7) {
      const std::uint32_t effect = in_effect(search, group, saved | input);
      CHECK(distinct.count(effect) == 1);
    }
    for (std::size_t i = 0; i < sets.size(); i += 5) {
      CHECK(in_effect(search, group, sets[i]) == sets[i]);
    }
  }
}

TEST_CASE("A policy that is written from a choice makes that choice") {
  const SettingSearch search = search_with({});
  for (const GroupSpace& group : search.groups()) {
    const std::vector<std::uint32_t> sets = group.saved_sets();
    test::Random random(3);
    for (std::size_t i = 0; i < sets.size(); i += 3) {
      const GroupChoice choice{sets[i], sets[i] & static_cast<std::uint32_t>(random.bits())};
      CHECK(written(search, group, choice) == choice);
    }
  }
}

TEST_CASE("An expert's tensor is recomputed though its less specific name is kept") {
  const SettingSearch search = search_with({});
  const GroupSpace& moe = group_of(search, "moe");
  const std::uint32_t shared = bit_of(moe, "mlpwi_0");
  const std::uint32_t routed = bit_of(moe, "moe_mlpwi_0");
  PolicySpec policy;
  policy.preset = Preset::custom;
  const GroupChoice choice{moe.least().saved | shared, 0};
  moe.write(choice, policy);
  CHECK(policy.by_kind["moe"].at("mlpwi_0") == Fate::keep);
  CHECK(policy.by_kind["moe"].at("moe_mlpwi_0") == Fate::recompute);
  CHECK(written(search, moe, choice) == choice);
  // The other way round nothing has to be said of the shared experts.
  PolicySpec other;
  moe.write({moe.least().saved | routed, routed}, other);
  CHECK(other.by_kind["moe"].count("mlpwi_0") == 0);
  CHECK(other.by_kind["moe"].at("moe_mlpwi_0") == Fate::offload);
}

TEST_CASE("Bytes of a choice's names are what its layers keep and offload") {
  const SettingSearch search = search_with({});
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Choice choice = random_choice(search, seed);
    std::int64_t offloaded = 0;
    for (std::size_t g = 0; g < choice.size(); ++g) {
      const GroupSpace& group = search.groups()[g];
      const GroupChoice effect = written(search, group, choice[g]);
      for (std::size_t i = 0; i < group.names().size(); ++i) {
        offloaded += (effect.offloaded >> i & 1U) != 0 ? group.bytes()[i] : 0;
      }
    }
    CHECK(search.bound_of(choice).bytes.host == offloaded);
  }
}

} // namespace
} // namespace spillway::testing
