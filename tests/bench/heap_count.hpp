// Bytes that operator new has handed out and not taken back, now and at most: what
// the engine allocates, whatever it calls its arrays. heap_count.cpp replaces the
// global operators of the program that links it. One thread only.
#pragma once

#include <cstddef>

namespace spillway::bench {

struct HeapCount {
  std::size_t now = 0;
  std::size_t peak = 0; // since the last restart
};

[[nodiscard]] HeapCount heap_count();
void restart_heap_peak();

} // namespace spillway::bench
