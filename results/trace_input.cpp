#include "results/trace_input.hpp"

#include "sim/base/error.hpp"
#include "sim/base/input_file.hpp"

#include <boost/iostreams/categories.hpp>
#include <boost/iostreams/concepts.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <boost/iostreams/read.hpp>
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace spillway {
namespace {

namespace io = boost::iostreams;

// The parser keeps a text or number whole, and twice more to complain about it.
constexpr std::size_t most_token_bytes = std::size_t{1} << 20U;

// Traces unpack to 10 to 40 times their size, gzip makes up to 1032 of one. Short files
// may be anything.
constexpr std::size_t most_ratio = 200;
constexpr std::size_t any_ratio_bytes = std::size_t{4} << 20U;

// What has passed so far; outlives the copies that Boost makes of its readers.
struct Passed {
  std::string name;
  std::size_t packed = 0;
  std::size_t unpacked = 0;
};

[[noreturn]] void refuse(const Passed& passed, const std::string& what) {
  throw InputError(fmt::format("'{}' {}", passed.name, what));
}

// The file as Boost reads it.
class FileSource : public io::source {
public:
  FileSource(InputFile& file, Passed& passed) : file_(&file), passed_(&passed) {}

  std::streamsize read(char* to, std::streamsize count) {
    const std::size_t got = file_->read(to, static_cast<std::size_t>(count));
    passed_->packed += got;
    return got == 0 ? -1 : static_cast<std::streamsize>(got);
  }

private:
  InputFile* file_;
  Passed* passed_;
};

// Passes unpacked bytes on as they are and ends the reading where there are too many.
class Bounds : public io::multichar_input_filter {
public:
  explicit Bounds(Passed& passed) : passed_(&passed) {}

  template <class Source>
  std::streamsize read(Source& from, char* to, std::streamsize count) {
    const std::streamsize got = io::read(from, to, count);
    if (got > 0) {
      const std::string_view bytes(to, static_cast<std::size_t>(got));
      passed_->unpacked += bytes.size();
      check_size();
      check_tokens(bytes);
    }
    return got;
  }

private:
  void check_size() const {
    if (passed_->unpacked > most_trace_bytes) {
      refuse(*passed_, fmt::format("unpacks to more than {} MiB", most_trace_bytes >> 20U));
    }
    if (passed_->unpacked > any_ratio_bytes && passed_->unpacked / most_ratio > passed_->packed) {
      refuse(*passed_, fmt::format("unpacks to more than {} times its size", most_ratio));
    }
  }

  void check_tokens(std::string_view bytes) {
    for (const char byte : bytes) {
      const bool quote = byte == '"' && !escaped_;
      escaped_ = in_text_ && byte == '\\' && !escaped_;
      in_text_ = in_text_ != quote;
      const bool between = !in_text_ && (byte == ',' || byte == ':' || byte == '[' || byte == '{');
      length_ = quote || between ? 0 : length_ + 1;
      if (length_ > most_token_bytes) {
        refuse(*passed_, fmt::format("holds a text, number or blank longer than {} MiB",
                                     most_token_bytes >> 20U));
      }
    }
  }

  Passed* passed_;
  bool in_text_ = false;
  bool escaped_ = false;   // the byte before was a backslash that is not itself escaped
  std::size_t length_ = 0; // since the last quote, or the last mark between values
};

} // namespace

struct TraceInput::Parts {
  explicit Parts(const std::filesystem::path& path)
      : file(path, most_trace_bytes), packed(file.starts_with("\x1f\x8b")), passed{path.string()} {
    bytes.push(Bounds(passed));
    if (packed) {
      bytes.push(io::gzip_decompressor());
    }
    bytes.push(FileSource(file, passed));
  }

  InputFile file;
  bool packed;
  Passed passed;
  io::filtering_istreambuf bytes; // before what it reads from is gone
};

TraceInput::TraceInput(const std::filesystem::path& path) : parts_(std::make_unique<Parts>(path)) {}

TraceInput::~TraceInput() = default;

std::streambuf& TraceInput::bytes() {
  return parts_->bytes;
}

bool TraceInput::is_packed() const {
  return parts_->packed;
}

} // namespace spillway
