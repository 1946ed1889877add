// What every rank of a step has in common: programs, layers, resources, labels.
// Shared by lower.cpp and the emitters.
#pragma once

#include "sim/lower/lower.hpp"
#include "sim/lower/program.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace spillway {

// One layer of the graph, in order: embedding, decoder layers, head.
struct LayerInstance {
  std::uint32_t kind = 0;    // index into Plan::kinds
  std::uint32_t program = 0; // index into StepContext::programs
  std::int64_t position = 0; // inside its loop
  std::int64_t loop_length = 1;
  std::uint32_t block = 0; // index into Plan::blocks
  [[nodiscard]] bool first_of_loop() const { return position == 0; }
  [[nodiscard]] bool last_of_loop() const { return position + 1 == loop_length; }
};

// The layers of the model that share a program.
struct LayersOfProgram {
  std::size_t one = 0;    // of them, as index into StepContext::layers
  std::int64_t count = 0; // those that the graph leaves out included
};

struct StepContext {
  const Scenario& scenario;
  const CostModel& topology; // which resources a collective uses
  Lowered& out;
  TaskGraphBuilder& graph;

  const Plan& plan;
  std::vector<LayerProgram> programs;
  const LeftOut& left_out;
  std::vector<LayerInstance> layers;
  std::vector<LayersOfProgram> layers_of; // by program
  std::map<std::string, std::uint32_t, std::less<>> label_ids;
  std::map<std::string, OwnerId, std::less<>> host_owners;

  [[nodiscard]] std::uint32_t label(const std::string& text);
  // Layers left out that this one stands for: the middle one of its loop for all.
  [[nodiscard]] std::int64_t layers_beside(std::size_t layer) const {
    const LayerInstance& instance = layers[layer];
    return instance.position == instance.loop_length / 2 ? out.layers[layer].left_out : 0;
  }
  [[nodiscard]] const LayerProgram& program_of(std::size_t layer) const {
    return programs[layers[layer].program];
  }
  // `kind`: index into Plan::kinds.
  [[nodiscard]] const LayerKind& kind_at(std::uint32_t kind) const {
    return scenario.trace.kinds[plan.kinds[kind].kind];
  }
  [[nodiscard]] const LayerKind& kind_of(std::size_t layer) const {
    return kind_at(layers[layer].kind);
  }
  // Bytes of one layer's weights of a group in the compute precision, unsharded.
  [[nodiscard]] std::int64_t gathered_bytes(std::size_t layer, std::size_t group) const;
  // Whether a copy of a group's weights is made for use: gathered or cast.
  [[nodiscard]] bool copies_weights(std::size_t layer, std::size_t group) const;
  // Whether a group's casts and gradients come and go matrix by matrix: in a compiled
  // loop, where the rank holds the whole group.
  [[nodiscard]] bool by_matrix(std::size_t group) const;
  // Whether a layer without checkpoint keeps the casts of its weights for backward.
  [[nodiscard]] bool keeps_casts(std::size_t layer) const;
  // Whether each matrix's gradient goes into the stack of all layers as soon as it is
  // there, unreduced.
  [[nodiscard]] bool folds_by_matrix(std::size_t layer, std::size_t group) const;
  // Parameters that one rank holds, all layers and groups.
  [[nodiscard]] double held_parameters() const;
  [[nodiscard]] double loop_parameters() const; // of them, those of layers in loops
  // Resolved: `automatic` means that nothing is held across the backward loop.
  [[nodiscard]] HeadGradient head_gradient() const;
  [[nodiscard]] std::int64_t logit_gradient() const; // bytes, in the compute precision
  // What a layer without checkpoint keeps beside backward's operands.
  [[nodiscard]] std::int64_t unchecked_bytes(std::size_t layer) const;
  // Of a layer's parameters, those for which another layer has made the gradient before:
  // the embedding's table, when the head multiplies with it as well.
  [[nodiscard]] bool gradient_is_there(std::size_t layer, std::size_t group) const;
  [[nodiscard]] double tied_shard() const; // parameters of that table that one rank holds
  // Parameters of one layer and group that one rank holds.
  [[nodiscard]] double shard_parameters(std::size_t layer, std::size_t group) const;
  // Ranks over which a group is sharded.
  [[nodiscard]] RankGroup shard_group(std::size_t group) const {
    return scenario.trace.shard_group[group];
  }
};

// Layers at each end of a loop whose tasks may differ from those in its middle: copies reach
// that far from one layer to another.
[[nodiscard]] inline std::int64_t special_layers(const RuntimeSpec& runtime) {
  return 1 + std::max(runtime.in_flight_layers, runtime.prefetch_layers);
}

// Fills in programs, layers, layers_of and the layers of `out`: one program per run of
// layers of a kind, one more where the last layer differs or where the layer's output
// has another owner.
void make_layers(StepContext& context);

} // namespace spillway
