#include "sim/cli/options.hpp"

#include "results/report_text.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"

#include <fmt/format.h>

#include <fstream>
#include <thread>

namespace spillway {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

po::options_description describe(const OptionSet& set, CommonOptions& out) {
  po::options_description options("options");
  auto add = options.add_options();
  add("help,h", po::bool_switch(&out.help), "show this text");
  add("catalog", po::value(&out.catalog)->value_name("DIR"),
      "look for models, hardware and scenarios in DIR first");
  if (set.scenario) {
    add("set", po::value(&out.set)->value_name("PATH=VALUE")->composing(),
        "override a key of the scenario, e.g. batch.micro=2; repeatable");
    add("policy", po::value(&out.policies)->value_name("NAME")->composing(),
        "only this policy; repeatable");
    add("no-fold", po::bool_switch(&out.no_fold),
        "replay every layer of every micro-batch one by one; the results are the same, only "
        "slower");
    add("quiet,q", po::bool_switch(&out.quiet), "no remarks on standard error");
  }
  if (set.graph) {
    add("quiet,q", po::bool_switch(&out.quiet), "no remarks on standard error");
  }
  if (set.jobs) {
    add("jobs", po::value(&out.jobs)->value_name("N"), "threads (default: one per processor)");
  }
  if (set.band) {
    add("jobs", po::value(&out.jobs)->value_name("N"), "threads (default: one per processor)");
    add("no-band", po::bool_switch(&out.no_band), "expected values only, without low and high");
  }
  if (set.json) {
    add("json", po::value(&out.json)->value_name("FILE"), "write JSON; - is standard output");
  }
  if (set.csv) {
    add("csv", po::value(&out.csv)->value_name("FILE"), "write CSV; - is standard output");
  }
  if (set.axis) {
    add("axis", po::value(&out.axes)->value_name("PATH=V1,V2,...")->composing(),
        "run every policy for each value; several axes give all combinations");
    add("hardware", po::value(&out.hardware)->value_name("NAME,NAME,..."),
        "the scenario on each of these systems; --set hardware.KEY=V refines all of them");
    add("break-even", po::value(&out.break_even)->value_name("PATH[+PATH]=V1,V2,..."),
        "vary these keys together and find the value at which a policy takes as long as the base, "
        "and what limits it beyond");
    add("base", po::value(&out.base)->value_name("NAME"),
        "policy that the others are compared with (default: the first that fits)");
  }
  if (set.top) {
    add("top", po::value(&out.top)->value_name("N")->default_value(15),
        "lines per section of the report");
  }
  if (set.explanation) {
    add("faster", po::value(&out.faster)->value_name("PERCENT")->default_value(10),
        "say what the step would take with one resource so much faster, each in turn");
    add("task", po::value(&out.task)->value_name("TEXT"),
        "explain one task instead of the step, e.g. 'd attention in layer 12 (moe)'");
    add("rank", po::value(&out.rank)->value_name("N")->default_value(0),
        "GPU of the task, where several are simulated");
    add("occurrence", po::value(&out.occurrence)->value_name("N")->default_value(1),
        "which of the task's occurrences in a step, e.g. another micro-batch");
    add("jobs", po::value(&out.jobs)->value_name("N"), "threads (default: one per processor)");
  }
  if (set.cases) {
    add("cases", po::value(&out.cases)->value_name("DIR"),
        "case files of this folder instead of the committed ones");
    add("profiles", po::value(&out.profiles)->value_name("FILE"),
        "measured steps, JSON lines, instead of cases");
    add("hardware", po::value(&out.hardware)->value_name("NAME"),
        "what the profiles were measured on");
    add("framework", po::value(&out.framework)->value_name("NAME"),
        "what ran the profiles (default: the framework that says runs_profiles)");
    add("against", po::value(&out.against)->value_name("TRACE"),
        "compare one record with this trace of a profiler (JSON, plain or gzip), class by class; "
        "without a tolerance, so the exit status is 0");
    add("record", po::value(&out.record)->value_name("ID"),
        "which record the trace is of (default: the only one)");
    add("step", po::value<std::int64_t>()->value_name("N")->notifier([&out](std::int64_t step) {
      out.step = step;
    }),
        "which step of the trace, from 1 (default: the last)");
    add("trace-format", po::value(&out.trace_format)->value_name("NAME"),
        "what wrote the trace (default: the format whose device it has)");
  }
  if (set.calibration) {
    add("output,o", po::value(&out.output)->value_name("FILE"),
        "hardware file to write; ends in .yaml");
    add("name", po::value(&out.name)->value_name("NAME"),
        "name of the hardware (default: the file's, without .yaml)");
    add("base", po::value(&out.base)->value_name("NAME"),
        "hardware, by name or file, that says what is not measured");
    add("tables", po::value(&out.tables)->value_name("DIR"),
        "write the kernel tables as files of their own into DIR");
    add("source", po::value(&out.source)->value_name("TEXT"),
        "title of the source (default: micro-benchmarks on one, and the device)");
    add("quiet,q", po::bool_switch(&out.quiet), "no remarks on standard error");
  }
  return options;
}

void print_help(const std::string& name, const po::options_description& options) {
  for (const Command& command : command_table()) {
    if (name == command.name) {
      std::ostringstream text;
      text << options;
      const std::string arguments =
          *command.arguments == '\0' ? "" : fmt::format(" {}", command.arguments);
      write_output("-", fmt::format("usage: spillway {}{} [OPTIONS]\n\n{}\n\n{}", name, arguments,
                                    command.summary, text.str()));
    }
  }
}

std::vector<std::string> long_names(const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) {
    names.push_back("--" + option->long_name());
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

} // namespace

CommonOptions parse_options(const std::string& command, const std::vector<std::string>& arguments,
                            const OptionSet& set) {
  CommonOptions out;
  po::options_description visible = describe(set, out);
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
    throw InputError(fmt::format("unknown option '{}' of '{}'", name, command),
                     suggestion(name, long_names(visible)));
  } catch (const po::error& error) {
    throw InputError(fmt::format("{} ('{}')", error.what(), command),
                     fmt::format("see spillway {} --help", command));
  }
  if (out.help) {
    print_help(command, visible);
    return out;
  }
  check_none_empty(values);
  if (out.positional.size() > set.max_positional) {
    throw InputError(fmt::format("'{}' takes {} argument{}, not {}", command, set.max_positional,
                                 set.max_positional == 1 ? "" : "s", out.positional.size()),
                     fmt::format("unexpected: {}", out.positional.back()));
  }
  if (set.scenario && out.positional.empty()) {
    const Catalog catalog(data_roots(out.catalog));
    throw InputError(fmt::format("'{}' needs a scenario", command),
                     suggestion("", catalog.names(CatalogKind::scenario)));
  }
  const bool jobs_zero = values.count("jobs") > 0 && out.jobs == 0;
  if (jobs_zero || out.jobs < 0 || out.jobs > 256) {
    throw InputError(fmt::format("--jobs must be between 1 and 256, not {}", out.jobs));
  }
  if (out.top < 1) {
    throw InputError(fmt::format("--top must be at least 1, not {}", out.top));
  }
  check_explanation(out, values);
  if (out.json == "-" && out.csv == "-") {
    throw InputError("--json and --csv cannot both go to standard output");
  }
  return out;
}

std::vector<fs::path> data_roots(const std::string& catalog_option) {
  std::vector<fs::path> roots;
  if (!catalog_option.empty()) {
    std::error_code error;
    if (!fs::is_directory(catalog_option, error)) {
      throw InputError(fmt::format("--catalog: '{}' is not a folder", catalog_option));
    }
    roots.emplace_back(catalog_option);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = program.parent_path();
  std::ifstream in_build(folder / "spillway-data-dir.txt");
  std::string source;
  if (std::getline(in_build, source) && fs::is_directory(source, error)) {
    roots.emplace_back(source);
  } else {
    roots.push_back(folder.parent_path() / "share" / "spillway");
  }
  return roots;
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
  return options.jobs > 0 ? static_cast<unsigned>(options.jobs)
                          : std::max(1U, std::thread::hardware_concurrency());
}

} // namespace spillway
