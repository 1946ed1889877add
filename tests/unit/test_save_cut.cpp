// The minimum cut against trying every set of what can be saved.
#include "policies/save_cut.hpp"

#include "policies/plan.hpp"
#include "sim/lower/layer_bound.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/step.hpp"
#include "tests/support/traces.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace spillway::testing {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// What a set of groups (by bit) leaves to run again.
std::vector<OpIndex> rerun_of(const LayerKind& kind, const SaveCosts& costs, std::uint32_t saved) {
  std::vector<Fate> fates(kind.tensors.size(), Fate::recompute);
  for (TensorIndex t = 0; t < fates.size(); ++t) {
    const std::size_t group = costs.group_of[t];
    if (group != SaveCosts::no_group && (saved >> group & 1U) != 0) {
      fates[t] = Fate::keep;
    }
  }
  return plan_for(kind, fates).rerun;
}

double rerun_time(const SaveCosts& costs, const std::vector<OpIndex>& rerun) {
  double sum = 0;
  for (const OpIndex op : rerun) {
    sum += costs.rerun_s[op];
  }
  return sum;
}

double sum_of(const std::vector<double>& values, std::uint32_t saved) {
  double sum = 0;
  for (std::size_t group = 0; group < values.size(); ++group) {
    sum += (saved >> group & 1U) != 0 ? values[group] : 0;
  }
  return sum;
}

// Seconds of all that runs again, by set of groups.
std::vector<double> rerun_by_set(const LayerKind& kind, const SaveCosts& costs) {
  std::vector<double> seconds;
  for (std::uint32_t saved = 0; saved < 1U << costs.price_s.size(); ++saved) {
    seconds.push_back(rerun_time(costs, rerun_of(kind, costs, saved)));
  }
  return seconds;
}

std::uint32_t bits_of(const SaveChoice& choice) {
  std::uint32_t saved = 0;
  for (const std::size_t group : choice.groups) {
    saved |= 1U << group;
  }
  return saved;
}

// The choice costs what it says, runs again what follows, and no set is cheaper.
SaveChoice check_cheapest(const LayerKind& kind, const SaveCosts& costs,
                          const std::vector<double>& rerun) {
  const SaveChoice choice = cheapest_saves(kind, costs);
  double least = infinite;
  for (std::uint32_t saved = 0; saved < rerun.size(); ++saved) {
    least = std::min(least, rerun[saved] + sum_of(costs.price_s, saved));
  }
  const double rounding = 1e-12 * static_cast<double>(kind.ops.size() + costs.price_s.size());
  REQUIRE(std::abs(choice.cost_s - least) <= rounding);
  const std::uint32_t saved = bits_of(choice);
  REQUIRE(choice.rerun == rerun_of(kind, costs, saved));
  REQUIRE(std::abs(rerun[saved] + sum_of(costs.price_s, saved) - least) <= rounding);
  return choice;
}

// ---- Layers of a model ----

// A kind of layer with a group for each name by which a policy chooses.
struct NamedKind {
  const LayerKind* kind = nullptr;
  SaveCosts costs;
  std::vector<double> bytes; // by group
  std::vector<double> rerun; // by set of groups
};

NamedKind named_kind(const Scenario& scenario, const std::string& name) {
  NamedKind result;
  result.kind = &named(scenario.trace.kinds, name);
  std::vector<std::string> names;
  for (TensorIndex t = 0; t < result.kind->tensors.size(); ++t) {
    std::size_t& group = result.costs.group_of.emplace_back(SaveCosts::no_group);
    const Tensor& tensor = result.kind->tensors[t];
    if (tensor.policy_names.empty() || t == result.kind->input) {
      continue;
    }
    const auto at = std::find(names.begin(), names.end(), tensor.policy_names.front());
    group = static_cast<std::size_t>(at - names.begin());
    if (at == names.end()) {
      names.push_back(tensor.policy_names.front());
      result.bytes.push_back(0);
    }
    result.bytes[group] += static_cast<double>(tensor.bytes.count());
  }
  RateCache cache;
  CostModel cost(scenario.device, scenario.parallel.gpus, cache);
  for (const Op& op : result.kind->ops) {
    const double seconds = op.work.is_collective() ? solo_collective(scenario, cost, op.work).total
                                                   : cost.kernel_time(op.work).count();
    result.costs.rerun_s.push_back(std::round(seconds * 1e12) / 1e12);
  }
  result.costs.price_s.assign(names.size(), 0.0);
  result.rerun = rerun_by_set(*result.kind, result.costs);
  return result;
}

