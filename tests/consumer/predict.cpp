// predict CATALOGUE SCENARIO: all libraries at work, with the installed catalogue.
#include "results/simulate.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  const spillway::Catalog catalog({argv[1]});
  const spillway::Scenario scenario = spillway::load_scenario(catalog, argv[2]);
  spillway::RateCache cache;
  for (const spillway::PolicySpec& policy : scenario.policies) {
    if (spillway::simulate(scenario, policy, cache).result.verdict == spillway::Verdict::fits) {
      return 0;
    }
  }
  return 1;
}
