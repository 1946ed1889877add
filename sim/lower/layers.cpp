#include "sim/lower/step_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

// The last decoder layer's tensors are needed again at once; some runtimes keep them.
KindPlan with_offloads_kept(const KindPlan& plan) {
  KindPlan kept = plan;
  for (TensorDecision& decision : kept.tensors) {
    if (decision.fate == Fate::offload) {
      decision.fate = Fate::keep;
    }
  }
  return kept;
}

// Makes the programs of layers, one for all layers that are alike.
class ProgramMaker {
public:
  explicit ProgramMaker(StepContext& context) : context_(context) {
    for (const LayerBlock& block : context.plan.blocks) {
      total_ += block.layers;
    }
  }

  // `layer`: over all layers; `next_kind`: of the layer after it.
  [[nodiscard]] std::uint32_t program_of(std::int64_t layer, std::uint32_t kind,
                                         std::uint32_t next_kind) {
    const Plan& plan = context_.plan;
    const KindPlan next_plan =
        is_kept(layer + 1) ? with_offloads_kept(plan.kinds[next_kind]) : plan.kinds[next_kind];
    const HbmOwner output = layer + 1 == total_
                                ? HbmOwner::workspace
                                : input_owner(context_.kind_at(next_kind), next_plan);
    const Variant variant{kind, is_kept(layer), output};
    const auto found = std::find_if(made_.begin(), made_.end(), [&](const Variant& v) {
      return v.kind == variant.kind && v.kept == variant.kept && v.output == variant.output;
    });
    const auto program = static_cast<std::uint32_t>(found - made_.begin());
    if (program == made_.size()) {
      const KindPlan& own = plan.kinds[kind];
      context_.programs.push_back(make_program(context_.kind_at(kind),
                                               variant.kept ? with_offloads_kept(own) : own, output,
                                               context_.scenario.framework, context_.out.works));
      context_.layers_of.emplace_back();
      made_.push_back(variant);
    }
    return program;
  }

private:
  struct Variant {
    std::uint32_t kind;
    bool kept;
    HbmOwner output;
  };
  [[nodiscard]] bool is_kept(std::int64_t layer) const {
    return !context_.scenario.runtime.offload_last_layer && layer + 2 == total_;
  }

  StepContext& context_;
  std::int64_t total_ = 0;
  std::vector<Variant> made_;
};

std::string layer_name(const LayerKind& kind, std::int64_t index) {
  return kind.checkpointed ? fmt::format("layer {} ({})", index - 1, kind.title()) : kind.name;
}

} // namespace

void make_layers(StepContext& context) {
  const std::vector<LayerBlock>& blocks = context.plan.blocks;
  ProgramMaker programs(context);
  std::int64_t index = 0; // over all layers
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const LayerBlock& block = blocks[b];
    const std::int64_t left_out = context.left_out.layers.empty() ? 0 : context.left_out.layers[b];
    const std::int64_t held = block.layers - left_out;
    const std::int64_t gap_at = held / 2; // inside the block, where all layers are alike
    for (std::int64_t position = 0; position < block.layers; ++position, ++index) {
      const bool last_of_block = position + 1 == block.layers;
      const std::uint32_t kind = block.kind_of(position);
      const std::uint32_t next_kind = last_of_block && b + 1 < blocks.size()
                                          ? blocks[b + 1].kind_of(0)
                                          : block.kind_of(position + 1);
      const std::uint32_t program = programs.program_of(index, kind, next_kind);
      ++context.layers_of[program].count;
      context.out.layer_names.push_back(layer_name(context.kind_at(kind), index));
      if (position >= gap_at && position < gap_at + left_out) {
        continue;
      }
      const std::int64_t here = position < gap_at ? position : position - left_out;
      context.layers_of[program].one = context.layers.size();
      context.layers.push_back({kind, program, here, held, static_cast<std::uint32_t>(b)});
      context.out.layers.push_back({static_cast<std::int32_t>(index - position + here),
                                    static_cast<std::int32_t>(left_out)});
    }
  }
}

} // namespace spillway
