// The published jobs, end to end: what fits, what is faster, how much is held.
#include "results/report_text.hpp"
#include "tests/support/step.hpp"

#include <doctest/doctest.h>

using namespace spillway;
using namespace spillway::testing;

namespace {

const std::string main_job = "deepseek-v3-gb200";
const std::string pcie_job = "deepseek-v3-h200";

Verdict verdict(const std::string& scenario, const std::string& policy,
                const std::vector<std::string>& assignments = {}) {
  return run(catalogue(scenario, assignments), policy).result.verdict;
}

double exposed_offload(const RunResult& result) {
  return result.time[static_cast<std::size_t>(TimeBin::exposed_offload)];
}

} // namespace

TEST_CASE("Kept on the device the activations fit at micro-batch 2, not at 4 or 8") {
  CHECK(verdict(main_job, "save", {"batch.micro=2"}) == Verdict::fits);
  CHECK(verdict(main_job, "save", {"batch.micro=4"}) == Verdict::hbm_oom);
  CHECK(verdict(main_job, "save", {"batch.micro=8"}) == Verdict::hbm_oom);
}

TEST_CASE("Recomputed or offloaded the activations fit at micro-batch 8") {
  CHECK(verdict(main_job, "remat") == Verdict::fits);
  CHECK(verdict(main_job, "offload") == Verdict::fits);
}

TEST_CASE("A run that does not fit names the largest micro-batch that does") {
  const Scenario scenario = catalogue(main_job);
  const std::string text = run_text(scenario, run(scenario, "save"));
  CHECK(text.starts_with("policy save: hbm_oom, out of HBM: "));
  std::int64_t fits = largest_fitting_micro_batch(scenario, "save");
  CHECK(fits >= 2);
  CHECK(fits < 4);
  CHECK(text.find("\n  it fits with --set batch.micro=" + std::to_string(fits) + " (now 8)\n") !=
        std::string::npos);
}

// Query of 61 layers: 8 x 4096 tokens x 128 heads x 192 x 2 bytes. Gate and up of
// 58 layers with experts: 8 x 4096 x 8 rows x 2048 x 2 bytes each. All of it is
// on the host when forward ends.
TEST_CASE("The host holds every offloaded tensor of every layer") {
  const std::int64_t tokens = std::int64_t{8} * 4096;
  const std::int64_t query = tokens * 128 * 192 * 2;
  const std::int64_t gate = tokens * 8 * 2048 * 2;
  const std::int64_t sum = 61 * query + 58 * 2 * gate;
  CHECK(sum == 222'801'428'480);
  const RunResult result = run(catalogue(main_job), "offload").result;
  CHECK(result.peak_host_bytes == sum);
  CHECK(result.d2h_bytes == sum);
  CHECK(result.h2d_bytes == sum);
  std::int64_t owners = 0;
  for (const auto& [name, bytes] : result.host_owners) {
    owners += bytes;
    CHECK(bytes == (name == "query_proj" ? 61 * query : 58 * gate));
  }
  CHECK(result.host_owners.size() == 3);
  CHECK(owners == sum);
}

// 223 GB do not fit into 64 GB, but into the 240 GB that are the GPU's share.
TEST_CASE("Too little pinned host memory is a verdict that names pool and setting") {
  const Scenario scenario = catalogue(main_job, {"runtime.host_memory_limit=64 GB"});
  const Simulation simulation = run(scenario, "offload");
  CHECK(simulation.result.verdict == Verdict::host_oom);
  CHECK(simulation.result.host_limit_bytes == 64'000'000'000);
  CHECK(run_text(scenario, simulation)
            .starts_with("policy offload: host_oom, out of pinned host memory: 222.8 GB per GPU "
                         "needed, 64 GB there, 158.8 GB short\n"
                         "  the limit is the setting runtime.host_memory_limit; the CPU memory's "
                         "share is 240 GB per GPU\n"
                         "  it fits with --set runtime.host_memory_limit=\"223 GB\"\n"));
  CHECK(verdict(main_job, "offload", {"runtime.host_memory_limit=223 GB"}) == Verdict::fits);
}

// A CPU of 300 GB leaves each of its two GPUs 150 GB.
TEST_CASE("Too small a CPU is a verdict that names the share") {
  const Scenario scenario = catalogue(main_job, {"hardware.host.memory_per_cpu=300 GB"});
  const Simulation simulation = run(scenario, "offload");
  CHECK(simulation.result.verdict == Verdict::host_oom);
  CHECK(simulation.result.host_limit_bytes == 150'000'000'000);
  const std::string text = run_text(scenario, simulation);
  CHECK(text.find("\n  the limit is this GPU's share of its CPU's memory\n") != std::string::npos);
  // Bytes are proportional to the micro-batch: 222.8 GB x 5 / 8 = 139.3 GB fits.
  CHECK(text.find("\n  it fits with --set batch.micro=5 (now 8)\n") != std::string::npos);
}

TEST_CASE("Over the chip-to-chip link offload beats recomputation under the same scheduler") {
  for (const char* collectives : {"overlapped", "exposed"}) {
    CAPTURE(collectives);
    const Scenario scenario =
        catalogue(main_job, {std::string("runtime.collectives=") + collectives});
    const RunResult remat = run(scenario, "remat").result;
    const RunResult offload = run(scenario, "offload").result;
    CHECK(offload.step_time_s < remat.step_time_s);
    CHECK(offload.model_tflops_per_gpu > remat.model_tflops_per_gpu);
    // The same model on both sides: rates and times are inverse.
    CHECK(offload.model_tflops_per_gpu / remat.model_tflops_per_gpu ==
          doctest::Approx(remat.step_time_s / offload.step_time_s));
  }
}

TEST_CASE("Over PCIe offload is exposed and slower than recomputation") {
  const Scenario scenario = catalogue(pcie_job);
  const RunResult remat = run(scenario, "remat").result;
  const RunResult offload = run(scenario, "offload").result;
  CHECK(offload.step_time_s > remat.step_time_s);
  CHECK(exposed_offload(offload) > 0.1 * offload.step_time_s);
  REQUIRE(offload.offload_hidden_fraction);
  CHECK(*offload.offload_hidden_fraction < 0.9);
}

TEST_CASE("The PCIe job runs at the largest micro-batch that recomputation fits") {
  const std::int64_t micro = catalogue(pcie_job).batch.micro;
  CHECK(verdict(pcie_job, "remat") == Verdict::fits);
  CHECK(verdict(pcie_job, "remat", {"batch.micro=" + std::to_string(micro + 1)}) ==
        Verdict::hbm_oom);
}

TEST_CASE("Offloading query, key and value gains on the dense model when pipelined") {
  const Scenario scenario = catalogue("llama-3.1-405b-gb200");
  const auto time = [&](const std::string& policy) {
    return run(scenario, policy).result.step_time_s;
  };
  CHECK(time("offload") < time("remat"));
  CHECK(time("offload_qkv") < time("remat_qkv"));
}
