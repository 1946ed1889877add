#include "results/trace_reader.hpp"

#include "sim/base/error.hpp"
#include "sim/base/source_text.hpp"

#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <istream>
#include <optional>
#include <utility>

namespace spillway {
namespace {

using Json = nlohmann::json;

constexpr const char* what_is_read = "a trace of a profiler as JSON, plain or gzip";

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

  void take(const Json& event) {
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

  RawTrace trace_;
  std::span<const std::string> wanted_;
  std::vector<Times> times_; // by event
  std::map<TrackId, std::size_t> tracks_;
  std::map<TrackId, std::string> track_names_;
  std::map<std::string, std::string> processes_;
};

RawTrace read_chrome_json(std::istream& in, std::string file,
                          std::span<const std::string> arguments) {
  ChromeEvents events(std::move(file), arguments);
  bool in_list = false; // the value that is being read is the list of events
  int depth_of_events = 2;
  const auto take = [&](int depth, Json::parse_event_t what, Json& value) {
    if (depth == 0 && what == Json::parse_event_t::array_start) {
      in_list = true;
      depth_of_events = 1;
    } else if (depth == 1 && what == Json::parse_event_t::key) {
      in_list = value == "traceEvents";
      return in_list; // nothing else is kept
    } else if (in_list && depth == depth_of_events && what == Json::parse_event_t::object_end) {
      events.take(value);
      return false;
    }
    return true;
  };
  [[maybe_unused]] const Json rest = Json::parse(in, take);
  return events.finish();
}

} // namespace

RawTrace read_trace(const std::filesystem::path& path, TraceContainer container,
                    std::span<const std::string> arguments) {
  namespace io = boost::iostreams;
  std::ifstream file(path, std::ios::binary);
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status) || !file) {
    throw InputError(fmt::format("cannot read '{}'", path.string()), what_is_read);
  }
  const bool compressed = file.get() == 0x1f && file.get() == 0x8b;
  file.clear();
  file.seekg(0);
  io::filtering_istreambuf unpacked;
  if (compressed) {
    unpacked.push(io::gzip_decompressor());
  }
  unpacked.push(file);
  std::istream in(&unpacked);
  try {
    switch (container) {
    case TraceContainer::chrome_json: return read_chrome_json(in, path.string(), arguments);
    }
  } catch (const Json::parse_error& error) {
    throw InputError(fmt::format("'{}' is not JSON: it stops making sense at byte {}{}",
                                 path.string(), error.byte,
                                 compressed ? " of what is packed in it" : ""),
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
