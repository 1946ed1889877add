#include "sim/cli/complete.hpp"

#include "sim/cli/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

namespace spillway {
namespace {

// bash breaks words at "=", and replaces only what is behind it.
struct Words {
  std::vector<std::string> whole;
  bool last_was_broken = false;
};

Words joined_at_equals(const std::vector<std::string>& words) {
  Words joined;
  bool after_equals = false;
  for (const std::string& word : words) {
    joined.last_was_broken = !joined.whole.empty() && (word == "=" || after_equals);
    if (joined.last_was_broken) {
      joined.whole.back() += word;
    } else {
      joined.whole.push_back(word);
    }
    after_equals = word == "=";
  }
  return joined;
}

const Option* find_option(const Command& command, const std::string& word) {
  for (const Option& option : command.options) {
    if (word == option.long_name() || (!word.empty() && word == option.letter())) {
      return &option;
    }
  }
  return nullptr;
}

// What is known of the words before the one at the cursor.
struct Context {
  const Command* command = nullptr;
  const Option* pending = nullptr; // its value comes next
  std::vector<std::string> arguments;
  std::string catalog;
};

Context read(const Command& command, std::span<const std::string> words) {
  Context context;
  context.command = &command;
  for (const std::string& word : words) {
    const std::string catalog_value = "--catalog=";
    if (context.pending != nullptr) {
      if (context.pending->long_name() == "--catalog") {
        context.catalog = word;
      }
      context.pending = nullptr;
    } else if (word.starts_with(catalog_value)) {
      context.catalog = word.substr(catalog_value.size());
    } else if (!word.starts_with('-')) {
      context.arguments.push_back(word);
    } else if (const Option* option = find_option(command, word)) {
      context.pending = option->takes_value() ? option : nullptr;
    }
  }
  return context;
}

std::string answer(const std::vector<std::string>& candidates, const std::string& typed,
                   const std::string& before = "") {
  std::string text = "words\n";
  for (const std::string& candidate : candidates) {
    if (candidate.starts_with(typed)) {
      text += before + candidate + "\n";
    }
  }
  return text;
}

std::vector<std::string> policies(const Catalog& catalog, const Context& context) {
  std::vector<std::string> names;
  if (!context.arguments.empty()) {
    const Scenario scenario = load_scenario(catalog, context.arguments.front(), {});
    for (const std::vector<PolicySpec>* known : {&scenario.policies, &scenario.presets}) {
      for (const PolicySpec& policy : *known) {
        names.push_back(policy.name);
      }
    }
  }
  return names;
}

std::optional<CatalogKind> catalog_kind(ValueKind kind) {
  switch (kind) {
  case ValueKind::model: return CatalogKind::model;
  case ValueKind::hardware: return CatalogKind::hardware;
  case ValueKind::framework: return CatalogKind::framework;
  case ValueKind::scenario: return CatalogKind::scenario;
  case ValueKind::trace_format: return CatalogKind::trace_format;
  default: return std::nullopt;
  }
}

std::vector<std::string> names(ValueKind kind, const Context& context) {
  const Catalog catalog(data_roots(context.catalog));
  if (const std::optional<CatalogKind> one = catalog_kind(kind)) {
    return catalog.names(*one);
  }
  std::vector<std::string> all;
  if (kind == ValueKind::policy) {
    all = policies(catalog, context);
  } else if (kind == ValueKind::shell) {
    all = shells();
  } else if (kind == ValueKind::entry) {
    for (std::size_t k = 0; k < catalog_kind_count; ++k) {
      const std::vector<std::string> some = catalog.names(static_cast<CatalogKind>(k));
      all.insert(all.end(), some.begin(), some.end());
    }
  }
  return all;
}

// `before` is part of the word, but not of the value, as "--json=" may be.
std::string complete_value(ValueKind kind, bool list, const Context& context,
                           const std::string& typed, std::string before) {
  if (kind == ValueKind::file || kind == ValueKind::folder) {
    return kind == ValueKind::file ? "files\n" : "folders\n";
  }
  std::size_t begin = 0;
  if (list && typed.find(',') != std::string::npos) {
    begin = typed.rfind(',') + 1;
    before += typed.substr(0, begin);
  }
  const std::string text = answer(names(kind, context), typed.substr(begin), before);
  // Most of what has a name may also be a file of one's own.
  const bool nothing = text == answer({}, "");
  return nothing && catalog_kind(kind) && !list && !typed.empty() ? "files\n" : text;
}

std::string complete_option(const Command& command, const std::string& typed) {
  std::vector<std::string> all;
  for (const Option& option : command.options) {
    all.push_back(fmt::format("{}\t{}", option.long_name(), option.description));
  }
  return answer(all, typed);
}

std::string complete_command(const std::string& typed) {
  std::vector<std::string> all;
  for (const Command& command : command_table()) {
    all.push_back(fmt::format("{}\t{}", command.name, command.summary));
  }
  all.emplace_back("--help\tlist the commands");
  all.emplace_back("--version\tprint version and commit");
  return answer(all, typed);
}

std::string complete_of(const Context& context, const Words& words) {
  const std::string& word = words.whole.back();
  const Command& command = *context.command;
  if (const Option* option = context.pending) {
    return complete_value(option->kind, option->list, context, word, "");
  }
  const std::size_t equals = word.find('=');
  if (word.starts_with("--") && equals != std::string::npos) {
    const Option* option = find_option(command, word.substr(0, equals));
    if (option == nullptr || !option->takes_value()) {
      return answer({}, "");
    }
    return complete_value(option->kind, option->list, context, word.substr(equals + 1),
                          words.last_was_broken ? "" : word.substr(0, equals + 1));
  }
  if (word.starts_with('-') || context.arguments.size() >= command.argument.most) {
    return complete_option(command, word);
  }
  return complete_value(command.argument.kind, false, context, word, "");
}

} // namespace

std::string complete(const std::vector<std::string>& words) {
  const Words joined = joined_at_equals(words);
  if (joined.whole.size() < 2) {
    return complete_command(joined.whole.empty() ? "" : joined.whole.front());
  }
  const Command* command = find_command(joined.whole.front());
  if (command == nullptr) {
    return answer({}, "");
  }
  const std::span<const std::string> before(joined.whole.begin() + 1, joined.whole.end() - 1);
  try {
    return complete_of(read(*command, before), joined);
  } catch (const InputError&) { // a scenario that has mistakes still
    return answer({}, "");
  }
}

} // namespace spillway
