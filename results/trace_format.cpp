#include "results/trace_format.hpp"

#include <fmt/format.h>

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <list>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace spillway {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

TraceRule read_rule(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, activity_class_count> names{
      "matmul", "attention_forward", "attention_backward", "memory", "store", "reload", "ignore"};
  static const std::array<ActivityClass, names.size()> kinds{ActivityClass::matmul,
                                                             ActivityClass::attention_forward,
                                                             ActivityClass::attention_backward,
                                                             ActivityClass::memory,
                                                             ActivityClass::store,
                                                             ActivityClass::reload,
                                                             ActivityClass::unclassified};
  static const std::array<std::string, 2> doers{"engine", "kernel"};
  MapReader in(node, "class of events", diagnostics);
  TraceRule rule;
  const std::size_t named = in.choice("class", names);
  rule.kind = kinds[named];
  rule.ignored = names[named] == "ignore";
  rule.patterns = in.text_list_or_empty("events");
  if (rule.patterns.empty()) {
    in.error("events", "'events' must be a list of patterns");
  }
  if (in.has("by")) {
    rule.by_kernel = in.choice("by", doers) == 1;
    if (!is_copy(rule.kind)) {
      in.error("by", "'by' goes with class store or reload");
    }
  }
  if (in.has("counted") && rule.ignored) {
    in.error("counted", "'counted' means nothing with class ignore");
  }
  rule.counted = in.boolean_or("counted", true);
  if (in.has("category")) {
    rule.category = in.text("category");
  }
  in.finish();
  return rule;
}

// "size:1024 kind:x" with after "size:" is 1024.
std::optional<Bytes> size_of(const TraceFormat& format, const TraceEvent& event) {
  const auto argument = event.arguments.find(format.size_argument);
  if (argument == event.arguments.end()) {
    return std::nullopt;
  }
  const std::string& text = argument->second;
  const std::size_t at = text.find(format.size_after);
  if (at == std::string::npos) {
    return std::nullopt;
  }
  constexpr std::int64_t most = 1'000'000'000'000'000; // no GPU has a petabyte
  const char* const end = text.data() + text.size();
  std::int64_t bytes = -1;
  const char* const rest =
      std::from_chars(text.data() + at + format.size_after.size(), end, bytes).ptr;
  const bool whole = rest == end || *rest == ' ' || *rest == ','; // "1e+20" and "1.5" are not
  return !whole || bytes < 0 || bytes > most ? std::nullopt : std::optional(Bytes{bytes});
}

bool is_for(const TraceRule& rule, const TraceEvent& event) {
  return (!rule.category || matches(*rule.category, event.category)) &&
         std::any_of(rule.patterns.begin(), rule.patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, event.name); });
}

// None of an event that is to be ignored.
std::optional<Activity> activity_of(const TraceFormat& format, const TraceEvent& event) {
  Activity activity;
  activity.name = event.name;
  activity.start = event.start;
  activity.end = event.end;
  const auto rule = std::find_if(format.rules.begin(), format.rules.end(),
                                 [&](const TraceRule& one) { return is_for(one, event); });
  if (rule != format.rules.end()) {
    if (rule->ignored) {
      return std::nullopt;
    }
    activity.kind = rule->kind;
    activity.by_kernel = rule->by_kernel;
    activity.counted = rule->counted;
  }
  if (is_copy(activity.kind)) {
    activity.bytes = size_of(format, event);
  }
  return activity;
}

// What a trace without a device has instead.
std::string processes_text(const RawTrace& trace) {
  std::set<std::string> names;
  for (const TraceTrack& track : trace.tracks) {
    if (!track.process.empty()) {
      names.insert(quotable(track.process));
    }
  }
  if (trace.events.empty()) {
    return "it holds no events with a duration";
  }
  return names.empty() ? "its processes have no names"
                       : fmt::format("its processes: {}", fmt::join(names, ", "));
}

