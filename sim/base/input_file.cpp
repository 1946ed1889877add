#include "sim/base/input_file.hpp"

#include "sim/base/error.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

namespace spillway {

namespace {

[[noreturn]] void refuse(const std::string& name, std::string message) {
  const auto source = std::make_shared<const SourceText>(SourceText{name, {}});
  throw InputError({Diagnostic{Place{source, 0, 0}, std::move(message), {}}});
}

[[noreturn]] void refuse_with_errno(const std::string& name, std::string_view what) {
  std::string reason = std::generic_category().message(errno);
  if (!reason.empty() && reason[0] >= 'A' && reason[0] <= 'Z') {
    reason[0] = static_cast<char>(reason[0] - 'A' + 'a');
  }
  refuse(name, fmt::format("{}: {}", what, reason));
}

void check_status(const std::string& name, const struct stat& status, std::size_t most_bytes) {
  if (S_ISDIR(status.st_mode)) {
    refuse(name, "is a directory, not a file");
  }
  if (!S_ISREG(status.st_mode)) {
    refuse(name,
           S_ISFIFO(status.st_mode) ? "is a FIFO, not a regular file" : "is not a regular file");
  }
  if (std::cmp_greater(status.st_size, most_bytes)) {
    refuse_larger(name, most_bytes);
  }
}

} // namespace

void refuse_larger(const std::string& name, std::size_t most_bytes) {
  refuse(name, fmt::format("larger than {} MiB", most_bytes >> 20U));
}

InputFile::InputFile(const std::filesystem::path& path, std::size_t most_bytes)
    : name_(path.string()), most_bytes_(most_bytes) {
  struct stat status {};
  // Asked before opening, since opening some devices already does something;
  // asked again afterwards, since the name may by then mean something else.
  if (::stat(path.c_str(), &status) != 0) {
    refuse_with_errno(name_, "cannot open");
  }
  check_status(name_, status, most_bytes_);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    refuse_with_errno(name_, "cannot open");
  }
  try {
    check_status(name_, status, most_bytes_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

std::size_t InputFile::read(char* to, std::size_t count) {
  ssize_t got = -1;
  do {
    got = ::read(descriptor_, to, count);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    refuse_with_errno(name_, "cannot read");
  }
  taken_ += static_cast<std::size_t>(got);
  if (taken_ > most_bytes_) { // it grows, or has no size, as those of /proc
    refuse_larger(name_, most_bytes_);
  }
  return static_cast<std::size_t>(got);
}

bool InputFile::starts_with(std::string_view bytes) const {
  std::string first(bytes.size(), '\0');
  const ssize_t got = ::pread(descriptor_, first.data(), first.size(), 0);
  return std::cmp_equal(got, first.size()) && first == bytes;
}

std::string read_file(const std::filesystem::path& path, std::size_t most_bytes) {
  InputFile file(path, most_bytes);
  std::string text;
  std::array<char, 65536> chunk{};
  for (std::size_t count = 0; (count = file.read(chunk.data(), chunk.size())) > 0;) {
    text.append(chunk.data(), count);
  }
  return text;
}

} // namespace spillway
