#include "results/planning/plan_answers.hpp"
#include "results/report_text.hpp"
#include "results/write.hpp"
#include "sim/cli/axes.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace spillway {
namespace {

constexpr const char* micro_key = "batch.micro";
constexpr const char* accumulation_key = "batch.accumulation";
constexpr std::int64_t most_micro_batches = 64;

std::int64_t whole_number(const std::string& text, const std::string& option) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size() || number < 1) {
    throw InputError(fmt::format("{}: '{}' is not a number of sequences", option, text),
                     "for example --micro-batch 1,2,4 or --micro-batch 1:16");
  }
  return number;
}

// "1,2,4" or "1:16"; empty: what divides the global batch of a GPU.
std::vector<std::int64_t> micro_batches(const std::string& text, std::int64_t sequences) {
  std::vector<std::int64_t> all;
  const std::vector<std::string> range = split(text, ':');
  if (text.empty()) {
    for (std::int64_t micro = 1; micro <= sequences; ++micro) {
      if (sequences % micro == 0) {
        all.push_back(micro);
      }
    }
    return all;
  }
  if (range.size() == 2) {
    const std::int64_t last = whole_number(range[1], "--micro-batch");
    for (std::int64_t micro = whole_number(range[0], "--micro-batch");
         micro <= last && std::ssize(all) <= most_micro_batches; ++micro) {
      all.push_back(micro);
    }
  } else {
    for (const std::string& one : split(text, ',')) {
      all.push_back(whole_number(one, "--micro-batch"));
    }
  }
  std::vector<std::int64_t> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    throw InputError(fmt::format("--micro-batch {}: {} is there twice", text, *twice));
  }
  if (all.empty() || std::ssize(all) > most_micro_batches) {
    throw InputError(
        fmt::format("--micro-batch {}: between 1 and {} of them", text, most_micro_batches),
        "for example --micro-batch 1,2,4 or --micro-batch 1:16");
  }
  return all;
}

void refuse_micro_axis(const CommonOptions& options) {
  for (const std::string& axis : options.axes) {
    for (const char* key : {micro_key, accumulation_key}) {
      if (axis.starts_with(std::string(key) + "=")) {
        throw InputError(fmt::format("--axis {}: micro-batches are varied by --micro-batch", axis),
                         "for example --micro-batch 1,2,4 or --micro-batch 1:16");
      }
    }
  }
}

// Every combination of --axis with every micro-batch; the global batch stays unless
// --free-batch says otherwise.
std::vector<Assignments> settings_of(const CommonOptions& options, const Scenario& scenario) {
  refuse_micro_axis(options);
  const std::int64_t sequences = scenario.batch.micro * scenario.batch.accumulation;
  const std::vector<std::int64_t> micro =
      micro_batches(options.micro_batch, options.free_batch ? scenario.batch.micro : sequences);
  std::vector<Assignments> settings;
  for (const Assignments& axes : combinations(options.axes)) {
    for (const std::int64_t m : micro) {
      Assignments own = axes;
      own.emplace_back(micro_key, std::to_string(m));
      if (!options.free_batch) {
        if (sequences % m != 0) {
          throw InputError(fmt::format("--micro-batch {}: the global batch, {} sequences a GPU, is "
                                       "no multiple of it",
                                       m, sequences),
                           "--free-batch lets the global batch vary");
        }
        own.emplace_back(accumulation_key, std::to_string(sequences / m));
      }
      settings.push_back(std::move(own));
    }
  }
  return settings;
}

Pins pins_of(const CommonOptions& options) {
  Pins pins;
  for (const std::string& text : options.pins) {
    const std::size_t equals = text.find('=');
    std::optional<Fate> fate;
    for (const Fate one : {Fate::keep, Fate::recompute, Fate::offload}) {
      if (equals != std::string::npos && text.substr(equals + 1) == fate_name(one)) {
        fate = one;
      }
    }
    if (!fate || equals == 0) {
      throw InputError(fmt::format("--pin '{}' is not NAME=keep, recompute or offload", text),
                       "for example --pin query_proj=offload or --pin moe.query_proj=keep");
    }
    if (!pins.emplace(text.substr(0, equals), *fate).second) {
      throw InputError(fmt::format("--pin: '{}' is pinned twice", text.substr(0, equals)));
    }
  }
  return pins;
}

