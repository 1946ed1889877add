#include "results/replay_report.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"
#include "sim/graph_file/graph_file.hpp"
#include "sim/graph_file/replay_named.hpp"

#include <fmt/format.h>

namespace spillway {

ExitCode run_replay(const CommonOptions& options) {
  if (options.positional.empty()) {
    throw InputError("'replay' needs a task graph, a YAML file");
  }
  const std::string& file = options.positional.front();
  check_output_is_no_input(options.json, {file});
  const NamedGraph named = load_graph(file);
  const Timeline timeline = replay_named(named, file);
  if (!options.quiet) {
    for (const std::string& remark : replay_remarks(named, timeline)) {
      fmt::print(stderr, "{}\n", remark);
    }
  }
  if (!options.json.empty()) {
    write_output(options.json, replay_json(named, timeline));
  }
  if (options.prints_text()) {
    write_output("-", replay_text(file, named, timeline, static_cast<std::size_t>(options.top)));
  }
  return ExitCode::done;
}

} // namespace spillway
