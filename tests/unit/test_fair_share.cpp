#include "sim/engine/fair_share.hpp"

#include "tests/support/random_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

namespace spillway {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

struct Flow {
  std::vector<Use> uses;
  double rate_limit = unlimited;
};

std::vector<FlowShare> solve(const std::vector<double>& capacities,
                             const std::vector<Flow>& flows) {
  std::vector<Resource> resources;
  for (const double capacity : capacities) {
    resources.push_back({"", capacity});
  }
  std::vector<FlowDemand> demands;
  for (const Flow& flow : flows) {
    demands.push_back({flow.uses, flow.rate_limit});
  }
  FairShareSolver solver(resources.size());
  std::vector<FlowShare> shares;
  solver.solve(demands, resources, shares);
  return shares;
}

TEST_CASE("a flow alone gets the smallest of its limit and capacity over weight") {
  // 12 / 4 = 3 on resource 1 is below 10 / 1 on resource 0.
  const std::vector<Use> route{{0, 1}, {1, 4}};
  std::vector<FlowShare> shares = solve({10, 12}, {{route, unlimited}});
  CHECK(shares[0].rate == 3);
  CHECK(shares[0].bound_by == 1);

  shares = solve({10, 12}, {{route, 2.5}});
  CHECK(shares[0].rate == 2.5);
  CHECK(shares[0].bound_by == no_id);
}

// The example of fair_share.hpp: at rate 4 memory is full, 1 * 4 + 2 * 4 = 12.
TEST_CASE("the fuller of two resources binds both flows") {
  const std::vector<FlowShare> shares = solve({10, 12}, {{{{0, 1}, {1, 1}}}, {{{1, 2}}}});
  CHECK(shares[0].rate == 4);
  CHECK(shares[1].rate == 4);
  CHECK(shares[0].bound_by == 1);
  CHECK(shares[1].bound_by == 1);
}

// Three flows on 12: all could have 4, the limited one takes 1, so that the two
// others share 11.
TEST_CASE("what a limited flow leaves goes to the others") {
  const std::vector<FlowShare> shares = solve({12}, {{{{0, 1}}}, {{{0, 1}}, 1}, {{{0, 1}}}});
  CHECK(shares[0].rate == 5.5);
  CHECK(shares[1].rate == 1);
  CHECK(shares[1].bound_by == no_id);
  CHECK(shares[2].rate == 5.5);
  CHECK(shares[2].bound_by == 0);
}

// Resource 0 (capacity 2) fills at 1 with flows a and b. Then b uses 1 of the 10 of
// resource 1, which leaves 9 to c alone.
TEST_CASE("a flow is held up by its first bottleneck only") {
  const std::vector<FlowShare> shares =
      solve({2, 10}, {{{{0, 1}}}, {{{0, 1}, {1, 1}}}, {{{1, 1}}}});
  CHECK(shares[0].rate == 1);
  CHECK(shares[1].rate == 1);
  CHECK(shares[1].bound_by == 0);
  CHECK(shares[2].rate == 9);
  CHECK(shares[2].bound_by == 1);
}

// Both resources fill at rate 4, the route names resource 1 first.
TEST_CASE("of two resources that fill up at once the first on the route binds") {
  const std::vector<FlowShare> shares = solve({4, 8}, {{{{1, 2}, {0, 1}}}});
  CHECK(shares[0].rate == 4);
  CHECK(shares[0].bound_by == 1);
}

// 8 / 2 = 4 is both the share and the limit: without the other flow it would not
// be faster.
TEST_CASE("a limit that equals the share counts as the limit") {
  const std::vector<FlowShare> shares = solve({8}, {{{{0, 1}}, 4}, {{{0, 1}}}});
  CHECK(shares[0].bound_by == no_id);
  CHECK(shares[1].rate == 4);
  CHECK(shares[1].bound_by == 0);
}

TEST_CASE("a flow without uses runs at its limit") {
  const std::vector<FlowShare> shares = solve({8}, {{{}, 3}, {{{0, 1}}}});
  CHECK(shares[0].rate == 3);
  CHECK(shares[0].bound_by == no_id);
  CHECK(shares[1].rate == 8);
}

TEST_CASE("a flow with neither uses nor a limit is an internal error") {
  CHECK_THROWS_WITH_AS(static_cast<void>(solve({8}, {{{}, unlimited}})),
                       "a flow has neither a resource nor a rate limit", std::logic_error);
}

// 1 + 1e-20 is 1 in double precision. Subtracting the heavy flow's weight from the
// sum would leave 0 for the light flow and divide by it.
TEST_CASE("a tiny weight beside a large one does not break the solver") {
  const std::vector<FlowShare> shares = solve({1, 1e-20}, {{{{0, 1}}, 0.5}, {{{0, 1e-20}}}});
  CHECK(shares[0].rate == 0.5);
  CHECK(shares[1].rate == doctest::Approx(0.5e20));
}

TEST_CASE("a solver can be used again for other flows") {
  const std::vector<Resource> resources{{"a", 6}, {"b", 9}};
  const std::vector<Use> a{{0, 1}};
  const std::vector<Use> b{{1, 1}};
  FairShareSolver solver(2);
  std::vector<FlowShare> shares;
  solver.solve(std::vector<FlowDemand>{{a, unlimited}, {a, unlimited}, {b, unlimited}}, resources,
               shares);
  CHECK(shares.size() == 3);
  CHECK(shares[0].rate == 3);
  solver.solve(std::vector<FlowDemand>{{a, unlimited}}, resources, shares);
  CHECK(shares.size() == 1);
  CHECK(shares[0].rate == 6);
}

// Rates are max-min fair exactly when no resource is over its capacity and each
// flow either has its limit or crosses a full resource on which no flow is faster.
// This says nothing about how the rates were found.
TEST_CASE("random rates carry the certificate of max-min fairness") {
  constexpr double tolerance = 1e-9;
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    std::vector<double> capacities;
    for (std::int64_t i = random.integer(1, 5); i > 0; --i) {
      capacities.push_back(random.real(0.5, 20));
    }
    std::vector<Flow> flows;
    for (std::int64_t i = random.integer(1, 10); i > 0; --i) {
      Flow flow;
      flow.rate_limit = random.one_in(3) ? random.real(0.01, 10) : unlimited;
      for (ResourceId resource = 0; resource < capacities.size(); ++resource) {
        if (random.one_in(2)) {
          flow.uses.push_back({resource, random.real(0.01, 5)});
        }
      }
      if (flow.uses.empty()) {
        flow.rate_limit = 1;
      }
      flows.push_back(flow);
    }
    const std::vector<FlowShare> shares = solve(capacities, flows);

    std::vector<double> used(capacities.size(), 0.0);
    std::vector<double> fastest(capacities.size(), 0.0);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      for (const Use& use : flows[i].uses) {
        used[use.resource] += use.weight * shares[i].rate;
        fastest[use.resource] = std::max(fastest[use.resource], shares[i].rate);
      }
    }
    for (std::size_t r = 0; r < capacities.size(); ++r) {
      REQUIRE(used[r] <= capacities[r] * (1 + tolerance));
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const ResourceId bound_by = shares[i].bound_by;
      REQUIRE(shares[i].rate > 0);
      REQUIRE(shares[i].rate <= flows[i].rate_limit);
      if (bound_by == no_id) {
        REQUIRE(shares[i].rate == flows[i].rate_limit);
      } else {
        REQUIRE(std::any_of(flows[i].uses.begin(), flows[i].uses.end(),
                            [&](const Use& use) { return use.resource == bound_by; }));
        REQUIRE(used[bound_by] >= capacities[bound_by] * (1 - tolerance));
        REQUIRE(shares[i].rate >= fastest[bound_by] * (1 - tolerance));
      }
    }
  }
}

} // namespace
} // namespace spillway