std::optional<double> bytes_option(const std::string& text, const char* option) {
  if (text.empty()) {
    return std::nullopt;
  }
  const ParsedQuantity bytes = parse_quantity(text, Dimension::bytes, option);
  if (!bytes.error.empty()) {
    throw InputError(bytes.error, fmt::format("for example {} '120 GB'", option));
  }
  return bytes.value;
}

double positive_number(const std::string& text, const char* option, const char* what) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size() || !(number >= 0) ||
      !(number < 1e9)) {
    throw InputError(fmt::format("{} '{}' is no {}", option, text, what),
                     fmt::format("for example {} 1", option));
  }
  return number;
}

PlanQuestion question_of(const CommonOptions& options, const Scenario& scenario) {
  PlanQuestion question;
  question.settings = settings_of(options, scenario);
  question.load = [options](const Assignments& settings) {
    CommonOptions own = options;
    for (const auto& [path, value] : settings) {
      own.set.push_back(fmt::format("{}={}", path, value));
    }
    return load_from(own);
  };
  question.pins = pins_of(options);
  question.hbm_limit = bytes_option(options.hbm_limit, "--hbm-limit");
  question.host_limit = bytes_option(options.host_limit, "--host-limit");
  question.most_replays = static_cast<std::size_t>(options.replays);
  question.enough_gap = positive_number(options.gap, "--gap", "number of percent") / 100;
  if (question.enough_gap >= 1) {
    throw InputError(fmt::format("--gap must be below 100, not {}", options.gap));
  }
  if (!options.time_limit.empty()) {
    question.time_limit = std::chrono::duration<double>(
        positive_number(options.time_limit, "--time-limit", "number of seconds"));
  }
  question.folding = options.folding();
  return question;
}

// One line that is written over, on a terminal only.
class ProgressLine {
public:
  explicit ProgressLine(bool quiet) : shown_(!quiet && ::isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const PlanProgress& progress) const {
    if (shown_) {
      fmt::print(stderr, "\r\033[Kplan: {} replayed, best {}, {:.2f} % could be left",
                 progress.replays,
                 progress.best ? fmt::format("{:.0f} tokens/s", *progress.best) : "none yet",
                 100 * progress.gap);
    }
  }
  void clear() const {
    if (shown_) {
      fmt::print(stderr, "\r\033[K");
    }
  }

private:
  bool shown_;
};

} // namespace

ExitCode run_plan(const CommonOptions& options) {
  const Scenario scenario = load_from(options);
  const PlanQuestion question = question_of(options, scenario);
  const unsigned threads = thread_count(options);
  PlanAnswer answer;
  std::optional<PlanAnswers> answers;
  {
    const ProgressLine line(options.quiet);
    answer =
        find_plan(question, threads, [&](const PlanProgress& progress) { line.show(progress); });
    if (answer.best && !options.brief) {
      answers = explain_plan(question, answer, threads);
    }
  }
  if (!options.json.empty()) {
    write_output(options.json, plan_json(question, answer, answers));
  }
  if (!options.csv.empty()) {
    std::vector<ResultRow> rows;
    for (const Replayed& replayed : answer.replayed) {
      rows.push_back({answer.settings[replayed.setting].settings, replayed.result});
    }
    write_output(options.csv, results_csv(rows));
  }
  if (options.prints_text()) {
    write_output("-",
                 scenario_text(scenario) + runtime_text(scenario) + "\n" +
                     plan_text(question, answer, answers, static_cast<std::size_t>(options.top)));
  }
  return answer.best ? ExitCode::done : ExitCode::no;
}

} // namespace spillway