// One track of the device that is compared; none without a device.
const TraceTrack* device_of(const RawTrace& trace, const TraceFormat& format) {
  const auto order = [&](const TraceTrack& track) {
    return std::tuple(!matches(format.device_track, track.name), track.process.size(),
                      std::string_view(track.process));
  };
  const TraceTrack* first = nullptr; // of equal ones the first in the file
  for (const TraceTrack& track : trace.tracks) {
    if (matches(format.device_process, track.process) &&
        (first == nullptr || order(track) < order(*first))) {
      first = &track;
    }
  }
  return first;
}

std::string device_name(const RawTrace& trace, const TraceTrack& device) {
  const bool shared =
      std::any_of(trace.tracks.begin(), trace.tracks.end(), [&](const TraceTrack& track) {
        return track.process == device.process && track.process_id != device.process_id;
      });
  return shared ? fmt::format("{} of process {}", device.process, device.process_id)
                : device.process;
}

// Events of the tracks that `is_ours` takes, by start.
template <class IsOurs>
std::vector<const TraceEvent*> events_of(const RawTrace& trace, const IsOurs& is_ours) {
  std::vector<const TraceEvent*> events;
  for (const TraceEvent& event : trace.events) {
    if (is_ours(trace.tracks[event.track], event)) {
      events.push_back(&event);
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent* a, const TraceEvent* b) { return a->start < b->start; });
  return events;
}

struct FormattedTrace {
  const RawTrace* trace;
  const TraceFormat* format;
};

// `candidates`: every format with the trace that was read in its container.
FormattedTrace the_fitting(const std::vector<FormattedTrace>& candidates) {
  std::vector<FormattedTrace> fitting;
  std::string patterns;
  std::string names;
  for (const FormattedTrace& one : candidates) {
    patterns += fmt::format("{}'{}' ({})", patterns.empty() ? "" : ", ", one.format->device_process,
                            one.format->name);
    if (device_of(*one.trace, *one.format) != nullptr) {
      fitting.push_back(one);
      names += (names.empty() ? "" : ", ") + one.format->name;
    }
  }
  const RawTrace& trace = *candidates.front().trace;
  if (fitting.empty()) {
    throw InputError(
        fmt::format("'{}' has no process of a GPU, which is named {}", trace.file, patterns),
        processes_text(trace));
  }
  if (fitting.size() > 1) {
    throw InputError(fmt::format("'{}' could be of trace formats {}", trace.file, names),
                     "--trace-format says which");
  }
  return fitting.front();
}

[[noreturn]] void refuse_without_steps(const DeviceTrace& trace, const TraceFormat& format) {
  throw InputError(
      fmt::format("'{}' has no steps: nothing on {} tracks '{}' follows an event '{}' of process "
                  "'{}'",
                  trace.file, quotable(trace.device), format.device_track, format.step_event,
                  format.step_process),
      fmt::format("as trace format {} has it", format.name));
}

DeviceTrace split_into_steps(const RawTrace& trace, const TraceFormat& format) {
  const TraceTrack& chosen = *device_of(trace, format);
  DeviceTrace device{trace.file, format.name, device_name(trace, chosen), {}};
  const auto events = events_of(trace, [&](const TraceTrack& track, const TraceEvent&) {
    return track.process_id == chosen.process_id && matches(format.device_track, track.name);
  });
  const auto marks = events_of(trace, [&](const TraceTrack& track, const TraceEvent& event) {
    return matches(format.step_process, track.process) && matches(format.step_event, event.name);
  });
  auto event = events.begin();
  SimTime busy_until{0};
  std::vector<Activity> step; // since the last mark; what comes before the first is no step
  bool in_step = false;
  const auto add = [&](const TraceEvent& one) {
    if (std::optional<Activity> activity = activity_of(format, one)) {
      step.push_back(std::move(*activity));
      busy_until = std::max(busy_until, one.end);
    }
  };
  const auto end_step = [&] {
    if (in_step && !step.empty()) {
      device.steps.push_back(std::move(step));
    }
    step.clear();
  };
  for (const TraceEvent* mark : marks) {
    for (; event != events.end() && (*event)->start < mark->start; ++event) {
      add(**event);
    }
    if (busy_until > mark->start) {
      throw InputError(fmt::format("'{}': the host calls '{}' while {} still runs what came before",
                                   trace.file, quotable(mark->name), quotable(device.device)),
                       "steps are told apart where the host waits for each of them");
    }
    end_step();
    in_step = true;
  }
  for (; event != events.end(); ++event) {
    add(**event);
  }
  end_step();
  if (device.steps.empty()) {
    refuse_without_steps(device, format);
  }
  return device;
}

} // namespace

