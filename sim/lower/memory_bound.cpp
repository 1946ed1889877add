#include "sim/lower/memory_bound.hpp"

#include <algorithm>
#include <vector>

namespace spillway {
namespace {

std::int64_t sum_of(const std::vector<OwnerBytes>& list) {
  std::int64_t sum = 0;
  for (const OwnerBytes& entry : list) {
    sum += entry.bytes;
  }
  return sum;
}

// Which exchanges have surely ended when a step of the compute lane runs, and which may have.
class Exchanges {
public:
  explicit Exchanges(const std::vector<ProgramStep>& steps) : steps_(steps) {}

  // What those before or beside compute step `at` have changed at least.
  [[nodiscard]] std::int64_t least_change(std::uint32_t at) const {
    std::int64_t certain = 0;
    std::int64_t possible = 0;
    std::int64_t least_possible = 0;
    const std::uint32_t ended = ended_by(at);
    for (std::uint32_t i = 0; i < steps_.size(); ++i) {
      const ProgramStep& step = steps_[i];
      if (!step.is_collective) {
        continue;
      }
      const std::int64_t change = sum_of(step.allocate) - sum_of(step.release);
      if (i < ended) {
        certain += change;
        continue;
      }
      const bool can_run = std::all_of(step.waits.begin(), step.waits.end(), [&](std::uint32_t w) {
        return w < at || steps_[w].is_collective;
      });
      if (!can_run) {
        break; // nor do those behind it on their lane
      }
      possible += change;
      least_possible = std::min(least_possible, possible);
    }
    return certain + least_possible;
  }

private:
  // Index behind the last exchange that a compute step up to `at` waits for: the lane is in
  // order.
  [[nodiscard]] std::uint32_t ended_by(std::uint32_t at) const {
    std::uint32_t behind = 0;
    for (std::uint32_t i = 0; i <= at; ++i) {
      for (const std::uint32_t wait : steps_[i].waits) {
        if (!steps_[i].is_collective && steps_[wait].is_collective) {
          behind = std::max(behind, wait + 1);
        }
      }
    }
    return behind;
  }

  const std::vector<ProgramStep>& steps_;
};

// Gathered weights, and gradients that are not reduced yet, while a step runs.
class WeightBytes {
public:
  WeightBytes(const Scenario& scenario, const LayerKind& kind,
              const std::vector<ProgramStep>& steps) {
    for (std::size_t g = 0; g < weight_group_count; ++g) {
      if (scenario.trace.shard_group[g].size == 1) {
        continue;
      }
      const std::int64_t bytes = kind.parameters[g] * bytes_per_element(scenario.precision.compute);
      Span weights{0, 0, bytes};
      Span gradients{0, 0, bytes};
      for (std::uint32_t i = 0; i < steps.size(); ++i) {
        weights.mark(steps[i].first_use[g], steps[i].last_use[g], i);
        gradients.mark(steps[i].first_gradient[g], steps[i].last_gradient[g], i);
      }
      spans_.push_back(weights);
      spans_.push_back(gradients);
    }
  }
  [[nodiscard]] std::int64_t at(std::uint32_t step) const {
    std::int64_t sum = 0;
    for (const Span& span : spans_) {
      sum += span.from <= step && step < span.to ? span.bytes : 0;
    }
    return sum;
  }

private:
  struct Span {
    std::uint32_t from, to;
    std::int64_t bytes;
    void mark(bool first, bool last, std::uint32_t step) {
      from = first ? step : from;
      to = last ? step + 1 : to;
    }
  };
  std::vector<Span> spans_;
};

// Of a compiled backward loop.
std::int64_t held_across_backward(const Scenario& scenario, bool offloads) {
  const StepTrace& trace = scenario.trace;
  if (resolve_head_gradient(scenario, offloads) == HeadGradient::early) {
    const LayerKind& embedding = trace.kinds[trace.blocks.front().kind_of(0)];
    return embedding.parameters[0] * bytes_per_element(scenario.precision.compute);
  }
  for (const Tensor& tensor : trace.kinds[trace.blocks.back().kind_of(0)].tensors) {
    if (tensor.role == TensorRole::logits) {
      return tensor.bytes.count();
    }
  }
  return 0;
}

} // namespace

std::int64_t least_fixed_bytes(const Scenario& scenario, bool offloads) {
  const StepTrace& trace = scenario.trace;
  const PrecisionSpec& p = scenario.precision;
  double parameters = 0;
  for (const double sharded : trace.sharded_parameters) {
    parameters += sharded;
  }
  double bytes = parameters * static_cast<double>(p.weights + p.master + p.moment1 + p.moment2);
  if (scenario.framework.gradients_allocated_at_once) {
    double gradients = trace.micro_batches > 1 ? parameters : 0; // their sum
    for (const LayerBlock& block : trace.blocks) {
      for (std::int64_t position = 0; position < block.layers; ++position) {
        const LayerKind& kind = trace.kinds[block.kind_of(position)];
        for (std::size_t g = 0; kind.checkpointed && g < weight_group_count; ++g) {
          gradients += static_cast<double>(kind.parameters[g]) /
                       static_cast<double>(trace.shard_group[g].size);
        }
      }
    }
    bytes += gradients * static_cast<double>(p.gradients) +
             static_cast<double>(held_across_backward(scenario, offloads));
  }
  const Device& device = scenario.device;
  const double outside = (1.0 - scenario.runtime.memory_fraction) * device.memory.value;
  bytes += std::max(0.0, device.context.value - outside);
  constexpr std::int64_t owners_rounded = 8; // each to whole bytes
  return static_cast<std::int64_t>(bytes) - owners_rounded;
}

std::int64_t least_peak(const Scenario& scenario, const LayerKind& kind,
                        const LayerProgram& program, bool reloads) {
  const std::vector<ProgramStep>& steps = program.backward;
  const Exchanges exchanges(steps);
  const WeightBytes weights(scenario, kind, steps);
  const bool rotated = scenario.runtime.rotated; // reloads end before the layer begins
  // The gradient of the layer's output is there from the start.
  std::int64_t held = kind.tensors[kind.output].gradient_bytes.count();
  if (reloads && rotated) {
    for (const OffloadedTensor& offloaded : program.offloaded) {
      held += offloaded.bytes;
    }
  }
  std::int64_t peak = 0;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    if (steps[i].is_collective) {
      continue;
    }
    for (const TensorIndex reloaded : steps[i].reloads) {
      held += !reloads || rotated ? 0 : kind.tensors[reloaded].bytes.count();
    }
    held += sum_of(steps[i].allocate);
    peak = std::max(peak, held + exchanges.least_change(i) + weights.at(i));
    held -= sum_of(steps[i].release);
  }
  return peak;
}

} // namespace spillway
