// Small traces of a made-up profiler, and its format, for tests.
#pragma once

#include "results/trace_format.hpp"

#include <boost/iostreams/copy.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <fmt/format.h>

#include <sstream>
#include <string>

namespace spillway {

// Every kind of rule once. Times of the traces below are microseconds.
inline const std::string made_up_format = R"(kind: trace_format
name: made-up
title: A made-up profiler
source: nowhere
container: chrome_json
device: {process: "/gpu:*", track: "queue *"}
step: {process: "/host", event: "call *"}
copy_size: {argument: details, after: "size:"}
classes:
  - {class: store, events: ["DtoH"]}
  - {class: reload, events: ["HtoD"]}
  - {class: store, by: kernel, events: ["pinned_write*"]}
  - {class: matmul, events: ["gemm*"]}
  - {class: attention_forward, events: ["attend*"]}
  - {class: attention_backward, counted: false, events: ["d_attend_part"]}
  - {class: attention_backward, events: ["d_attend*"]}
  - {class: memory, events: ["loop_*"]}
)";

[[nodiscard]] inline std::string process_event(int pid, const std::string& name) {
  return fmt::format(
      R"({{"ph": "M", "pid": {}, "name": "process_name", "args": {{"name": "{}"}}}})", pid, name);
}
[[nodiscard]] inline std::string track_event(int pid, int tid, const std::string& name) {
  return fmt::format(
      R"({{"ph": "M", "pid": {}, "tid": {}, "name": "thread_name", "args": {{"name": "{}"}}}})",
      pid, tid, name);
}
// `arguments`: what stands in the braces of `args`.
[[nodiscard]] inline std::string event(int pid, int tid, const std::string& name, double start,
                                       double length, const std::string& arguments = "") {
  return fmt::format(
      R"({{"ph": "X", "pid": {}, "tid": {}, "name": "{}", "ts": {}, "dur": {}, "args": {{{}}}}})",
      pid, tid, name, start, length, arguments);
}

template <class... Events>
[[nodiscard]] std::string trace_of(const std::string& first, const Events&... others) {
  std::string list = first;
  ((list += ",\n" + std::string(others)), ...);
  return R"({"displayTimeUnit": "ns", "traceEvents": [)" + list + "]}\n";
}

// A host (process 2), a device with one queue (process 1, track 10), and the events.
template <class... Events>
[[nodiscard]] std::string device_trace(const Events&... events) {
  return trace_of(process_event(1, "/gpu:0"), track_event(1, 10, "queue a"),
                  track_event(1, 11, "queue b"), process_event(2, "/host"), events...);
}
[[nodiscard]] inline std::string call(double start) {
  return event(2, 20, "call step", start, 1);
}

[[nodiscard]] inline std::string packed(const std::string& text) {
  namespace io = boost::iostreams;
  std::istringstream in(text);
  io::filtering_istreambuf packer;
  packer.push(io::gzip_compressor());
  packer.push(in);
  std::ostringstream out;
  io::copy(packer, out);
  return out.str();
}

[[nodiscard]] inline TraceFormat format_from(const std::string& yaml) {
  Diagnostics diagnostics;
  TraceFormat format = read_trace_format(parse_yaml(yaml, "format.yaml"), diagnostics);
  diagnostics.throw_if_any();
  return format;
}

} // namespace spillway
