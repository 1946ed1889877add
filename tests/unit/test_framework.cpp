#include "tests/support/reports.hpp"
#include "workloads/framework.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace spillway;

namespace {

using Member = SourcedNumber FrameworkSpec::*;

const std::vector<std::pair<std::string, Member>> numbers{
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
};

std::string entry(std::size_t i) {
  return "{value: " + std::to_string(i) +
         ".5, kind: measured, source: " + (i % 2 == 0 ? "even" : "odd") + "}";
}
std::string line_of(std::size_t i) {
  return "  " + numbers[i].first + ": " + entry(i) + "\n";
}

// Line 5 + i holds number i with the value i + 0.5, so no two are alike.
std::string base_text() {
  std::string text =
      "kind: framework\nname: own\nsources: {even: {title: Even steps}, odd: {title: "
      "Odd steps, url: u, commit: c}}\nkernels:\n";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    text += line_of(i);
  }
  return text + "  step_gap: {value: 2 ms, kind: inferred, source: odd}\n";
}

std::string reports(const std::string& text) {
  Diagnostics diagnostics;
  static_cast<void>(read_framework(parse_yaml(text, "t.yaml"), diagnostics));
  return report_text(diagnostics);
}

FrameworkSpec read(const std::string& text) {
  Diagnostics diagnostics;
  FrameworkSpec spec = read_framework(parse_yaml(text, "t.yaml"), diagnostics);
  CHECK(report_text(diagnostics) == "");
  return spec;
}

} // namespace

TEST_CASE("Every number of a framework lands in its own field with kind and source") {
  const FrameworkSpec spec = read(base_text());
  CHECK(spec.name == "own");
  CHECK(spec.title == "own");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CAPTURE(numbers[i].first);
    const SourcedNumber& number = spec.*numbers[i].second;
    CHECK(number.value == static_cast<double>(i) + 0.5);
    CHECK(number.kind == "measured");
    CHECK(number.source == (i % 2 == 0 ? "Even steps" : "Odd steps"));
  }
  CHECK(spec.step_gap.value == 0.002);
  CHECK(spec.step_gap.kind == "inferred");
  CHECK(spec.step_gap.source == "Odd steps");
  REQUIRE(framework_numbers().size() == numbers.size() + 1); // and the gap
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CHECK(framework_numbers()[i].key == numbers[i].first);
    CHECK(framework_numbers()[i].member == numbers[i].second);
  }
  CHECK(framework_numbers().back().key == std::string("step_gap"));
  CHECK(framework_numbers().back().member == &FrameworkSpec::step_gap);
}

TEST_CASE("The switches of a framework have defaults that a file can change") {
  const FrameworkSpec plain = read(base_text());
  CHECK_FALSE(plain.eager);
  CHECK_FALSE(plain.compiled_order);
  CHECK_FALSE(plain.softmax_statistics_saved);
  CHECK(plain.gradients_allocated_at_once);
  CHECK(plain.policy_names.empty());
  const FrameworkSpec other = read(base_text() + "title: Own one\n"
                                                 "eager: true\n"
                                                 "compiled_order: true\n"
                                                 "softmax_statistics_saved: true\n"
                                                 "gradients_allocated_at_once: false\n"
                                                 "policy_names: [context, mlpwo]\n");
  CHECK(other.title == "Own one");
  CHECK(other.eager);
  CHECK(other.compiled_order);
  CHECK(other.softmax_statistics_saved);
  CHECK_FALSE(other.gradients_allocated_at_once);
  CHECK(other.policy_names == std::vector<std::string>{"context", "mlpwo"});
}

TEST_CASE("Presets of a framework are read in the order of the file") {
  const FrameworkSpec spec = read(base_text() + "presets:\n"
                                                "  some: {keep: [a, b], leaves: [c]}\n"
                                                "  any: {offload: [d]}\n");
  REQUIRE(spec.presets.size() == 2);
  CHECK(spec.presets[0].name == "some");
  CHECK(spec.presets[0].keep == std::vector<std::string>{"a", "b"});
  CHECK(spec.presets[0].leaves == std::vector<std::string>{"c"});
  CHECK(spec.presets[1].offload == std::vector<std::string>{"d"});
  CHECK(read(base_text()).presets.empty());
}

TEST_CASE("Presets that say nothing, or have a name of every framework, are refused") {
  const auto hint_of = [](const std::string& text) {
    Diagnostics diagnostics;
    static_cast<void>(read_framework(parse_yaml(base_text() + text, "t.yaml"), diagnostics));
    const std::string report = report_text(diagnostics);
    return report.substr(report.find(' ') + 1);
  };
  CHECK(hint_of("presets: [minimal]\n") == "'presets' must be a map of names to lists of tensors");
  CHECK(hint_of("presets: {full: {keep: [a]}}\n") ==
        "preset 'full' is there already, in every framework");
  CHECK(hint_of("presets: {own: {leaves: [a]}}\n") ==
        "preset 'own' saves nothing | list names under 'keep' or 'offload'");
}