TraceFormat read_trace_format(const YamlNode& node, Diagnostics& diagnostics) {
  static const std::array<std::string, 1> file_kinds{"trace_format"};
  static const std::array<std::string, 1> containers{"chrome_json"};
  MapReader in(node, "trace_format", diagnostics);
  TraceFormat format;
  static_cast<void>(in.choice("kind", file_kinds));
  format.name = in.text("name");
  format.title = in.text_or("title", format.name);
  format.source = in.text("source");
  format.container = static_cast<TraceContainer>(in.choice("container", containers));
  if (const YamlNode* child = in.required_child("device")) {
    MapReader device(*child, "device", diagnostics);
    format.device_process = device.text("process");
    format.device_track = device.text_or("track", "*");
    device.finish();
  }
  if (const YamlNode* child = in.required_child("step")) {
    MapReader step(*child, "step", diagnostics);
    format.step_process = step.text("process");
    format.step_event = step.text("event");
    step.finish();
  }
  if (const YamlNode* child = in.child("copy_size")) {
    MapReader size(*child, "copy_size", diagnostics);
    format.size_argument = size.text("argument");
    format.size_after = size.text_or("after", "");
    size.finish();
  }
  if (const YamlNode* classes = in.required_child("classes")) {
    for (const YamlNode& item : classes->items) {
      format.rules.push_back(read_rule(item, diagnostics));
    }
    if (!classes->is_sequence() || classes->items.empty()) {
      in.error("classes", "'classes' must be a list of {class, events}");
    }
  }
  in.finish();
  return format;
}

std::vector<TraceFormat> load_trace_formats(const Catalog& catalog, const std::string& name) {
  std::vector<TraceFormat> formats;
  Diagnostics diagnostics;
  for (const std::string& one :
       name.empty() ? catalog.names(CatalogKind::trace_format) : std::vector<std::string>{name}) {
    formats.push_back(read_trace_format(
        catalog.load_file(CatalogKind::trace_format, catalog.find(CatalogKind::trace_format, one)),
        diagnostics));
  }
  diagnostics.throw_if_any();
  return formats;
}

DeviceTrace load_device_trace(const std::filesystem::path& path,
                              const std::vector<TraceFormat>& formats) {
  // All formats of one container are told apart in one reading of the file.
  std::map<TraceContainer, std::vector<const TraceFormat*>> by_container;
  for (const TraceFormat& format : formats) {
    by_container[format.container].push_back(&format);
  }
  std::list<RawTrace> traces; // candidates point into it
  std::vector<FormattedTrace> candidates;
  std::optional<InputError> unreadable; // in the first container
  for (const auto& [container, members] : by_container) {
    std::vector<std::string> arguments;
    for (const TraceFormat* format : members) {
      arguments.push_back(format->size_argument);
    }
    try {
      traces.push_back(read_trace(path, container, arguments));
    } catch (const InputError& error) {
      unreadable = unreadable.value_or(error);
      continue;
    }
    for (const TraceFormat* format : members) {
      candidates.push_back({&traces.back(), format});
    }
  }
  if (candidates.empty()) {
    throw unreadable ? *unreadable : InputError("there is no trace format to read a trace in");
  }
  const FormattedTrace found = the_fitting(candidates);
  return split_into_steps(*found.trace, *found.format);
}

} // namespace spillway
