// The bytes of a trace, unpacked while they are read, and bounds on what they may cost
// whoever parses them.
#pragma once

#include <filesystem>
#include <memory>
#include <streambuf>

namespace spillway {

// Reading throws InputError: for what no input may be (sim/base/input_file.hpp), for more
// than most_trace_bytes once unpacked, for a file that unpacks to far more than a trace
// does, and for a text or number so long that it is none of a trace. A packed file that is
// damaged or cut off throws std::ios_base::failure.
class TraceInput {
public:
  explicit TraceInput(const std::filesystem::path& path);
  ~TraceInput();
  TraceInput(const TraceInput&) = delete;
  TraceInput& operator=(const TraceInput&) = delete;

  [[nodiscard]] std::streambuf& bytes();
  [[nodiscard]] bool is_packed() const; // its first two bytes tell

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace spillway
