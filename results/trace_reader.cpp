#include "results/trace_reader.hpp"

#include "hw_models/calibration/json_line.hpp"
#include "results/trace_input.hpp"
#include "sim/base/error.hpp"
#include "sim/base/input_file.hpp"
#include "sim/base/source_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <istream>
#include <optional>
#include <utility>

namespace spillway {
namespace {

using Json = nlohmann::json;

constexpr const char* what_is_read = "a trace of a profiler as JSON, plain or gzip";

// Each costs up to half a kilobyte of memory.
constexpr std::size_t most_events = 4'000'000;

// A whole number is written without exponent or point, however the file has it. Lists
// and objects may be nested so deeply that writing them would exhaust the stack.
std::optional<std::string> text_of(const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_number_float()) {
    constexpr double most = 1e15; // below, every whole number is exact
    const auto number = value.get<double>();
    if (std::abs(number) < most && number == std::trunc(number)) {
      return fmt::format("{}", static_cast<std::int64_t>(number));
    }
  }
  return value.is_number() || value.is_boolean() ? std::optional(value.dump()) : std::nullopt;
}

// A member as text; `absent` is what the format means by leaving it out.
std::string member(const Json& object, const char* key, const char* absent) {
  const auto found = object.find(key);
  return found == object.end() ? absent : text_of(*found).value_or(absent);
}

// Takes the events of a trace one by one, so that the whole file is never in memory.
class ChromeEvents {
public:
  ChromeEvents(std::string file, std::span<const std::string> arguments) : wanted_(arguments) {
    trace_.file = std::move(file);
  }

  void check_depth(int depth, Json::parse_event_t event) const {
    if (starts_too_deep(depth, event)) {
      throw InputError(
          fmt::format("'{}' is nested more than {} levels deep", trace_.file, most_levels),
          what_is_read);
    }
  }

  [[nodiscard]] static bool is_member(const Json& key) {
    return std::ranges::find(members, key.get_ref<const std::string&>()) != members.end();
  }
  [[nodiscard]] bool is_argument(const Json& key) const {
    const auto& name = key.get_ref<const std::string&>();
    return name == "name" || std::ranges::find(wanted_, name) != wanted_.end();
  }

  void take(const Json& event) {
    if (++taken_ > most_events) {
      throw InputError(fmt::format("'{}' has more than {} events", trace_.file, most_events),
                       "profile fewer steps");
    }
    const std::string kind = member(event, "ph", "");
    if (kind == "M") {
      take_name(event);
    } else if (kind == "X") {
      take_complete(event);
    }
  }

  RawTrace finish() {
    double first = 0;
    for (std::size_t i = 0; i < times_.size(); ++i) {
      first = i == 0 ? times_[i].start_us : std::min(first, times_[i].start_us);
    }
    for (std::size_t i = 0; i < times_.size(); ++i) {
      trace_.events[i].start = time(times_[i].start_us - first, i);
      trace_.events[i].end = trace_.events[i].start + time(times_[i].length_us, i);
    }
    for (const auto& [id, track] : tracks_) {
      trace_.tracks[track].process_id = id.first;
      trace_.tracks[track].process = processes_[id.first];
      trace_.tracks[track].name = track_names_[id];
    }
    return std::move(trace_);
  }

private:
  using TrackId = std::pair<std::string, std::string>; // pid, tid
  struct Times {
    double start_us = 0, length_us = 0;
  };

  void take_name(const Json& event) {
    const std::string what = member(event, "name", "");
    const auto arguments = event.find("args");
    if (arguments == event.end() || !arguments->is_object()) {
      return;
    }
    const std::string name = member(*arguments, "name", "");
    const std::string process = member(event, "pid", "0");
    if (what == "process_name") {
      processes_[process] = name;
    } else if (what == "thread_name") {
      track_names_[{process, member(event, "tid", "0")}] = name;
    }
  }

  void take_complete(const Json& json) {
    TraceEvent event;
    event.name = member(json, "name", "");
    event.category = member(json, "cat", "");
    times_.push_back({number(json, "ts", event.name), number(json, "dur", event.name)});
    const TrackId id{member(json, "pid", "0"), member(json, "tid", "0")};
    const auto [found, is_new] = tracks_.emplace(id, trace_.tracks.size());
    if (is_new) {
      trace_.tracks.emplace_back();
    }
    event.track = found->second;
    const auto arguments = json.find("args");
    if (arguments != json.end() && arguments->is_object()) {
      for (const std::string& name : wanted_) {
        const auto argument = arguments->find(name);
        if (argument == arguments->end()) {
          continue;
        }
        if (std::optional<std::string> text = text_of(*argument)) {
          event.arguments[name] = std::move(*text);
        }
      }
    }
    trace_.events.push_back(std::move(event));
  }

