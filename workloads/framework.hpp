// How a training framework turns operations into kernels: how often each
// element-wise kernel passes over HBM, which names a policy can use, what is
// saved in passing. Numbers live in workloads/frameworks/*.yaml with a source.
#pragma once

#include "sim/base/yaml.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// A number with its provenance, as it appears in a result's assumptions.
struct SourcedNumber {
  double value = 0;
  std::string kind;
  std::string source;
};

// Presets that every framework has (policies/policy.hpp).
inline constexpr std::array<std::string_view, 3> built_in_presets{"none", "full", "custom"};

// A policy that the framework knows by name: everything is recomputed but these.
struct PresetSpec {
  std::string name;
  std::vector<std::string> keep, offload; // names of tensors; those that a model lacks do nothing
  std::vector<std::string> leaves;        // recomputed, though one may think that they are saved
};

struct FrameworkSpec {
  std::string name;
  std::string title;
  // HBM traffic of element-wise kernels in multiples of the tensor they work on.
  SourcedNumber norm_forward, norm_backward; // of the normed tensor
  SourcedNumber residual_add;                // of the residual stream
  SourcedNumber rotary;                      // of the rotated tensor, each direction
  SourcedNumber activation_forward;          // of the up tensor
  SourcedNumber activation_backward;         // gate and up kept: rebuilds the product as well
  SourcedNumber activation_backward_rerun;   // gate and up re-run, product rebuilt before
  SourcedNumber permute;                     // of the routed rows, each direction
  SourcedNumber combine;                     // of what the weighted sum reads and writes
  // More traffic of the routed rows, each direction, where rows are added in place.
  SourcedNumber scatter_add;
  SourcedNumber embedding;                         // of the residual stream, each direction
  SourcedNumber loss_forward, loss_backward;       // bytes per logit
  SourcedNumber logit_bytes, logit_gradient_bytes; // memory per logit
  SourcedNumber saved_write;                       // of a tensor that is kept for backward
  SourcedNumber stack_fill;                        // of all kept tensors, once a micro-batch
  // Without checkpoint the compiler keeps more than backward's operands, per layer:
  SourcedNumber unchecked_stream;     // in multiples of the residual stream
  SourcedNumber unchecked_norm;       // of what norms of the stream's width read
  SourcedNumber unchecked_activation; // of gate, up and product
  SourcedNumber unchecked_weights;    // of the layer's weights in the compute precision
  SourcedNumber unchecked_fill;       // traffic to prepare all that it keeps, per byte
  SourcedNumber unchecked_read;       // traffic to get it back, per byte
  SourcedNumber step_gap;             // seconds between two steps
  SourcedNumber reload_at_top_above;  // pipelined: more offloaded names than this start
                                      // their reload at the top of the iteration
  bool eager = false; // runs op by op with copy streams; else a compiled loop over layers
  bool softmax_statistics_saved = false; // with the attention output
  // Order of a layer's backward: everything to re-run first, weight gradients last;
  // else each re-run before its first use and weight gradients beside their input's.
  bool compiled_order = false;
  bool gradients_allocated_at_once = true; // before backward; else layer by layer
  bool runs_profiles = false;              // measured steps come from it unless said otherwise
  std::vector<std::string> policy_names;   // empty: any tensor can be named
  std::vector<PresetSpec> presets;
};

// Every number with its key, in the order of the file.
struct NamedNumber {
  const char* key;
  SourcedNumber FrameworkSpec::*member;
};
[[nodiscard]] std::span<const NamedNumber> framework_numbers();

[[nodiscard]] FrameworkSpec read_framework(const YamlNode& node, Diagnostics& diagnostics);

} // namespace spillway