// Prices are whole picoseconds, so that rounding cannot turn the order of two sets around.
SaveChoice at_price(NamedKind& kind, double picoseconds_per_byte) {
  for (std::size_t group = 0; group < kind.bytes.size(); ++group) {
    kind.costs.price_s[group] = kind.bytes[group] * picoseconds_per_byte * 1e-12;
  }
  return check_cheapest(*kind.kind, kind.costs, kind.rerun);
}

TEST_CASE("No set of named tensors is cheaper than the cut, at any price of a byte") {
  const Scenario scenario = catalogue("deepseek-v3-gb200");
  for (const char* name : {"dense", "moe"}) {
    CAPTURE(name);
    NamedKind kind = named_kind(scenario, name);
    REQUIRE(kind.bytes.size() >= 12);
    double bytes = infinite;
    std::vector<double> distinct;
    for (const double price : {0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 20.0, 100.0, 1e4}) {
      CAPTURE(price);
      const double saved = sum_of(kind.bytes, bits_of(at_price(kind, price)));
      CHECK(saved <= bytes);
      bytes = saved;
      distinct.push_back(saved);
    }
    CHECK(bytes == 0); // saving is dearer than everything
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    CHECK(distinct.size() >= 4);
  }
}

TEST_CASE("Where saving is free nothing runs again that a name spares") {
  const Scenario scenario = catalogue("deepseek-v3-gb200");
  for (const char* name : {"dense", "moe"}) {
    NamedKind kind = named_kind(scenario, name);
    const SaveChoice choice = at_price(kind, 0);
    CHECK(choice.cost_s == doctest::Approx(kind.rerun.back()));
    const auto all = static_cast<std::uint32_t>(kind.rerun.size() - 1);
    const std::vector<OpIndex> least = rerun_of(*kind.kind, kind.costs, all);
    CHECK(least.size() < kind.kind->ops.size() / 2);
    for (const OpIndex op : choice.rerun) { // more only of what takes no time
      CHECK((kind.costs.rerun_s[op] == 0 || std::count(least.begin(), least.end(), op) == 1));
    }
  }
}

TEST_CASE("A tensor with an infinite price is produced again") {
  const Scenario scenario = catalogue("deepseek-v3-gb200");
  NamedKind kind = named_kind(scenario, "moe");
  const SaveChoice free = at_price(kind, 0);
  REQUIRE_FALSE(free.groups.empty());
  for (const std::size_t group : free.groups) {
    kind.costs.price_s.assign(kind.bytes.size(), 0.0);
    kind.costs.price_s[group] = infinite;
    const SaveChoice choice = cheapest_saves(*kind.kind, kind.costs);
    CHECK(std::count(choice.groups.begin(), choice.groups.end(), group) == 0);
    CHECK(choice.rerun == rerun_of(*kind.kind, kind.costs, bits_of(choice)));
  }
}

// ---- Random layers ----

struct RandomLayer {
  LayerKind kind;
  SaveCosts costs;
};

void add_backward(test::Random& random, LayerKind& kind) {
  for (OpIndex op = 0; op < kind.ops.size(); ++op) {
    BackwardOp backward;
    backward.forward = op;
    for (TensorIndex t = 0; t < kind.tensors.size(); ++t) {
      if (random.one_in(4)) {
        backward.needs.push_back(t);
      }
    }
    kind.backward.push_back(backward);
  }
}