  [[nodiscard]] double number(const Json& event, const char* key, const std::string& name) const {
    const auto found = event.find(key);
    if (found == event.end() || !found->is_number()) {
      throw InputError(
          fmt::format("'{}': event '{}' has no number '{}'", trace_.file, quotable(name), key),
          "complete events need a start 'ts' and a duration 'dur' in microseconds");
    }
    return found->get<double>();
  }

  [[nodiscard]] SimTime time(double microseconds, std::size_t event) const {
    constexpr double most = 1e12; // eleven days
    if (!(microseconds >= 0) || microseconds > most) {
      throw InputError(fmt::format("'{}': event '{}' lasts or starts {:g} us after the first",
                                   trace_.file, quotable(trace_.events[event].name), microseconds),
                       "times are microseconds, and a trace lasts less than eleven days");
    }
    return SimTime{std::llround(microseconds * 1e6)};
  }

  // Whatever is read of an event.
  static constexpr std::array<std::string_view, 8> members{"ph",  "name", "cat", "ts",
                                                           "dur", "pid",  "tid", "args"};

  RawTrace trace_;
  std::size_t taken_ = 0;
  std::span<const std::string> wanted_;
  std::vector<Times> times_; // by event
  std::map<TrackId, std::size_t> tracks_;
  std::map<TrackId, std::string> track_names_;
  std::map<std::string, std::string> processes_;
};

// What the parser keeps: of each event the members that are read, so that neither the
// rest of the file nor one huge event fills the memory. `depth` is the parser's: how many
// lists and objects stand around.
class EventFilter {
public:
  using What = Json::parse_event_t;

  explicit EventFilter(ChromeEvents& events) : events_(&events) {}

  bool operator()(int depth, What what, Json& value) {
    events_->check_depth(depth, what);
    if (depth == 0) {
      in_list_ = what == What::array_start;
      depth_of_events_ = in_list_ ? 1 : 2;
      return true;
    }
    if (depth < depth_of_events_) {
      return is_list_of_events(what, value);
    }
    if (!in_list_ || what == What::array_start) {
      return false;
    }
    if (depth == depth_of_events_) {
      if (what == What::object_end) {
        events_->take(value);
      }
      return what == What::object_start;
    }
    if (depth == depth_of_events_ + 1) {
      return what != What::key || ChromeEvents::is_member(value);
    }
    return depth == depth_of_events_ + 2 && what != What::object_start &&
           (what != What::key || events_->is_argument(value));
  }

private:
  // A member of the outermost object.
  bool is_list_of_events(What what, const Json& value) {
    if (what == What::key) {
      named_ = value == "traceEvents";
    } else {
      in_list_ = named_ && what == What::array_start;
    }
    return named_ && what != What::object_start;
  }

  ChromeEvents* events_;
  bool named_ = false;      // the last key of the outermost object names the events
  bool in_list_ = false;    // the parser is in the list of events
  int depth_of_events_ = 1; // how many lists and objects stand around each
};

RawTrace read_chrome_json(std::istream& in, std::string file,
                          std::span<const std::string> arguments) {
  ChromeEvents events(std::move(file), arguments);
  EventFilter filter(events);
  [[maybe_unused]] const Json rest = Json::parse(in, std::ref(filter));
  return events.finish();
}

} // namespace

RawTrace read_trace(const std::filesystem::path& path, TraceContainer container,
                    std::span<const std::string> arguments) {
  TraceInput input(path);
  std::istream in(&input.bytes());
  try {
    switch (container) {
    case TraceContainer::chrome_json: return read_chrome_json(in, path.string(), arguments);
    }
  } catch (const Json::parse_error& error) {
    throw InputError(fmt::format("'{}' is not JSON: it stops making sense at byte {}{}",
                                 path.string(), error.byte,
                                 input.is_packed() ? " of what is packed in it" : ""),
                     what_is_read);
  } catch (const Json::out_of_range&) {
    throw InputError(fmt::format("'{}' holds a number beyond 1e308", path.string()), what_is_read);
  } catch (const std::ios_base::failure&) { // gzip_error is one
    throw InputError(
        fmt::format("'{}' is damaged or cut off: it cannot be unpacked", path.string()),
        what_is_read);
  }
  return {};
}

std::string quotable(const std::string& name) {
  constexpr std::size_t most_columns = 60;
  return printable(name, most_columns);
}

} // namespace spillway