TEST_CASE("Each switch of a framework changes its own field only") {
  const std::vector<std::pair<std::string, bool FrameworkSpec::*>> switches{
      {"eager", &FrameworkSpec::eager},
      {"compiled_order", &FrameworkSpec::compiled_order},
      {"runs_profiles", &FrameworkSpec::runs_profiles},
      {"softmax_statistics_saved", &FrameworkSpec::softmax_statistics_saved},
      {"gradients_allocated_at_once", &FrameworkSpec::gradients_allocated_at_once}};
  const FrameworkSpec plain = read(base_text());
  for (const auto& [changed, field] : switches) {
    CAPTURE(changed);
    const FrameworkSpec other =
        read(base_text() + changed + ": " + (plain.*field ? "false" : "true") + "\n");
    for (const auto& [name, member] : switches) {
      CAPTURE(name);
      CHECK((other.*member == plain.*member) == (name != changed));
    }
  }
}

TEST_CASE("A bare number in a framework is the user's assumption") {
  const FrameworkSpec spec = read(replaced(replaced(base_text(), entry(3), "7"),
                                           "{value: 2 ms, kind: inferred, source: odd}", "3 ms"));
  CHECK(spec.rotary.value == 7);
  CHECK(spec.rotary.kind == "assumed");
  CHECK(spec.rotary.source == "set by the user");
  CHECK(spec.step_gap.value == 0.003);
  CHECK(spec.step_gap.kind == "assumed");
  CHECK(spec.step_gap.source == "set by the user");
}

TEST_CASE("A missing number of a framework is reported, each by its name") {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CHECK(reports(replaced(base_text(), line_of(i), "")) ==
          "4:1: missing key '" + numbers[i].first + "' in 'kernels'");
  }
  CHECK(reports(replaced(base_text(), "  step_gap: {value: 2 ms, kind: inferred, source: odd}\n",
                         "")) == "4:1: missing key 'step_gap' in 'kernels'");
  CHECK(reports("kind: framework\nname: own\nsources: {}\n") ==
        "0:0: missing key 'kernels' in 'framework'");
  CHECK(reports(replaced(base_text(), "name: own\n", "")) ==
        "0:0: missing key 'name' in 'framework'");
}

TEST_CASE("A number of a framework needs a value, a kind and a source") {
  const auto with = [&](const std::string& other) {
    return reports(replaced(base_text(), entry(3), other));
  };
  CHECK(with("{kind: measured, source: odd}") == "8:11: missing key 'value' in 'rotary'");
  CHECK(with("{value: 3.5, source: odd}") == "8:11: missing key 'kind' in 'rotary'");
  CHECK(with("{value: 3.5, kind: measured}") == "8:11: missing key 'source' in 'rotary'");
  CHECK(with("{value: 3.5, kind: measured, source: odd, note: why}") == "");
  CHECK(with("{value: -1, kind: measured, source: odd}") ==
        "8:19: 'value' must be between 0 and 1000000, not -1");
  CHECK(with("{value: 3.5, kind: measure, source: odd}") ==
        "8:30: unknown value 'measure' for 'kind' | did you mean 'measured'?");
  CHECK(with("{value: 3.5, kind: guessed, source: odd}") ==
        "8:30: unknown value 'guessed' for 'kind' | known: datasheet, measured, inferred, "
        "assumed");
  CHECK(with("{value: 3.5, kind: measured, source: odd, sources: s4}") ==
        "8:53: unknown key 'sources' in 'rotary' | did you mean 'source'?");
  CHECK(with("often") == "8:11: 'rotary' must be a number, not 'often'");
}

TEST_CASE("A source that a framework does not list is reported with the nearest one") {
  const auto with = [&](const std::string& source) {
    return reports(
        replaced(base_text(), entry(3), "{value: 3.5, kind: measured, source: " + source + "}"));
  };
  CHECK(with("evn") == "8:48: 'rotary' names the unknown source 'evn' | did you mean 'even'?");
  CHECK(with("rumour") == "8:48: 'rotary' names the unknown source 'rumour' | known: even, odd");
  CHECK(reports(replaced(base_text(), "title: Even steps", "titel: Even steps")) ==
        "3:17: missing key 'title' in 'even'\n"
        "3:18: unknown key 'titel' in 'even' | did you mean 'title'?");
}

TEST_CASE("Values of the wrong kind in a framework are reported where they stand") {
  CHECK(reports(replaced(base_text(), "kind: framework", "kind: model")) ==
        "1:7: unknown value 'model' for 'kind' | known: framework");
  CHECK(reports("kind: framework\nname: own\nsources: {}\nkernels: fast\n") ==
        "4:10: 'kernels' must be a map, not 'fast'");
  CHECK(reports(replaced(base_text(), "value: 2 ms", "value: 2")) ==
        "29:21: 'value' needs a unit | write for example \"8 us\"");
  CHECK(reports(base_text() + "softmax_statistics_saved: maybe\n") ==
        "30:27: 'softmax_statistics_saved' must be true or false, not 'maybe'");
  CHECK(reports(base_text() + "policy_names: context\n") ==
        "30:15: 'policy_names' must be a list, not 'context' | write [context]");
  CHECK(reports(base_text() + "policy_name: [context]\n") ==
        "30:1: unknown key 'policy_name' in 'framework' | did you mean 'policy_names'?");
}
