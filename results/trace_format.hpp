// What the names in a profiler's trace mean: which process is the GPU, where a step
// begins, and which class an event belongs to. One YAML file a profiler, in
// results/trace_formats:
//
//   kind: trace_format
//   name: example
//   title: An example
//   source: "..."
//   container: chrome_json
//   device: {process: "/device:*", track: "Stream *"}  # tracks of kernels and copies
//   step: {process: "/host", event: "call *"}          # marks the beginning of a step
//   copy_size: {argument: details, after: "size:"}     # optional: bytes of a copy
//   classes:                                           # the first match decides
//     - {class: store, events: ["DtoH*"]}
//     - {class: reload, by: kernel, events: ["pinned_read*"]}     # not by a copy engine
//     - {class: matmul, events: ["gemm*", "cutlass*"]}
//     - {class: attention_backward, counted: false, events: ["delta*"]} # of another's call
//     - {class: ignore, category: "*annotation", events: ["*"]}   # no kernel and no copy
//
// With a `category` a rule is for events of such a category alone.
// Patterns are those of a shell: * any text, ? one character, [ab] one of these.
// What matches none is unclassified, and reported as such.
#pragma once

#include "results/step_activity.hpp"
#include "results/trace_reader.hpp"
#include "sim/lower/catalog.hpp"

#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct TraceRule {
  ActivityClass kind = ActivityClass::unclassified;
  bool by_kernel = false;
  bool counted = true;
  bool ignored = false;                // nothing that the device does
  std::optional<std::string> category; // pattern
  std::vector<std::string> patterns;
};

struct TraceFormat {
  std::string name, title, source;
  TraceContainer container = TraceContainer::chrome_json;
  std::string device_process, device_track; // patterns
  std::string step_process, step_event;
  std::string size_argument, size_after; // empty: copies state no size
  std::vector<TraceRule> rules;
};

[[nodiscard]] TraceFormat read_trace_format(const YamlNode& node, Diagnostics& diagnostics);

// The format of that name, or every one of the catalogue. Throws InputError.
[[nodiscard]] std::vector<TraceFormat> load_trace_formats(const Catalog& catalog,
                                                          const std::string& name);

// What one GPU did, step by step.
struct DeviceTrace {
  std::string file;
  std::string format; // name
  std::string device; // name of its process, "GPU of process 3" where several have it
  std::vector<std::vector<Activity>> steps;
};

// Reads a file in the one of `formats` whose device process it has. Of several devices
// it is the first with tracks of kernels by its name, "GPU:2" before "GPU:10", and of
// those of one name the first in the file. A step is what starts on the device from one
// mark to the next, and must have ended there; marks without it (calls of something
// else) are no steps. Throws InputError.
[[nodiscard]] DeviceTrace load_device_trace(const std::filesystem::path& path,
                                            const std::vector<TraceFormat>& formats);

} // namespace spillway
