#include "sim/lower/runtime_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace spillway {
namespace {

const std::array<std::string, 4> schedule_names{"serialized", "loop_bound", "pipelined",
                                                "streamed"};
const std::array<std::string, 3> state_names{"none", "fp32", "bf16"};
constexpr std::array<std::int64_t, 3> state_bytes{0, 4, 2};
constexpr IntegerRange count_range{1, 1'000'000};

// A schedule follows from the framework's switches; an explicit one wins, but
// not against what the switches make impossible.
CopySchedule schedule_of(MapReader& in, const FrameworkSpec& framework, RuntimeSpec& spec) {
  for (const char* key : {"command_buffers", "pipelined_host_offloading"}) {
    if (framework.eager && in.has(key)) {
      in.error(key,
               fmt::format("'{}' is a switch of XLA, not of framework '{}'", key, framework.name));
    }
  }
  const bool command_buffers = in.boolean_or("command_buffers", false);
  const bool rotated = in.boolean_or("pipelined_host_offloading", true);
  const CopySchedule derived = framework.eager   ? CopySchedule::streamed
                               : command_buffers ? CopySchedule::serialized
                               : rotated         ? CopySchedule::pipelined
                                                 : CopySchedule::loop_bound;
  const auto schedule = static_cast<CopySchedule>(
      in.choice_or("schedule", schedule_names, static_cast<std::size_t>(derived)));
  if (schedule == derived) {
    return schedule;
  }
  if (command_buffers) {
    in.error("schedule",
             fmt::format("'command_buffers: true' serializes copies, but 'schedule' is {}",
                         schedule_name(schedule)),
             "set command_buffers: false, or schedule: serialized");
  } else if (!rotated && schedule == CopySchedule::pipelined) {
    in.error("schedule", "schedule pipelined needs 'pipelined_host_offloading: true'",
             "or set schedule: loop_bound");
  } else {
    spec.notes.push_back(fmt::format("schedule {} was set; the framework's switches mean {}",
                                     schedule_name(schedule), schedule_name(derived)));
  }
  return schedule;
}

} // namespace

const char* schedule_name(CopySchedule schedule) {
  return schedule_names[static_cast<std::size_t>(schedule)].c_str();
}

PrecisionSpec read_precision(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> compute_names{"bf16"};
  MapReader in(node, "precision", diagnostics);
  PrecisionSpec spec;
  static_cast<void>(in.choice_or("compute", compute_names, 0));
  static_cast<void>(in.choice_or("saved", compute_names, 0));
  const auto state = [&](const char* key, std::int64_t fallback, bool may_be_none) {
    const std::span<const std::string> names = std::span(state_names).subspan(may_be_none ? 0 : 1);
    if (!in.has(key)) {
      return fallback;
    }
    return state_bytes[in.choice(key, names) + (may_be_none ? 0 : 1)];
  };
  spec.weights = state("weights", spec.weights, false);
  spec.gradients = state("gradients", spec.gradients, false);
  spec.master = state("master", spec.master, true);
  spec.moment1 = state("moment1", spec.moment1, true);
  spec.moment2 = state("moment2", spec.moment2, true);
  in.finish();
  return spec;
}

