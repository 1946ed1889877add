#include "sim/cli/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace spillway {
namespace {

using Options = std::vector<Option>;
using O = CommonOptions;

constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

const Options common{{"help,h", &O::help, "show this text"},
                     {"catalog", &O::catalog,
                      "look for models, hardware and scenarios in DIR first", "DIR",
                      ValueKind::folder}};

const Options quiet{{"quiet,q", &O::quiet, "no remarks on standard error"}};

const Options scenario{
    {"set", &O::set, "override a key of the scenario, e.g. batch.micro=2; repeatable",
     "PATH=VALUE"},
    {"policy", &O::policies, "only this policy; repeatable", "NAME", ValueKind::policy},
    {"no-fold", &O::no_fold,
     "replay every layer of every micro-batch one by one; the results are the same, only slower"},
    quiet.front()};

const Options threads{{"jobs", &O::jobs, "threads (default: one per processor)", "N"}};

const Options band{threads.front(),
                   {"no-band", &O::no_band, "expected values only, without low and high"}};

const Options json{{"json", &O::json, "write JSON; - is standard output", "FILE", ValueKind::file}};

const Options csv{{"csv", &O::csv, "write CSV; - is standard output", "FILE", ValueKind::file}};

const Options top{{"top", &O::top, "lines per section of the report", "N"}};

const Options several{
    {"axis", &O::axes, "run every policy for each value; several axes give all combinations",
     "PATH=V1,V2,..."},
    {"hardware", &O::hardware,
     "the scenario on each of these systems; --set hardware.KEY=V refines all of them",
     "NAME,NAME,...", ValueKind::hardware, true},
    {"break-even", &O::break_even,
     "vary these keys together and find the value at which a policy takes as long as the base, "
     "and what limits it beyond",
     "PATH[+PATH]=V1,V2,..."},
    {"base", &O::base, "policy that the others are compared with (default: the first that fits)",
     "NAME", ValueKind::policy}};

const Options explanation{
    {"faster", &O::faster,
     "say what the step would take with one resource so much faster, each in turn", "PERCENT"},
    {"task", &O::task, "explain one task instead of the step, e.g. 'd attention in layer 12 (moe)'",
     "TEXT"},
    {"rank", &O::rank, "GPU of the task, where several are simulated", "N"},
    {"occurrence", &O::occurrence,
     "which of the task's occurrences in a step, e.g. another micro-batch", "N"},
    threads.front()};

const Options cases{
    {"cases", &O::cases, "case files of this folder instead of the committed ones", "DIR",
     ValueKind::folder},
    {"profiles", &O::profiles, "measured steps, JSON lines, instead of cases", "FILE",
     ValueKind::file},
    {"hardware", &O::hardware, "what the profiles were measured on", "NAME", ValueKind::hardware},
    {"framework", &O::framework,
     "what ran the profiles (default: the framework that says runs_profiles)", "NAME",
     ValueKind::framework},
    {"against", &O::against,
     "compare one record with this trace of a profiler (JSON, plain or gzip, up to 1 GiB "
     "unpacked), class by class; without a tolerance, so the exit status is 0",
     "TRACE", ValueKind::file},
    {"record", &O::record, "which record the trace is of (default: the only one)", "ID"},
    {"step", &O::step, "which step of the trace, from 1 (default: the last)", "N"},
    {"trace-format", &O::trace_format,
     "what wrote the trace (default: the format whose device it has)", "NAME",
     ValueKind::trace_format}};

const Options calibration{
    {"output,o", &O::output, "hardware file to write; ends in .yaml", "FILE", ValueKind::file},
    {"name", &O::name, "name of the hardware (default: the file's, without .yaml)", "NAME"},
    {"base", &O::base, "hardware, by name or file, that says what is not measured", "NAME",
     ValueKind::hardware},
    {"tables", &O::tables, "write the kernel tables as files of their own into DIR", "DIR",
     ValueKind::folder},
    {"source", &O::source, "title of the source (default: micro-benchmarks on one, and the device)",
     "TEXT"},
    quiet.front()};

const Options planning{
    {"set", &O::set, "override a key of the scenario, e.g. gpus=256; repeatable", "PATH=VALUE"},
    {"micro-batch", &O::micro_batch,
     "micro-batches to choose from (default: all that divide the global batch)",
     "N,N,...|FIRST:LAST"},
    {"free-batch", &O::free_batch,
     "leave batch.accumulation alone, so that the global batch varies with the micro-batch"},
    {"axis", &O::axes, "let this key vary as well; several give all combinations",
     "PATH=V1,V2,..."},
    {"pin", &O::pins,
     "this fate for a tensor, in all layers or as KIND.NAME in one kind; repeatable", "NAME=FATE"},
    {"hbm-limit", &O::hbm_limit, "no more HBM per GPU than this", "BYTES"},
    {"host-limit", &O::host_limit, "no more pinned host memory per GPU than this", "BYTES"},
    {"gap", &O::gap, "stop when no more than so many percent could be gained (default: 0.5)",
     "PERCENT"},
    {"replays", &O::replays, "stop after about so many replays", "N"},
    {"time-limit", &O::time_limit,
     "stop the search after so many seconds; what is found then depends on the machine", "SECONDS"},
    {"brief", &O::brief, "only the plan, not what goes with it"},
    {"no-fold", &O::no_fold,
     "replay every layer of every micro-batch one by one; the results are the same, only slower"},
    quiet.front(),
    threads.front()};

Options with(std::initializer_list<Options> groups) {
  Options all = common;
  for (const Options& group : groups) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

const Argument one_scenario{"SCENARIO", ValueKind::scenario, 1};

const std::vector<Command> table{
    {"run", one_scenario, "simulate one policy: does it fit, how fast is it, what holds memory",
     run_run, with({scenario, band, json, csv})},
    {"compare", one_scenario, "set policies side by side; --axis varies settings", run_compare,
     with({scenario, band, json, csv, several})},
    {"plan", one_scenario,
     "find the fastest policy that fits: what to keep, recompute and offload, at which "
     "micro-batch, and why",
     run_plan, with({planning, json, csv, top})},
    {"explain", one_scenario,
     "say what a step waits for and what would make it faster; --task: one task of it", run_explain,
     with({scenario, json, top, explanation})},
    {"validate",
     {},
     "compare predictions with published figures, or with measured steps and traces",
     run_validate,
     with({json, cases})},
    {"calibrate",
     {"MEASUREMENTS...", ValueKind::file, any_number},
     "turn micro-benchmark records into a hardware file",
     run_calibrate,
     with({json, calibration})},
    {"replay",
     {"FILE", ValueKind::file, 1},
     "replay a task graph of your own, and say what decides its time",
     run_replay,
     with({quiet, json, top})},
    {"infer",
     {"QUESTION", ValueKind::file, 1},
     "find the settings that agree with what a publication says of memory, and what they predict",
     run_infer,
     with({quiet, threads, json, csv, top})},
    {"catalog",
     {"[NAME]", ValueKind::entry, 1},
     "list models, hardware, frameworks, scenarios and trace formats, or show one's sources",
     run_catalog,
     with({})},
    {"fields", {}, "list the fields of a result, with units", run_fields, with({})},
    {"completion",
     {"SHELL", ValueKind::shell, 1},
     "write the completion script for bash, zsh or fish",
     run_completion,
     with({})},
    {"man", {}, "write the manual page", run_man, with({})},
};

} // namespace

std::string Option::long_name() const {
  const std::string_view both = name;
  return fmt::format("--{}", both.substr(0, both.find(',')));
}

std::string Option::letter() const {
  const std::string_view both = name;
  const std::size_t comma = both.find(',');
  return comma == std::string_view::npos ? "" : fmt::format("-{}", both.substr(comma + 1));
}

std::string Command::usage() const {
  return fmt::format("spillway {}{}{} [OPTIONS]", name, *argument.shown == '\0' ? "" : " ",
                     argument.shown);
}

const std::vector<Command>& command_table() {
  return table;
}

const Command* find_command(std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Command& command) { return name == command.name; });
  return found == table.end() ? nullptr : &*found;
}

const std::vector<Option>& common_options() {
  return common;
}

} // namespace spillway
