// Traces of profilers as they stand in a file: processes, tracks, events. What the
// names mean says a trace format (results/trace_format.hpp).
//
// A file may be compressed; its first two bytes tell. Containers:
//
//   chrome_json  the JSON of chrome://tracing and Perfetto: {"traceEvents": [...]} or
//                the list alone; "X" events have a start `ts` and a duration `dur` in
//                microseconds, "M" events name processes (pid) and tracks (tid)
//
// Another container is one more name and one more function behind read_trace. A member
// that is no text, number or truth value counts as absent. Bounded are the bytes, packed
// and unpacked (results/trace_input.hpp), the events, and how deep they are nested.
#pragma once

#include "sim/base/units.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace spillway {

enum class TraceContainer : std::uint8_t { chrome_json };

struct TraceTrack {
  std::string process_id; // of two processes of one name, this tells which
  std::string process, name;
};

struct TraceEvent {
  std::size_t track = 0; // index into RawTrace::tracks
  std::string name;
  std::string category;                         // as the file has it; often empty
  SimTime start{0}, end{0};                     // the earliest event of the file starts at 0
  std::map<std::string, std::string> arguments; // those that were asked for
};

struct RawTrace {
  std::string file;
  std::vector<TraceTrack> tracks;
  std::vector<TraceEvent> events; // in the order of the file
};

// Of the events' arguments only those named in `arguments` are kept. Throws InputError.
[[nodiscard]] RawTrace read_trace(const std::filesystem::path& path, TraceContainer container,
                                  std::span<const std::string> arguments);

// A name of a trace as a message quotes it: a kernel's can fill pages.
[[nodiscard]] std::string quotable(const std::string& name);

} // namespace spillway
