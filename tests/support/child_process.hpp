// Work in a process of its own: for libraries that can be set up only once per
// process, and to measure memory that nothing before has touched.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace spillway::test {

// Zeroed memory through which a child answers its parent.
class SharedMemory {
public:
  explicit SharedMemory(std::size_t size)
      : size_(size),
        address_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (address_ == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "mmap");
    }
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { ::munmap(address_, size_); }

  [[nodiscard]] void* address() const { return address_; }

private:
  std::size_t size_;
  void* address_;
};

// Calls work() in a copy of this process that ends without destructors, and waits
// for it. Returns the peak of its resident memory in bytes; std::runtime_error
// when it fails.
template <class Work>
std::size_t run_in_child(const Work& work) {
  std::fflush(nullptr); // else both processes would write what is in the buffers
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL); // a test's own handler would report a crash of the test
    try {
      work();
    } catch (const std::exception& problem) {
      fmt::print(stderr, "{}\n", problem.what());
      std::_Exit(1);
    }
    std::_Exit(0);
  }
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "wait4");
    }
  }
  if (status != 0) {
    throw std::runtime_error(fmt::format("the child process ended with status {:#x}", status));
  }
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

} // namespace spillway::test
