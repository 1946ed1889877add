#include "results/what_if.hpp"

#include "results/variation.hpp"

#include <algorithm>

namespace spillway {
namespace {

// More Watts for the same work: what is drawn as a share of the limit shrinks, and the
// rate of products that alone draw all of it grows. With idle share i, the energy per
// flop (1 - i) limit / rate stays.
void raise_power_limit(ClockRule& rule, double factor) {
  const double idle = rule.idle_power.value;
  rule.limit_rate.value *= (factor - idle) / (1 - idle);
  for (Coefficient* share : {&rule.attention_power, &rule.memory_power, &rule.idle_power}) {
    share->value /= factor;
  }
}

std::vector<Variation> resources_of(const Device& device, double factor) {
  std::vector<Variation> list;
  const auto rate = [&](const char* name, Coefficient Device::*member) {
    list.push_back({name, [=](Device& d) { (d.*member).value *= factor; }, std::nullopt, 1});
  };
  rate("D2H link", &Device::d2h_rate);
  rate("H2D link", &Device::h2d_rate);
  if (device.duplex_rate) {
    list.push_back({"host link in both directions",
                    [=](Device& d) { d.duplex_rate->value *= factor; }, std::nullopt, 1});
  }
  rate("copies done by kernels", &Device::peeled_copy_rate);
  rate("CPU memory", &Device::host_pool_rate);
  rate("scale-up link", &Device::scale_up_rate);
  rate("NIC", &Device::scale_out_rate);
  rate("HBM", &Device::hbm_rate);
  rate("matrix products", &Device::matmul_derate);
  rate("attention", &Device::attention_derate);
  list.push_back(
      {"kernel launch", [=](Device& d) { d.kernel_overhead.value /= factor; }, std::nullopt, 1});
  if (device.clock) {
    list.push_back(
        {power_limit, [=](Device& d) { raise_power_limit(*d.clock, factor); }, std::nullopt, 1});
  }
  return list;
}

} // namespace

WhatIf what_if_faster(const Scenario& scenario, const Simulation& run, const RateCache& cache,
                      std::int64_t percent, unsigned threads) {
  const double factor = 1 + static_cast<double>(percent) / 100;
  const std::vector<Variation> variations = resources_of(scenario.device, factor);
  const std::vector<SimTime> times = step_times(scenario, run, variations, cache, threads);
  WhatIf what_if;
  what_if.percent = percent;
  what_if.step = run.timeline.makespan;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] == what_if.step) {
      what_if.unchanged.push_back(variations[i].name);
    } else {
      what_if.changed.push_back({variations[i].name, times[i]});
    }
  }
  std::stable_sort(
      what_if.changed.begin(), what_if.changed.end(),
      [](const FasterResource& a, const FasterResource& b) { return a.step < b.step; });
  return what_if;
}

} // namespace spillway
