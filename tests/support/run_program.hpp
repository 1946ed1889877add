// Runs a program as a user does and says what came back. Bounded: a program that
// hangs or eats memory is ended, so that a test fails instead of the machine.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace spillway {

struct ProgramResult {
  int exit_code = -1; // -1: ended by a signal
  int signal = 0;
  bool too_slow = false;  // ended after `most_seconds`
  bool too_large = false; // ended at `most_bytes` of resident memory
  std::string out, err;
  double seconds = 0;
  std::int64_t peak_bytes = 0; // resident, at least
};

struct ProgramLimits {
  double most_seconds = 20;
  std::int64_t most_bytes = 4'000'000'000;
  std::string stdout_path;            // write standard output there instead of reading it
  std::function<void()> before_start; // in the child
};

namespace detail {

class Pipe {
public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "pipe");
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  [[nodiscard]] int read_end() const { return ends_[0]; }
  [[nodiscard]] int write_end() const { return ends_[1]; }
  void close_end(std::size_t end) {
    if (ends_[end] >= 0) {
      ::close(ends_[end]);
      ends_[end] = -1;
    }
  }

private:
  std::array<int, 2> ends_{-1, -1};
};

constexpr int cannot_start = 127;

[[noreturn]] inline void start(std::vector<std::string> command, const ProgramLimits& limits,
                               const Pipe& out, const Pipe& err) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  const int output =
      limits.stdout_path.empty() ? out.write_end() : ::open(limits.stdout_path.c_str(), O_WRONLY);
  ::dup2(nothing, 0);
  ::dup2(output, 1);
  ::dup2(err.write_end(), 2);
  if (limits.before_start) {
    limits.before_start();
  }
  std::vector<char*> arguments;
  for (std::string& argument : command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  ::_exit(cannot_start);
}

[[nodiscard]] inline std::int64_t resident_bytes(pid_t child) {
  std::ifstream pages("/proc/" + std::to_string(child) + "/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  pages >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Reads both pipes until the program has closed them or must be ended.
inline void watch(pid_t child, Pipe& out, Pipe& err, const ProgramLimits& limits,
                  ProgramResult& result) {
  const auto begin = std::chrono::steady_clock::now();
  std::array<pollfd, 2> files{{{out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}}};
  const std::array<std::string*, 2> texts{&result.out, &result.err};
  std::array<char, 65536> chunk{};
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    ::poll(files.data(), files.size(), 20);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) {
        continue;
      }
      const ssize_t count = ::read(files[i].fd, chunk.data(), chunk.size());
      if (count > 0) {
        texts[i]->append(chunk.data(), static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        files[i].fd = -1;
      }
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    result.too_slow = result.too_slow || passed.count() > limits.most_seconds;
    result.too_large = result.too_large || resident_bytes(child) > limits.most_bytes;
    if (result.too_slow || result.too_large) {
      ::kill(child, SIGKILL);
    }
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace detail

// `command` starts with the path of the program. Its standard input is empty.
[[nodiscard]] inline ProgramResult run_program(const std::vector<std::string>& command,
                                               const ProgramLimits& limits = {}) {
  detail::Pipe out;
  detail::Pipe err;
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  if (child == 0) {
    detail::start(command, limits, out, err);
  }
  out.close_end(1);
  err.close_end(1);
  ProgramResult result;
  detail::watch(child, out, err, limits, result);
  int status = 0;
  struct rusage usage {};
  while (::wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "wait4");
    }
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (result.exit_code == detail::cannot_start) {
    throw std::runtime_error("cannot start " + command.front());
  }
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.peak_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  return result;
}

[[nodiscard]] inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

} // namespace spillway
