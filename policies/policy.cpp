#include "policies/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

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

Fates read_fates(MapReader& in, const std::vector<std::string>& known, const std::string& where,
                 Diagnostics& diagnostics) {
  Fates fates;
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

// `tensors`, and a map for each kind of layer of the model.
void read_lists(MapReader& in, const StepTrace& trace, Fates& tensors, FatesByKind& by_kind,
                Diagnostics& diagnostics) {
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
    if (own != nullptr && by_kind.find(kind.name) == by_kind.end()) {
      MapReader map(*own, kind.name, diagnostics);
      by_kind[kind.name] =
          read_fates(map, names_in(kind), fmt::format("'{}' layers", kind.name), diagnostics);
      map.finish();
    }
  }
  tensors = read_fates(in, known, "this model", diagnostics);
}

// A number of layers, or "50 %" of all of them.
std::int64_t read_layers(const YamlNode& node, std::int64_t all, Diagnostics& diagnostics) {
  if (!node.is_scalar() || !node.text.ends_with('%')) {
    const std::int64_t layers = read_integer(node, {}, "layers", diagnostics).value_or(0);
    if (layers < 0 || layers > all) {
      diagnostics.add(node.place,
                      fmt::format("'layers' must be between 0 and {}, not {}", all, layers),
                      fmt::format("the model has {} decoder layers", all));
    }
    return layers;
  }
  YamlNode number = node;
  number.quoted = false;
  number.text.pop_back();
  number.text.erase(number.text.find_last_not_of(' ') + 1);
  Diagnostics wrong; // says neither what is a percentage nor that it is one
  const std::optional<double> percent = read_number(number, {0, 100}, "layers", wrong);
  if (!percent) {
    diagnostics.add(node.place,
                    fmt::format("'layers' must be between 0 % and 100 %, not '{}'", node.text),
                    R"(write a number of layers, or for example "50 %")");
  }
  return std::llround(percent.value_or(0) / 100 * static_cast<double>(all));
}

FirstLayers read_first(const YamlNode& node, const StepTrace& trace, Diagnostics& diagnostics) {
  MapReader in(node, "first", diagnostics);
  FirstLayers first;
  if (const YamlNode* layers = in.required_child("layers")) {
    first.layers = read_layers(*layers, decoder_layers(trace), diagnostics);
  }
  read_lists(in, trace, first.tensors, first.by_kind, diagnostics);
  in.finish();
  return first;
}

bool lists_nothing(const Fates& tensors, const FatesByKind& by_kind) {
  return tensors.empty() && std::all_of(by_kind.begin(), by_kind.end(),
                                        [](const auto& kind) { return kind.second.empty(); });
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
  read_lists(in, trace, spec.tensors, spec.by_kind, diagnostics);
  if (const YamlNode* first = in.child("first")) {
    spec.first = read_first(*first, trace, diagnostics);
  }
  if (spec.preset == Preset::custom && lists_nothing(spec.tensors, spec.by_kind) &&
      (!spec.first || lists_nothing(spec.first->tensors, spec.first->by_kind))) {
    in.error("preset", fmt::format("policy '{}' is custom but lists no tensors", name),
             "add 'tensors', or use preset full or none");
  }
  in.finish();
  return spec;
}

} // namespace spillway
