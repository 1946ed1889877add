// What a user asks for: keep, recompute or offload, per named tensor.
//
//   preset none    everything that backward itself reads is kept
//   preset full    only decoder_layer_input is kept, everything else recomputed
//   preset custom  as full, with fates listed under `tensors`
//   another name   a preset of the framework: as full, but what it lists is saved
//
// Fates under `tensors` override the preset in every kind of layer; those under
// `dense` and `moe` override them in layers of that kind. A tensor that carries
// several names (an expert's gate is moe_mlpwi_0 and mlpwi_0) obeys its most
// specific one that is listed.
//
// `first` lists fates that hold in the model's first decoder layers only. There they are
// stronger than all others: those of its kind of layer first, then its `tensors`.
#pragma once

#include "sim/base/yaml.hpp"
#include "workloads/framework.hpp"
#include "workloads/trace.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

enum class Fate : std::uint8_t { keep, recompute, offload };
[[nodiscard]] const char* fate_name(Fate fate);

enum class Preset : std::uint8_t { none, full, custom };

using Fates = std::map<std::string, Fate, std::less<>>; // by name of the tensor
using FatesByKind = std::map<std::string, Fates, std::less<>>;

struct FirstLayers {
  std::int64_t layers = 0; // decoder layers, embedding and head not counted; 0 = none
  Fates tensors;
  FatesByKind by_kind;
};

struct PolicySpec {
  std::string name;
  Preset preset = Preset::full;
  // Of the framework's preset, if it is one: weaker than everything that is listed below.
  std::string framework_preset;
  Fates preset_tensors;
  std::vector<std::string> preset_leaves; // PresetSpec::leaves
  Fates tensors;
  FatesByKind by_kind;
  std::optional<FirstLayers> first;
};

// `trace` supplies the tensor names and layer kinds that exist.
[[nodiscard]] PolicySpec read_policy(const std::string& name, const YamlNode& node,
                                     const StepTrace& trace, const FrameworkSpec& framework,
                                     Diagnostics& diagnostics);

// Policies that need no list of tensors: none, full and the framework's presets.
[[nodiscard]] std::vector<PolicySpec> preset_policies(const FrameworkSpec& framework);
// A framework's preset as it is, under its own name.
[[nodiscard]] PolicySpec preset_policy(const PresetSpec& preset);

} // namespace spillway
