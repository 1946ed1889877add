// What building and replaying a task graph costs: time and memory a task, how both
// grow with the number of tasks, and the same graphs in SimGrid.
//
//   bench_engine --quick            seconds
//   bench_engine --json FILE        minutes; up to ten million tasks
//
// Compare ratios within one run, machines are noisy.
#include "tests/bench/bench_report.hpp"

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace spillway::bench;
namespace po = boost::program_options;

constexpr std::size_t least_tasks = 1000;
constexpr std::size_t most_tasks = 1'000'000'000;

struct Options {
  bool help = false;
  bool quick = false;
  std::size_t max_tasks = 10'000'000;
  std::size_t simgrid = 100'000;
  std::vector<std::size_t> ranks{1, 8, 64, 512};
  int repetitions = 5;
  std::string json;
};

[[nodiscard]] po::options_description describe(Options& out) {
  po::options_description options("options");
  auto add = options.add_options();
  add("help,h", po::bool_switch(&out.help), "show this text");
  add("quick", po::bool_switch(&out.quick), "up to 100000 tasks on 8 and 64 ranks");
  add("max-tasks", po::value(&out.max_tasks)->value_name("N"),
      "from 1000 up to so many tasks, in powers of ten (default 10000000)");
  add("simgrid", po::value(&out.simgrid)->value_name("N"),
      "up to so many tasks also in SimGrid (default 100000; 0: none)");
  add("ranks", po::value(&out.ranks)->value_name("N")->multitoken(),
      "numbers of ranks (default 1 8 64 512)");
  add("repeat", po::value(&out.repetitions)->value_name("N"), "the best of N runs (default 5)");
  add("json", po::value(&out.json)->value_name("FILE"),
      "write JSON; - is standard output, and the table goes to standard error");
  return options;
}

[[nodiscard]] Options read_options(int argc, const char* const* argv) {
  Options options;
  const po::options_description known = describe(options);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(known).positional({}).run(), values);
  po::notify(values);
  if (options.quick && values.count("max-tasks") == 0) {
    options.max_tasks = 100'000;
  }
  if (options.quick && values.count("ranks") == 0) {
    options.ranks = {8, 64};
  }
  if (options.max_tasks < least_tasks || options.max_tasks > most_tasks) {
    throw std::invalid_argument(
        fmt::format("--max-tasks is between {} and {}", least_tasks, most_tasks));
  }
  if (options.repetitions < 1 || std::count(options.ranks.begin(), options.ranks.end(), 0) > 0) {
    throw std::invalid_argument("--repeat and --ranks start at 1");
  }
  if (options.help) {
    Options defaults;
    fmt::print("usage: bench_engine [OPTIONS]\n\n");
    std::ostringstream text;
    text << describe(defaults);
    fmt::print("{}", text.str());
  }
  return options;
}

// All sizes of one kind of graph. Large graphs settle by themselves and get fewer
// repetitions; so does SimGrid.
void measure_sizes(const Options& options, PointSettings settings, std::FILE* table,
                   std::vector<Row>& rows) {
  double before = 0; // time a task with a tenth of the tasks
  for (std::size_t tasks = least_tasks; tasks <= options.max_tasks; tasks *= 10) {
    Row row;
    settings.tasks = tasks;
    settings.repetitions =
        tasks >= 10'000'000 ? std::min(options.repetitions, 3) : options.repetitions;
    row.settings = settings;
    row.engine = measure_engine(settings);
    const double a_task = row.engine.replay_seconds / static_cast<double>(row.engine.tasks);
    if (before > 0) {
      row.growth = a_task / before;
    }
    before = a_task;
    if (tasks <= options.simgrid) {
      settings.repetitions = std::min(options.repetitions, 3);
      row.simgrid = measure_simgrid(settings);
    }
    fmt::print(table, "{}", line_of(row));
    std::fflush(table);
    rows.push_back(row);
  }
}

void write_json(const std::string& file, const std::string& text) {
  if (file == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) {
    throw std::runtime_error(fmt::format("cannot write {}", file));
  }
}

void run(const Options& options) {
  std::FILE* const table = options.json == "-" ? stderr : stdout;
  fmt::print(table, "{}", heading());
  std::vector<Row> rows;
  for (const Contention contention : {Contention::links, Contention::hbm}) {
    for (const std::size_t ranks : options.ranks) {
      PointSettings settings;
      settings.contention = contention;
      settings.ranks = ranks;
      measure_sizes(options, settings, table, rows);
    }
  }
  if (!options.json.empty()) {
    write_json(options.json, json_of(rows));
  }
}

} // namespace

int main(int argc, char** argv) {
  try {
    const Options options = read_options(argc, argv);
    if (!options.help) {
      run(options);
    }
    return 0;
  } catch (const po::error& problem) {
    fmt::print(stderr, "bench_engine: {}; see --help\n", problem.what());
    return 2;
  } catch (const std::invalid_argument& problem) {
    fmt::print(stderr, "bench_engine: {}; see --help\n", problem.what());
    return 2;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "bench_engine: {}\n", problem.what());
    return 1;
  }
}
