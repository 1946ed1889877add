#include "results/trace_compare.hpp"

#include "results/text_table.hpp"
#include "sim/base/source_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<ActivityClass, 5> kernel_classes{
    ActivityClass::matmul, ActivityClass::attention_forward, ActivityClass::attention_backward,
    ActivityClass::memory, ActivityClass::unclassified};

double seconds(SimTime time) {
  return to_seconds(time).count();
}

// ---- Text ----

// One unit for all rows, so that differences can be compared at a glance.
std::string milliseconds(SimTime time) {
  return fmt::format("{:.2f} ms", 1e3 * seconds(time));
}

std::string signed_text(double value, int digits) {
  const std::string text = fmt::format("{:+.{}f}", value, digits);
  return text.find_first_of("123456789") == std::string::npos ? "+" + text.substr(1) : text;
}

// A row of times; the last cell says what the times do not.
void add_times(TextTable& table, const std::string& title, SimTime trace, SimTime predicted,
               const std::string& note = {}) {
  const double difference = seconds(predicted - trace);
  table.add({title, milliseconds(trace), milliseconds(predicted),
             signed_text(1e3 * difference, 2) + " ms",
             trace == SimTime{0} ? "-" : signed_text(100 * difference / seconds(trace), 1) + " %",
             note});
}

std::string count_note(std::int64_t trace, std::int64_t predicted) {
  return trace == predicted ? fmt::format("{} in both", trace)
                            : fmt::format("{}, predicted {}", trace, predicted);
}

bool has_copies(const TraceComparison& c) {
  return c.trace.stores.count + c.trace.reloads.count + c.predicted.stores.count +
             c.predicted.reloads.count >
         0;
}

// "; 690 and 701 TFLOP/s": the predicted products in the time of either side.
std::string rate_note(const TraceComparison& c) {
  const double trace = seconds(c.trace.of(ActivityClass::matmul).busy);
  const double predicted = seconds(c.predicted.of(ActivityClass::matmul).busy);
  if (trace == 0 || predicted == 0) {
    return "";
  }
  return fmt::format("; {:.0f} and {:.0f} TFLOP/s", c.matmul_flops / trace / 1e12,
                     c.matmul_flops / predicted / 1e12);
}

void add_classes(TextTable& table, const TraceComparison& c) {
  for (const ActivityClass kind : kernel_classes) {
    const KernelTotal& trace = c.trace.of(kind);
    const KernelTotal& predicted = c.predicted.of(kind);
    if (kind == ActivityClass::unclassified && trace.count == 0) {
      continue;
    }
    std::string note;
    if (kind != ActivityClass::memory && kind != ActivityClass::unclassified) {
      note = count_note(trace.count, predicted.count);
    }
    if (kind == ActivityClass::matmul) {
      note += rate_note(c);
    }
    add_times(table, activity_class_title(kind), trace.busy, predicted.busy, note);
  }
  if (has_copies(c)) {
    add_times(table, "exposed copies", c.trace.exposed, c.predicted.exposed);
  }
  add_times(table, "idle", c.trace.idle, c.predicted.idle);
  add_times(table, "step", c.trace.step, c.predicted.step);
}

void add_copies(TextTable& table, ActivityClass kind, const CopyTotal& trace,
                const CopyTotal& predicted) {
  if (trace.count == 0 && predicted.count == 0) {
    return;
  }
  const auto text = [](std::optional<double> value, const auto& format) {
    return value ? format(*value) : std::string("-");
  };
  const auto percent = [](double value) { return fmt::format("{:.1f} %", 100 * value); };
  table.add_rule();
  add_times(table, activity_class_title(kind), trace.busy, predicted.busy,
            count_note(trace.count, predicted.count));
  add_times(table, "  exposed", trace.exposed, predicted.exposed);
  add_times(table, "  done by kernels", trace.by_kernels, predicted.by_kernels);
  table.add({"  hidden", text(trace.hidden_fraction(), percent),
             text(predicted.hidden_fraction(), percent), "", "", ""});
  const std::optional<double> measured = trace.bytes_per_second();
  const std::optional<double> expected = predicted.bytes_per_second();
  table.add({"  rate of the engine", text(measured, format_byte_rate),
             text(expected, format_byte_rate), "",
             measured && expected ? signed_text(100 * (*expected / *measured - 1), 1) + " %" : "",
             ""});
}