RuntimeSpec read_runtime(const YamlNode& node, const FrameworkSpec& framework, BatchSpec& batch,
                         Diagnostics& diagnostics) {
  static const std::array<std::string, 2> collective_names{"overlapped", "exposed"};
  static const std::array<std::string, 3> head_names{"automatic", "early", "late"};
  MapReader in(node, "runtime", diagnostics);
  RuntimeSpec spec;
  in.accept("framework");
  spec.schedule = schedule_of(in, framework, spec);
  spec.rotated = spec.schedule == CopySchedule::pipelined ||
                 (spec.schedule == CopySchedule::serialized &&
                  in.boolean_or("pipelined_host_offloading", true));
  const bool hiding = in.boolean_or("latency_hiding_scheduler", true);
  spec.overlap_collectives = in.choice_or("collectives", collective_names, hiding ? 0 : 1) == 0;
  spec.async_compute_limit = in.integer_or("async_compute_limit", {1, 1024}, 8);
  spec.memory_fraction = in.number_or("memory_fraction", {0.0, 1.0, true}, 1.0);
  if (in.has("host_memory_limit")) {
    spec.host_memory_limit = in.quantity("host_memory_limit", Dimension::bytes, {0.0, 1e18, true});
  }
  spec.head_gradient = static_cast<HeadGradient>(in.choice_or("head_gradient", head_names, 0));
  batch.loss_chunks = in.integer_or("loss_chunks", {1, 65'536}, 1);
  if (in.has("head_gradient") && framework.eager) {
    in.error("head_gradient", fmt::format("'head_gradient' is the order of a compiled step; "
                                          "framework '{}' uses gradients at once",
                                          framework.name));
  } else if (spec.head_gradient == HeadGradient::late && batch.loss_chunks > 1) {
    in.error("head_gradient", "head_gradient late keeps whole logits, but 'loss_chunks' is above 1",
             "use loss_chunks: 1, or head_gradient: early");
  }
  for (const char* key : {"prefetch_layers", "in_flight_layers", "offload_last_layer"}) {
    if (in.has(key) && spec.schedule != CopySchedule::streamed) {
      in.error(key, fmt::format("'{}' applies to schedule streamed, not {}", key,
                                schedule_name(spec.schedule)));
    }
  }
  spec.prefetch_layers = in.integer_or("prefetch_layers", {1, 1000}, 1);
  spec.in_flight_layers = in.integer_or("in_flight_layers", {1, 1000}, 1);
  spec.offload_last_layer = in.boolean_or("offload_last_layer", true);
  in.finish();
  return spec;
}

ParallelPlan read_parallel(MapReader& scenario, Diagnostics& diagnostics) {
  const std::size_t mistakes = diagnostics.count();
  ParallelPlan plan;
  plan.gpus = scenario.integer("gpus", count_range);
  const YamlNode* node = scenario.child("parallel");
  if (node == nullptr) {
    plan.fsdp = plan.gpus;
    return plan;
  }
  MapReader in(*node, "parallel", diagnostics);
  plan.expert = in.integer_or("expert", count_range, 1);
  plan.fsdp =
      in.integer_or("fsdp", count_range, std::max<std::int64_t>(1, plan.gpus / plan.expert));
  in.finish();
  if (diagnostics.count() == mistakes && plan.fsdp * plan.expert != plan.gpus) {
    scenario.error("gpus",
                   fmt::format("{} GPUs cannot be split into fsdp {} x expert {}", plan.gpus,
                               plan.fsdp, plan.expert),
                   fmt::format("gpus must equal the product, {}", plan.fsdp * plan.expert));
  }
  return plan;
}

BatchSpec read_batch(const YamlNode& node, Diagnostics& diagnostics) {
  MapReader in(node, "batch", diagnostics);
  BatchSpec batch;
  batch.micro = in.integer("micro", {1, 65'536});
  batch.accumulation = in.integer_or("accumulation", {1, 4096}, 1);
  batch.sequence = in.integer("sequence", {1, 16'777'216});
  in.finish();
  return batch;
}

double read_routing_imbalance(const YamlNode& node, Diagnostics& diagnostics) {
  MapReader in(node, "routing", diagnostics);
  const double imbalance = in.number_or("imbalance", {1.0, 1e6}, 1.0);
  in.finish();
  return imbalance;
}

CopySchedule copy_places(const RuntimeSpec& runtime) {
  if (runtime.schedule != CopySchedule::serialized) {
    return runtime.schedule;
  }
  return runtime.rotated ? CopySchedule::pipelined : CopySchedule::loop_bound;
}

} // namespace spillway
