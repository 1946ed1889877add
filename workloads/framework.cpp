#include "workloads/framework.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace spillway {
namespace {

const std::array<std::string, 4> kinds{"datasheet", "measured", "inferred", "assumed"};

constexpr std::array<NamedNumber, 25> numbers{{
    {"norm_forward", &FrameworkSpec::norm_forward},
    {"norm_backward", &FrameworkSpec::norm_backward},
    {"residual_add", &FrameworkSpec::residual_add},
    {"rotary", &FrameworkSpec::rotary},
    {"activation_forward", &FrameworkSpec::activation_forward},
    {"activation_backward", &FrameworkSpec::activation_backward},
    {"activation_backward_rerun", &FrameworkSpec::activation_backward_rerun},
    {"permute", &FrameworkSpec::permute},
    {"combine", &FrameworkSpec::combine},
    {"scatter_add", &FrameworkSpec::scatter_add},
    {"embedding", &FrameworkSpec::embedding},
    {"loss_forward", &FrameworkSpec::loss_forward},
    {"loss_backward", &FrameworkSpec::loss_backward},
    {"logit_bytes", &FrameworkSpec::logit_bytes},
    {"logit_gradient_bytes", &FrameworkSpec::logit_gradient_bytes},
    {"saved_write", &FrameworkSpec::saved_write},
    {"stack_fill", &FrameworkSpec::stack_fill},
    {"unchecked_stream", &FrameworkSpec::unchecked_stream},
    {"unchecked_norm", &FrameworkSpec::unchecked_norm},
    {"unchecked_activation", &FrameworkSpec::unchecked_activation},
    {"unchecked_weights", &FrameworkSpec::unchecked_weights},
    {"unchecked_fill", &FrameworkSpec::unchecked_fill},
    {"unchecked_read", &FrameworkSpec::unchecked_read},
    {"reload_at_top_above", &FrameworkSpec::reload_at_top_above},
    {"step_gap", &FrameworkSpec::step_gap},
}};

using Titles = std::map<std::string, std::string, std::less<>>; // by source tag

Titles read_sources(const YamlNode& node, Diagnostics& diagnostics) {
  Titles titles;
  for (const YamlEntry& entry : node.entries) {
    MapReader in(entry.value, entry.key, diagnostics);
    titles.emplace(entry.key, in.text("title"));
    for (const char* key : {"url", "commit"}) {
      static_cast<void>(in.text_or(key, ""));
    }
    in.finish();
  }
  return titles;
}

// `{value, kind, source, note}`; a bare number or quantity is a user's own.
SourcedNumber read_sourced(MapReader& in, std::string_view key, const Titles& titles,
                           Diagnostics& diagnostics) {
  constexpr RealRange range{0.0, 1e6};
  const bool is_time = key == "step_gap";
  const YamlNode* node = in.required_child(key);
  SourcedNumber number;
  if (node == nullptr) {
    return number;
  }
  if (node->is_scalar()) {
    const auto value = is_time ? read_quantity(*node, Dimension::seconds, range, key, diagnostics)
                               : read_number(*node, range, key, diagnostics);
    return {value.value_or(0.0), "assumed", "set by the user"};
  }
  MapReader map(*node, std::string(key), diagnostics);
  number.value =
      is_time ? map.quantity("value", Dimension::seconds, range) : map.number("value", range);
  number.kind = kinds[map.choice("kind", kinds)];
  const std::string tag = map.text("source");
  const auto title = titles.find(tag);
  if (title != titles.end()) {
    number.source = title->second;
  } else if (!tag.empty()) {
    std::vector<std::string> known;
    for (const auto& [name, text] : titles) {
      known.push_back(name);
    }
    map.error("source", "'" + std::string(key) + "' names the unknown source '" + tag + "'",
              suggestion(tag, known));
  }
  static_cast<void>(map.text_or("note", ""));
  map.finish();
  return number;
}

PresetSpec read_preset(const YamlEntry& entry, Diagnostics& diagnostics) {
  MapReader in(entry.value, entry.key, diagnostics);
  PresetSpec preset{entry.key, in.text_list_or_empty("keep"), in.text_list_or_empty("offload"),
                    in.text_list_or_empty("leaves")};
  in.finish();
  if (preset.keep.empty() && preset.offload.empty()) {
    diagnostics.add(entry.key_place, fmt::format("preset '{}' saves nothing", entry.key),
                    "list names under 'keep' or 'offload'");
  }
  return preset;
}

void read_presets(MapReader& in, FrameworkSpec& spec, Diagnostics& diagnostics) {
  const YamlNode* presets = in.child("presets");
  if (presets == nullptr) {
    return;
  }
  if (!presets->is_map()) {
    in.error("presets", "'presets' must be a map of names to lists of tensors");
    return;
  }
  for (const YamlEntry& entry : presets->entries) {
    if (std::find(built_in_presets.begin(), built_in_presets.end(), entry.key) !=
        built_in_presets.end()) {
      diagnostics.add(entry.key_place,
                      fmt::format("preset '{}' is there already, in every framework", entry.key));
    }
    spec.presets.push_back(read_preset(entry, diagnostics));
  }
}

} // namespace

std::span<const NamedNumber> framework_numbers() {
  return numbers;
}

FrameworkSpec read_framework(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> file_kinds{"framework"};
  MapReader in(node, "framework", diagnostics);
  FrameworkSpec spec;
  static_cast<void>(in.choice("kind", file_kinds));
  spec.name = in.text("name");
  spec.title = in.text_or("title", spec.name);
  Titles titles;
  if (const YamlNode* sources = in.required_child("sources")) {
    titles = read_sources(*sources, diagnostics);
  }
  if (const YamlNode* kernels = in.required_child("kernels")) {
    MapReader map(*kernels, "kernels", diagnostics);
    for (const NamedNumber& number : numbers) {
      spec.*number.member = read_sourced(map, number.key, titles, diagnostics);
    }
    map.finish();
  }
  spec.eager = in.boolean_or("eager", false);
  spec.runs_profiles = in.boolean_or("runs_profiles", false);
  spec.softmax_statistics_saved = in.boolean_or("softmax_statistics_saved", false);
  spec.compiled_order = in.boolean_or("compiled_order", false);
  spec.gradients_allocated_at_once = in.boolean_or("gradients_allocated_at_once", true);
  spec.policy_names = in.text_list_or_empty("policy_names");
  read_presets(in, spec, diagnostics);
  in.finish();
  return spec;
}

} // namespace spillway
