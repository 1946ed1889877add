#include "workloads/framework.hpp"

#include <array>

namespace spillway {
namespace {

const std::array<std::string, 4> kinds{"datasheet", "measured", "inferred", "assumed"};

// Reads `key: {value, kind, source}`. A bare number is accepted where a scenario
// overrides a catalogue value: it is the user's assumption.
SourcedNumber read_sourced(MapReader& in, std::string_view key, Diagnostics& diagnostics) {
  const YamlNode* node = in.required_child(key);
  SourcedNumber number;
  if (node == nullptr) {
    return number;
  }
  constexpr RealRange range{0.0, 1e6};
  if (node->is_scalar()) {
    number = {read_number(*node, range, key, diagnostics).value_or(0.0), "assumed",
              "set by the user"};
    return number;
  }
  MapReader map(*node, std::string(key), diagnostics);
  number.value = map.number("value", range);
  number.kind = kinds[map.choice("kind", kinds)];
  number.source = map.text("source");
  static_cast<void>(map.text_or("note", ""));
  map.finish();
  return number;
}

} // namespace

FrameworkSpec read_framework(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> file_kinds{"framework"};
  MapReader in(node, "framework", diagnostics);
  FrameworkSpec spec;
  static_cast<void>(in.choice("kind", file_kinds));
  spec.name = in.text("name");
  spec.title = in.text_or("title", spec.name);
  in.accept("sources");
  if (const YamlNode* passes = in.required_child("kernels")) {
    MapReader map(*passes, "kernels", diagnostics);
    struct Field {
      const char* key;
      SourcedNumber FrameworkSpec::*member;
    };
    const std::array<Field, 16> fields{{
        {"norm_forward", &FrameworkSpec::norm_forward},
        {"norm_backward", &FrameworkSpec::norm_backward},
        {"residual_add", &FrameworkSpec::residual_add},
        {"rotary", &FrameworkSpec::rotary},
        {"activation_forward", &FrameworkSpec::activation_forward},
        {"activation_backward", &FrameworkSpec::activation_backward},
        {"permute", &FrameworkSpec::permute},
        {"combine_forward", &FrameworkSpec::combine_forward},
        {"combine_backward", &FrameworkSpec::combine_backward},
        {"embedding", &FrameworkSpec::embedding},
        {"loss_forward", &FrameworkSpec::loss_forward},
        {"loss_backward", &FrameworkSpec::loss_backward},
        {"logit_bytes", &FrameworkSpec::logit_bytes},
        {"logit_gradient_bytes", &FrameworkSpec::logit_gradient_bytes},
        {"saved_write", &FrameworkSpec::saved_write},
        {"reload_at_top_above", &FrameworkSpec::reload_at_top_above},
    }};
    for (const Field& field : fields) {
      spec.*field.member = read_sourced(map, field.key, diagnostics);
    }
    if (const YamlNode* gap = map.required_child("step_gap")) {
      MapReader in_gap(*gap, "step_gap", diagnostics);
      spec.step_gap.value = in_gap.quantity("value", Dimension::seconds, {0.0, 60.0});
      spec.step_gap.kind = kinds[in_gap.choice("kind", kinds)];
      spec.step_gap.source = in_gap.text("source");
      static_cast<void>(in_gap.text_or("note", ""));
      in_gap.finish();
    }
    map.finish();
  }
  spec.softmax_statistics_saved = in.boolean_or("softmax_statistics_saved", false);
  spec.gradients_allocated_at_once = in.boolean_or("gradients_allocated_at_once", true);
  spec.policy_names = in.text_list_or_empty("policy_names");
  in.finish();
  return spec;
}

} // namespace spillway
