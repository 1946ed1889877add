// Seconds of processor time that this process has used. Unlike the clock on the
// wall it does not count what other programs take while this one waits its turn.
#pragma once

#include <ctime>

namespace spillway::test {

[[nodiscard]] inline double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

} // namespace spillway::test
