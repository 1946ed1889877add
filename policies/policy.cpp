#include "policies/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace spillway {
namespace {

const std::array<std::string, 3> fate_names{"keep", "recompute", "offload"};

std::vector<std::string> names_in(const LayerKind& kind) {
  std::vector<std::string> names;
  for (const Tensor& tensor : kind.tensors) {
    for (const std::string& name : tensor.policy_names) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

std::map<std::string, Fate, std::less<>> read_fates(MapReader& in,
                                                    const std::vector<std::string>& known,
                                                    const std::string& where,
                                                    Diagnostics& diagnostics) {
  std::map<std::string, Fate, std::less<>> fates;
  const YamlNode* tensors = in.child("tensors");
  if (tensors == nullptr) {
    return fates;
  }
  if (!tensors->is_map()) {
    in.error("tensors", "'tensors' must be a map of tensor names to keep, recompute or offload");
    return fates;
  }
  MapReader map(*tensors, "tensors", diagnostics);
  for (const YamlEntry& entry : tensors->entries) {
    const auto fate = static_cast<Fate>(map.choice(entry.key, fate_names));
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      diagnostics.add(entry.key_place, fmt::format("unknown tensor '{}' in {}", entry.key, where),
                      suggestion(entry.key, known));
    } else if (entry.key == "decoder_layer_input" && fate == Fate::recompute) {
      diagnostics.add(entry.key_place, "'decoder_layer_input' cannot be recomputed",
                      "a layer is recomputed from it: keep or offload it");
    }
    fates.emplace(entry.key, fate);
  }
  return fates;
}

PolicySpec read_preset(MapReader& in, const FrameworkSpec& framework) {
  std::vector<std::string> names(built_in_presets.begin(), built_in_presets.end());
  for (const PresetSpec& preset : framework.presets) {
    names.push_back(preset.name);
  }
  const std::size_t chosen = in.choice("preset", names);
  if (chosen >= built_in_presets.size()) {
    return preset_policy(framework.presets[chosen - built_in_presets.size()]);
  }
  PolicySpec spec;
  spec.preset = static_cast<Preset>(chosen);
  return spec;
}

} // namespace

const char* fate_name(Fate fate) {
  return fate_names[static_cast<std::size_t>(fate)].c_str();
}

std::vector<PolicySpec> preset_policies(const FrameworkSpec& framework) {
  std::vector<PolicySpec> policies;
  for (const Preset preset : {Preset::none, Preset::full}) {
    PolicySpec& policy = policies.emplace_back();
    policy.name = built_in_presets[static_cast<std::size_t>(preset)];
    policy.preset = preset;
  }
  for (const PresetSpec& preset : framework.presets) {
    policies.push_back(preset_policy(preset));
  }
  return policies;
}

PolicySpec preset_policy(const PresetSpec& preset) {
  PolicySpec spec;
  spec.name = spec.framework_preset = preset.name;
  spec.preset_leaves = preset.leaves;
  for (const std::string& tensor : preset.keep) {
    spec.preset_tensors.emplace(tensor, Fate::keep);
  }
  for (const std::string& tensor : preset.offload) {
    spec.preset_tensors.emplace(tensor, Fate::offload);
  }
  return spec;
}

PolicySpec read_policy(const std::string& name, const YamlNode& node, const StepTrace& trace,
                       const FrameworkSpec& framework, Diagnostics& diagnostics) {
  MapReader in(node, name, diagnostics);
  PolicySpec spec = read_preset(in, framework);
  spec.name = name;
  std::vector<std::string> known;
  for (const LayerKind& kind : trace.kinds) {
    if (!kind.checkpointed) {
      continue;
    }
    for (const std::string& tensor : names_in(kind)) {
      if (std::find(known.begin(), known.end(), tensor) == known.end()) {
        known.push_back(tensor);
      }
    }
    const YamlNode* own = in.child(kind.name);
    if (own != nullptr && spec.by_kind.find(kind.name) == spec.by_kind.end()) {
      MapReader map(*own, kind.name, diagnostics);
      spec.by_kind[kind.name] =
          read_fates(map, names_in(kind), fmt::format("'{}' layers", kind.name), diagnostics);
      map.finish();
    }
  }
  spec.tensors = read_fates(in, known, "this model", diagnostics);
  if (spec.preset == Preset::custom && spec.tensors.empty() &&
      std::all_of(spec.by_kind.begin(), spec.by_kind.end(),
                  [](const auto& kind) { return kind.second.empty(); })) {
    in.error("preset", fmt::format("policy '{}' is custom but lists no tensors", name),
             "add 'tensors', or use preset full or none");
  }
  in.finish();
  return spec;
}

} // namespace spillway
