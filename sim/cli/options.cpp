#include "sim/cli/options.hpp"

#include "results/report_text.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>
#include <variant>

namespace spillway {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

// How an option is parsed into its place; program_options owns what is returned.

po::value_semantic* parsed(const Option& /*option*/, bool& place) {
  return po::bool_switch(&place);
}

po::value_semantic* parsed(const Option& option, std::string& place) {
  return po::value(&place)->value_name(option.value);
}

po::value_semantic* parsed(const Option& option, std::vector<std::string>& place) {
  return po::value(&place)->value_name(option.value)->composing();
}

po::value_semantic* parsed(const Option& option, std::int64_t& place) {
  return po::value(&place)->value_name(option.value)->default_value(place);
}

po::value_semantic* parsed(const Option& option, std::optional<std::int64_t>& place) {
  return po::value<std::int64_t>()->value_name(option.value)->notifier([&place](std::int64_t n) {
    place = n;
  });
}

po::options_description describe(const Command& command, CommonOptions& out) {
  po::options_description options("options");
  for (const Option& option : command.options) {
    po::value_semantic* value =
        std::visit([&](auto member) { return parsed(option, out.*member); }, option.member);
    options.add_options()(option.name, value, option.description);
  }
  return options;
}

void print_help(const Command& command, const po::options_description& options) {
  std::ostringstream text;
  text << options;
  write_output("-",
               fmt::format("usage: {}\n\n{}\n\n{}", command.usage(), command.summary, text.str()));
}

std::vector<std::string> long_names(const Command& command) {
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    names.push_back(option.long_name());
  }
  return names;
}

// A text given as '' is not one left out.
void check_none_empty(const po::variables_map& values) {
  for (const auto& [name, value] : values) {
    const auto* text = boost::any_cast<std::string>(&value.value());
    if (text == nullptr || !text->empty()) {
      continue;
    }
    if (name == "json" || name == "csv") {
      throw InputError("--json and --csv need a file name, or - for standard output");
    }
    throw InputError(fmt::format("--{} must not be empty", name));
  }
}

// Of explain: what belongs together, and what cannot be answered together.
void check_explanation(const CommonOptions& options, const po::variables_map& values) {
  const auto given = [&](const char* name) {
    return values.count(name) > 0 && !values[name].defaulted();
  };
  if (options.faster < 1 || options.faster > 1000) {
    throw InputError(fmt::format("--faster must be between 1 and 1000, not {}", options.faster));
  }
  for (const char* name : {"rank", "occurrence"}) {
    if (given(name) && !given("task")) {
      throw InputError(fmt::format("--{} belongs to --task, which is missing", name));
    }
  }
  if (given("faster") && given("task")) {
    throw InputError("--faster is about the whole step, --task about one task of it",
                     "ask for one of them");
  }
}

// As many as the command takes, and at least the scenario.
void check_arguments(const Command& command, const CommonOptions& options) {
  const std::size_t most = command.argument.most;
  if (options.positional.size() > most) {
    throw InputError(fmt::format("'{}' takes {} argument{}, not {}", command.name, most,
                                 most == 1 ? "" : "s", options.positional.size()),
                     fmt::format("unexpected: {}", options.positional.back()));
  }
  if (command.argument.kind == ValueKind::scenario && options.positional.empty()) {
    const Catalog catalog(data_roots(options.catalog));
    throw InputError(fmt::format("'{}' needs a scenario", command.name),
                     suggestion("", catalog.names(CatalogKind::scenario)));
  }
}

void check_numbers(const CommonOptions& options) {
  const std::int64_t jobs = options.jobs.value_or(1);
  if (jobs < 1 || jobs > 256) {
    throw InputError(fmt::format("--jobs must be between 1 and 256, not {}", jobs));
  }
  if (options.replays < 1) {
    throw InputError(fmt::format("--replays must be at least 1, not {}", options.replays));
  }
  if (options.top < 1) {
    throw InputError(fmt::format("--top must be at least 1, not {}", options.top));
  }
}