// What no pattern of the format matches, most time first.
std::string unclassified_text(const TraceComparison& c) {
  constexpr std::size_t most = 10;
  TextTable table;
  table.last_column_left = true;
  std::size_t found = 0;
  for (const NameTotal& name : c.trace.names) {
    if (name.kind == ActivityClass::unclassified && ++found <= most) {
      table.add({"  " + milliseconds(name.busy), fmt::format("{}", name.count),
                 name.name.empty() ? "(no name)" : printable(name.name, 100)});
    }
  }
  if (found == 0) {
    return "";
  }
  const std::string rest =
      found > most ? fmt::format("  and {} more names\n", found - most) : std::string();
  return fmt::format("\nno class of trace format {}\n", c.format) + table.render() + rest;
}

// ---- JSON ----

Json optional_number(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

void put_times(Json& json, const std::string& prefix, SimTime trace, SimTime predicted) {
  json["trace" + prefix + "_s"] = seconds(trace);
  json["predicted" + prefix + "_s"] = seconds(predicted);
}

Json classes_json(const TraceComparison& c) {
  Json list = Json::array();
  const auto add = [&](const char* name, SimTime trace, SimTime predicted) -> Json& {
    Json one;
    one["class"] = name;
    put_times(one, "", trace, predicted);
    one["difference_percent"] =
        trace == SimTime{0} ? Json(nullptr) : Json(100 * (seconds(predicted) / seconds(trace) - 1));
    list.push_back(std::move(one));
    return list.back();
  };
  for (const ActivityClass kind : kernel_classes) {
    Json& one = add(activity_class_name(kind), c.trace.of(kind).busy, c.predicted.of(kind).busy);
    one["trace_count"] = c.trace.of(kind).count;
    one["predicted_count"] = c.predicted.of(kind).count;
  }
  add("exposed_copies", c.trace.exposed, c.predicted.exposed);
  add("idle", c.trace.idle, c.predicted.idle);
  add("step", c.trace.step, c.predicted.step);
  return list;
}

Json copies_json(const char* direction, const CopyTotal& trace, const CopyTotal& predicted) {
  Json json;
  json["direction"] = direction;
  json["trace_count"] = trace.count;
  json["predicted_count"] = predicted.count;
  put_times(json, "", trace.busy, predicted.busy);
  put_times(json, "_exposed", trace.exposed, predicted.exposed);
  put_times(json, "_by_kernels", trace.by_kernels, predicted.by_kernels);
  json["trace_hidden_fraction"] = optional_number(trace.hidden_fraction());
  json["predicted_hidden_fraction"] = optional_number(predicted.hidden_fraction());
  json["trace_bytes_per_s"] = optional_number(trace.bytes_per_second());
  json["predicted_bytes_per_s"] = optional_number(predicted.bytes_per_second());
  return json;
}

Json names_json(const std::vector<NameTotal>& names) {
  Json list = Json::array();
  for (const NameTotal& name : names) {
    list.push_back({{"name", name.name},
                    {"class", activity_class_name(name.kind)},
                    {"count", name.count},
                    {"time_s", seconds(name.busy)}});
  }
  return list;
}

} // namespace