// Operations that read a few earlier tensors and write one to three.
LayerKind random_kind(test::Random& random) {
  LayerKind kind;
  kind.tensors.emplace_back();
  const std::int64_t ops = random.integer(1, 6);
  for (OpIndex op = 0; op < ops; ++op) {
    Op made;
    for (std::int64_t reads = random.integer(1, 3); reads > 0; --reads) {
      made.reads.push_back(random.below(kind.tensors.size()));
    }
    for (std::int64_t writes = random.integer(1, 3); writes > 0; --writes) {
      made.writes.push_back(static_cast<TensorIndex>(kind.tensors.size()));
      kind.tensors.emplace_back().producer = op;
    }
    kind.ops.push_back(made);
  }
  add_backward(random, kind);
  return kind;
}

// Small numbers, so that many choices cost the same; some groups have several producers.
RandomLayer random_layer(std::uint64_t seed) {
  test::Random random(seed);
  RandomLayer layer{random_kind(random), {}};
  for (std::size_t op = 0; op < layer.kind.ops.size(); ++op) {
    layer.costs.rerun_s.push_back(static_cast<double>(random.integer(0, 9)));
  }
  const std::int64_t groups = random.integer(0, 7);
  for (std::int64_t group = 0; group < groups; ++group) {
    layer.costs.price_s.push_back(random.one_in(8) ? infinite
                                                   : static_cast<double>(random.integer(0, 6)));
  }
  for (std::size_t t = 0; t < layer.kind.tensors.size(); ++t) {
    const bool none = groups == 0 || random.one_in(5);
    layer.costs.group_of.push_back(none ? SaveCosts::no_group
                                        : random.below(layer.costs.price_s.size()));
  }
  return layer;
}

TEST_CASE("No set is cheaper than the cut in random layers, shared groups included") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    const RandomLayer layer = random_layer(seed);
    check_cheapest(layer.kind, layer.costs, rerun_by_set(layer.kind, layer.costs));
  }
}

TEST_CASE("A dearer byte never saves more bytes in random layers") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    RandomLayer layer = random_layer(seed);
    const std::vector<double> bytes = [&] {
      std::vector<double> finite = layer.costs.price_s;
      std::replace(finite.begin(), finite.end(), infinite, 4.0);
      return finite;
    }();
    double before = infinite;
    for (const double price : {0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 64.0}) {
      for (std::size_t group = 0; group < bytes.size(); ++group) {
        layer.costs.price_s[group] = price * bytes[group];
      }
      const double saved = sum_of(bytes, bits_of(cheapest_saves(layer.kind, layer.costs)));
      REQUIRE(saved <= before);
      before = saved;
    }
  }
}

// ---- Costs that are none ----

TEST_CASE("Costs that are no costs are refused") {
  const RandomLayer layer = random_layer(1);
  const auto with = [&](const auto& change) {
    SaveCosts costs = layer.costs;
    costs.price_s.push_back(0);
    change(costs);
    return costs;
  };
  const std::vector<SaveCosts> wrong{
      with([](SaveCosts& c) { c.rerun_s.front() = -1; }),
      with([](SaveCosts& c) { c.rerun_s.front() = infinite; }),
      with([](SaveCosts& c) { c.price_s.front() = std::nan(""); }),
      with([](SaveCosts& c) { c.price_s.front() = 1e9; }),
      with([](SaveCosts& c) { c.rerun_s.pop_back(); }),
      with([](SaveCosts& c) { c.group_of.pop_back(); }),
  };
  for (const SaveCosts& costs : wrong) {
    CHECK_THROWS_AS((void)cheapest_saves(layer.kind, costs), std::invalid_argument);
  }
}

} // namespace
} // namespace spillway::testing