// Values of `visible` go where its options say.
po::variables_map parse(const Command& command, const std::vector<std::string>& arguments,
                        const po::options_description& visible, CommonOptions& out) {
  po::options_description all;
  all.add(visible).add_options()("argument", po::value(&out.positional));
  po::positional_options_description positional;
  positional.add("argument", -1);
  po::variables_map values;
  try {
    namespace style = po::command_line_style;
    po::store(po::command_line_parser(arguments)
                  .options(all)
                  .positional(positional)
                  .style(style::unix_style & ~style::allow_guessing)
                  .run(),
              values);
    po::notify(values);
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    throw InputError(fmt::format("unknown option '{}' of '{}'", name, command.name),
                     suggestion(name, long_names(command)));
  } catch (const po::error& error) {
    throw InputError(fmt::format("{} ('{}')", error.what(), command.name),
                     fmt::format("see spillway {} --help", command.name));
  }
  return values;
}

} // namespace

CommonOptions parse_options(const Command& command, const std::vector<std::string>& arguments) {
  CommonOptions out;
  const po::options_description visible = describe(command, out);
  const po::variables_map values = parse(command, arguments, visible, out);
  if (out.help) {
    print_help(command, visible);
    return out;
  }
  check_none_empty(values);
  check_arguments(command, out);
  check_numbers(out);
  check_explanation(out, values);
  if (out.json == "-" && out.csv == "-") {
    throw InputError("--json and --csv cannot both go to standard output");
  }
  return out;
}

namespace {

// /proc/self/exe is behind all links: of the package, not of /usr/local/bin.
fs::path own_data() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::ifstream in_build(folder / "spillway-data-dir.txt");
  std::string source;
  if (std::getline(in_build, source) && fs::is_directory(source, error)) {
    return source;
  }
  return folder.parent_path() / "share" / "spillway";
}

} // namespace

std::vector<fs::path> data_roots(const std::string& catalog_option) {
  std::vector<fs::path> roots;
  std::error_code error;
  if (!catalog_option.empty()) {
    if (!fs::is_directory(catalog_option, error)) {
      throw InputError(fmt::format("--catalog: '{}' is not a folder", catalog_option));
    }
    roots.emplace_back(catalog_option);
  }
  roots.push_back(own_data());
  if (roots.size() == 1 && !fs::is_directory(roots.front(), error)) {
    throw InputError(fmt::format("no catalogue: '{}' is not a folder", roots.front().string()),
                     "bin/spillway and share/spillway move together; or name a --catalog");
  }
  return roots;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t first = part.find_first_not_of(" \t");
    const std::size_t last = part.find_last_not_of(" \t");
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last + 1 - first));
    begin = end + 1;
  }
  return parts;
}

Scenario load_from(const CommonOptions& options) {
  const Catalog catalog(data_roots(options.catalog));
  const fs::path file = catalog.find(CatalogKind::scenario, options.positional.front());
  check_output_is_no_input(options.json, {file});
  check_output_is_no_input(options.csv, {file});
  Scenario scenario = load_scenario(catalog, options.positional.front(), options.set);
  check_published(scenario);
  return scenario;
}

std::vector<const PolicySpec*> chosen_policies(const Scenario& scenario,
                                               const CommonOptions& options) {
  std::vector<const PolicySpec*> chosen;
  for (const std::string& name : options.policies) {
    chosen.push_back(&scenario.policy(name));
  }
  if (chosen.empty()) {
    for (const PolicySpec& policy : scenario.policies) {
      chosen.push_back(&policy);
    }
  }
  return chosen;
}

unsigned thread_count(const CommonOptions& options) {
  return options.jobs ? static_cast<unsigned>(*options.jobs)
                      : std::max(1U, std::thread::hardware_concurrency());
}

} // namespace spillway