const ProfileRecord& chosen_record(const std::vector<ProfileRecord>& records,
                                   const std::string& id) {
  if (id.empty() && records.size() == 1) {
    return records.front();
  }
  std::vector<std::string> ids;
  ids.reserve(records.size());
  for (const ProfileRecord& record : records) {
    ids.push_back(record.id);
  }
  if (id.empty()) {
    throw InputError(fmt::format("a trace is of one step, but there are {} records", ids.size()),
                     fmt::format("--record says which, as the first column of the report names "
                                 "it: '{}'",
                                 ids.front()));
  }
  const auto found = std::find(ids.begin(), ids.end(), id);
  if (found == ids.end()) {
    throw InputError(fmt::format("unknown record '{}'", id), suggestion(id, ids));
  }
  return records[static_cast<std::size_t>(found - ids.begin())];
}

std::size_t chosen_step(const DeviceTrace& trace, std::optional<std::int64_t> step) {
  const auto count = static_cast<std::int64_t>(trace.steps.size());
  if (step && (*step < 1 || *step > count)) {
    throw InputError(fmt::format("'{}' has {} step{}, so --step must be {}, not {}", trace.file,
                                 count, count == 1 ? "" : "s",
                                 count == 1 ? "1" : fmt::format("between 1 and {}", count), *step));
  }
  return static_cast<std::size_t>(step.value_or(count));
}

TraceComparison compare_with_trace(const ProfileRecord& record, const Device& device,
                                   const FrameworkSpec& framework, const DeviceTrace& trace,
                                   std::size_t step) {
  RateCache cache;
  const Scenario scenario = profile_scenario(record, device, framework);
  const Simulation run = simulate(scenario, scenario.policies.front(), cache, Folding::off);
  TraceComparison c;
  c.record = record.id;
  c.hardware = device.name;
  c.file = trace.file;
  c.format = trace.format;
  c.device = trace.device;
  c.step = step;
  c.steps = trace.steps.size();
  c.trace = total(trace.steps[step - 1]);
  c.predicted = total(activities_of(run));
  c.clock_speed = run.result.clock_speed;
  for (TaskId task = 0; task < run.lowered.tasks.size(); ++task) {
    const TaskPrice& price = run.lowered.prices[task];
    if (price.of == PriceOf::work && run.lowered.tasks[task].rank == 0 &&
        run.lowered.works[price.work].kind == WorkKind::matmul) {
      c.matmul_flops += run.lowered.works[price.work].flops().value();
    }
  }
  return c;
}

std::string trace_comparison_text(const TraceComparison& c) {
  std::string text = fmt::format("{} on {}, against step {} of {} of\n{} ({}, trace format {})\n\n",
                                 printable(c.record), c.hardware, c.step, c.steps, c.file,
                                 printable(c.device, 100), c.format);
  TextTable table;
  table.last_column_left = true;
  table.add({"", "trace", "predicted", "difference", "", ""});
  table.add_rule();
  add_classes(table, c);
  add_copies(table, ActivityClass::store, c.trace.stores, c.predicted.stores);
  add_copies(table, ActivityClass::reload, c.trace.reloads, c.predicted.reloads);
  text += table.render();
  text += fmt::format("\nA step is what the device does between two calls of the host, without the "
                      "gap between steps.\nCopies are exposed while no kernel runs. Predicted "
                      "clock of matmul and attention: {:.3f}\nof the kernel tables'.\n",
                      c.clock_speed);
  return text + unclassified_text(c);
}

std::string trace_comparison_json(const TraceComparison& c) {
  Json json;
  json["record"] = c.record;
  json["trace"] = c.file;
  json["trace_format"] = c.format;
  json["device"] = c.device;
  json["step"] = c.step;
  json["steps"] = c.steps;
  json["predicted_clock_speed"] = c.clock_speed;
  json["predicted_matmul_flops"] = c.matmul_flops;
  json["classes"] = classes_json(c);
  json["copies"] = {copies_json("d2h", c.trace.stores, c.predicted.stores),
                    copies_json("h2d", c.trace.reloads, c.predicted.reloads)};
  json["trace_kernels"] = names_json(c.trace.names);
  json["predicted_kernels"] = names_json(c.predicted.names);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

} // namespace spillway
