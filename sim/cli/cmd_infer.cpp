#include "results/inference.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace spillway {
namespace {

// A line for every tenth of the work.
class Progress {
public:
  Progress(std::size_t total, bool quiet) : total_(total), quiet_(quiet) {}
  void operator()(std::size_t done) {
    const std::size_t tenth = done * 10 / total_;
    const std::lock_guard lock(mutex_);
    if (!quiet_ && tenth > shown_) {
      shown_ = tenth;
      fmt::print(stderr, "infer: {} of {} combinations\n", done, total_);
    }
  }

private:
  std::size_t total_, shown_ = 0;
  bool quiet_;
  std::mutex mutex_;
};

} // namespace

ExitCode run_infer(const CommonOptions& options) {
  if (options.positional.empty()) {
    throw InputError("'infer' needs a question, a YAML file",
                     "README says what is in one; results/studies has one");
  }
  const std::string& file = options.positional.front();
  check_output_is_no_input(options.json, {file});
  check_output_is_no_input(options.csv, {file});
  const Question question = load_question(file);
  Progress progress(question.combinations(), options.quiet);
  const Inference inference =
      infer(Catalog(data_roots(options.catalog)), question, thread_count(options),
            [&](std::size_t done) { progress(done); });
  if (!options.json.empty()) {
    write_output(options.json, inference_json(question, inference));
  }
  if (!options.csv.empty()) {
    write_output(options.csv, inference_csv(question, inference));
  }
  if (options.prints_text()) {
    write_output("-", inference_text(question, inference, static_cast<std::size_t>(options.top)));
  }
  const bool any = std::any_of(inference.settings.begin(), inference.settings.end(),
                               [](const Setting& setting) { return !setting.contradicts; });
  return any ? ExitCode::done : ExitCode::no;
}

} // namespace spillway
