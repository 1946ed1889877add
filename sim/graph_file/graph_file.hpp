// Task graphs as YAML files, to be written by hand, by a program, or by a test
// that failed.
//
//   kind: task_graph
//   resources: {link: 10 GB/s, host: 12e9}    # units per second
//   lanes: [compute, copies]                  # each runs its tasks in file order
//   pools:
//     HBM: {capacity: 80 GB, mode: stall, held: {weights: 5 GB}}
//   tasks:
//     - {name: load, lane: copies, work: 1 GB, over: {link: 1, host: 0.5},
//        latency: 2 us, limit: 5e9, allocate: {HBM: {buffer: 1 GB}}}
//     - {name: product, lane: compute, time: 5 ms, after: [load],
//        free: {HBM: {buffer: 1 GB}}}
//
//   resources  name: capacity, a plain number or bytes per second
//   pools      capacity; mode record (default: bytes are counted) or stall (a task
//              waits for room); held: bytes by owner from the start; owners: the
//              names that may hold bytes, by default those that occur
//   tasks      either `time`, or `work` (a plain number or bytes) with what it runs
//              `over` (weight by resource), `latency` (0) and `limit` (units per
//              second; none). `after` names tasks, also ones that stand later;
//              `allocate` holds at the start, `free` at the end
//
// Only `kind`, `lanes`, `tasks`, and of a task `name`, `lane` and `time` or `work`
// are required.
//
// What graph_text writes, parse_graph reads back exactly: every double to the last
// bit, every picosecond and byte, every id. Two things are brought into one form
// that no replay can tell apart: several changes of one owner by one task become
// their sum, and routes are numbered by their first user.
#pragma once

#include "sim/graph_file/named_graph.hpp"

#include <filesystem>
#include <string>

namespace spillway {

// Both throw InputError with every mistake found. `name` is what messages call the
// text.
[[nodiscard]] NamedGraph load_graph(const std::filesystem::path& path);
[[nodiscard]] NamedGraph parse_graph(const std::string& text, const std::string& name);

// One line per pool and task. Names must be unique among their kind, not empty and
// without control characters; std::logic_error otherwise. std::overflow_error when
// the sum of one task's changes exceeds 2^63 bytes.
[[nodiscard]] std::string graph_text(const NamedGraph& named);

} // namespace spillway
