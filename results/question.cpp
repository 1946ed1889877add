#include "results/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

namespace spillway {
namespace {

constexpr std::size_t max_combinations = 10'000;

std::string setting(const std::string& path, const YamlNode& value, Diagnostics& diagnostics) {
  if (!value.is_scalar()) {
    diagnostics.add(value.place, fmt::format("'{}' must be one value", path));
  }
  return fmt::format("{}={}", path, value.text);
}

// {batch.micro: 8, ...}
Question::Settings read_settings(const YamlNode* node, Diagnostics& diagnostics) {
  Question::Settings settings;
  if (node == nullptr) {
    return settings;
  }
  if (!node->is_map()) {
    diagnostics.add(node->place, "settings must be a map of keys to values");
    return settings;
  }
  for (const YamlEntry& entry : node->entries) {
    settings.push_back(setting(entry.key, entry.value, diagnostics));
  }
  return settings;
}

Question::Dimension read_dimension(const YamlEntry& entry, Diagnostics& diagnostics) {
  Question::Dimension dimension{entry.key, {}};
  for (const YamlNode& item : entry.value.items) {
    dimension.values.push_back({item.text, {setting(entry.key, item, diagnostics)}});
  }
  for (const YamlEntry& value : entry.value.entries) {
    dimension.values.push_back({value.key, read_settings(&value.value, diagnostics)});
  }
  if (dimension.values.empty()) {
    diagnostics.add(entry.key_place, fmt::format("'{}' has no values", entry.key),
                    "a list of values of a key, or a map of labels to settings");
  }
  return dimension;
}

Question::Fact read_fact(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 2> fates{"keep", "offload"};
  static const std::array<std::string, 3> verdicts{
      verdict_name(Verdict::fits), verdict_name(Verdict::hbm_oom), verdict_name(Verdict::host_oom)};
  MapReader in(node, "fact", diagnostics);
  Question::Fact fact;
  fact.fate = in.choice("fate", fates) == 0 ? Fate::keep : Fate::offload;
  fact.set = read_settings(in.child("set"), diagnostics);
  fact.verdict = static_cast<Verdict>(in.choice("verdict", verdicts));
  fact.says = in.text("says");
  in.finish();
  return fact;
}

void read_vary(MapReader& in, Question& question, Diagnostics& diagnostics) {
  const YamlNode* vary = in.child("vary");
  if (vary == nullptr) {
    return;
  }
  if (!vary->is_map()) {
    in.error("vary", "'vary' must be a map of keys or names to values");
    return;
  }
  for (const YamlEntry& entry : vary->entries) {
    question.dimensions.push_back(read_dimension(entry, diagnostics));
  }
  if (question.combinations() > max_combinations) {
    in.error("vary", fmt::format("more than {} combinations", max_combinations));
  }
}

void read_facts(MapReader& in, Question& question, Diagnostics& diagnostics) {
  const YamlNode* facts = in.required_child("facts");
  if (facts == nullptr) {
    return;
  }
  for (const YamlNode& item : facts->items) {
    question.facts.push_back(read_fact(item, diagnostics));
  }
  if (question.facts.empty()) {
    in.error("facts", "'facts' must be a list with at least one fact");
  }
}

std::string key_of(const std::string& setting) {
  return setting.substr(0, setting.find('='));
}

template <class Names>
void refuse_repeats(const Names& names, const std::string& what, MapReader& in,
                    std::string_view key) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      in.error(key, fmt::format("{} '{}' is there twice", what, name));
    }
  }
}

// What is varied is set by one dimension, and by no fact.
void check_keys(MapReader& in, const Question& question) {
  std::map<std::string, std::string> varied_by; // key to dimension
  for (const Question::Dimension& dimension : question.dimensions) {
    std::vector<std::string> labels;
    std::set<std::string> keys;
    for (const Question::Value& value : dimension.values) {
      labels.push_back(value.label);
      for (const std::string& setting : value.set) {
        keys.insert(key_of(setting));
      }
    }
    refuse_repeats(labels, fmt::format("of '{}' the value", dimension.name), in, "vary");
    for (const std::string& key : keys) {
      const auto [other, is_new] = varied_by.emplace(key, dimension.name);
      if (!is_new) {
        in.error("vary",
                 fmt::format("'{}' and '{}' both set '{}'", other->second, dimension.name, key));
      }
    }
  }
  std::vector<const Question::Settings*> fixed{&question.predict_set};
  for (const Question::Fact& fact : question.facts) {
    fixed.push_back(&fact.set);
  }
  for (const Question::Settings* settings : fixed) {
    for (const std::string& setting : *settings) {
      if (varied_by.contains(key_of(setting))) {
        in.error("vary",
                 fmt::format("'{}' is varied, and set by a fact or by 'predict'", key_of(setting)));
      }
    }
  }
}

Question read_question(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> kinds{"question"};
  MapReader in(node, "question", diagnostics);
  Question question;
  static_cast<void>(in.choice("kind", kinds));
  question.title = in.text("title");
  question.source = in.text("source");
  question.scenario = in.text("scenario");
  read_vary(in, question, diagnostics);
  question.tensors = in.text_list_or_empty("tensors");
  if (question.tensors.empty() || question.tensors.size() > Question::max_tensors) {
    in.error("tensors", fmt::format("'tensors' must name 1 to {} tensors", Question::max_tensors));
  }
  read_facts(in, question, diagnostics);
  if (const YamlNode* predict = in.required_child("predict")) {
    MapReader map(*predict, "predict", diagnostics);
    question.base = map.text("base");
    question.predict_set = read_settings(map.child("set"), diagnostics);
    map.finish();
  }
  refuse_repeats(question.tensors, "the tensor", in, "tensors");
  check_keys(in, question);
  in.finish();
  return question;
}

} // namespace

std::size_t Question::combinations() const {
  std::size_t count = 1;
  for (const Dimension& dimension : dimensions) {
    count =
        std::min(max_combinations + 1, count * std::max<std::size_t>(1, dimension.values.size()));
  }
  return count;
}

std::vector<std::size_t> Question::values_of(std::size_t combination) const {
  std::vector<std::size_t> values(dimensions.size());
  for (std::size_t d = dimensions.size(); d-- > 0;) {
    values[d] = combination % dimensions[d].values.size();
    combination /= dimensions[d].values.size();
  }
  return values;
}

std::vector<std::string> Question::tensors_of(std::size_t set) const {
  std::vector<std::string> names;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (((set + 1) >> t & 1U) != 0) {
      names.push_back(tensors[t]);
    }
  }
  return names;
}

Question load_question(const std::filesystem::path& file) {
  Diagnostics diagnostics;
  Question question = read_question(load_yaml(file), diagnostics);
  diagnostics.throw_if_any();
  return question;
}

} // namespace spillway
