// The one way in which an input is opened and read, and how large each kind may be.
//
// The path may lead to anything: only regular files are read, and none beyond its limit,
// so that a wrong path costs a message and neither the memory of the machine nor a wait.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace spillway {

// Bytes by kind of file. yaml-cpp reads 1.5 MB a second where values are shortest, so that
// a mistake in a scenario, hardware or model is said within one; task graphs are the files
// that programs write. A trace is read event by event; the limit holds for what is packed in it,
// too.
constexpr std::size_t most_yaml_bytes = std::size_t{1} << 20U;
constexpr std::size_t most_graph_bytes = std::size_t{16} << 20U;
constexpr std::size_t most_json_lines_bytes = std::size_t{16} << 20U;
constexpr std::size_t most_trace_bytes = std::size_t{1} << 30U;

// Of text in lines. yaml-cpp looks through a whole line before it says what the first
// bracket is, at 250 bytes of memory for each of the brackets.
constexpr std::size_t most_lines = 1'000'000;
constexpr std::size_t most_line_bytes = std::size_t{256} << 10U;

// Maps and lists in each other, of YAML and of JSON.
constexpr std::size_t most_levels = 64;

// A regular file while it is read. Both functions throw InputError.
class InputFile {
public:
  InputFile(const std::filesystem::path& path, std::size_t most_bytes);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  // The next bytes, at most `count`; 0 at the end.
  [[nodiscard]] std::size_t read(char* to, std::size_t count);
  // Whether these are its first bytes; moves nothing.
  [[nodiscard]] bool starts_with(std::string_view bytes) const;

private:
  std::string name_;
  std::size_t most_bytes_;
  std::size_t taken_ = 0;
  int descriptor_ = -1;
};

// All of it. Throws InputError.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::size_t most_bytes);

// The InputError of an input that has more than `most_bytes`.
[[noreturn]] void refuse_larger(const std::string& name, std::size_t most_bytes);

} // namespace spillway
