#include "tests/bench/heap_count.hpp"

#include <algorithm>
#include <cstdlib>
#include <malloc.h>
#include <new>

namespace {

spillway::bench::HeapCount count;

void forget(void* address) {
  count.now -= malloc_usable_size(address);
  std::free(address);
}

} // namespace

void* operator new(std::size_t size) {
  void* const address = std::malloc(std::max<std::size_t>(size, 1));
  if (address == nullptr) {
    throw std::bad_alloc();
  }
  count.now += malloc_usable_size(address);
  count.peak = std::max(count.peak, count.now);
  return address;
}

void operator delete(void* address) noexcept {
  forget(address);
}
void operator delete(void* address, std::size_t /*size*/) noexcept {
  forget(address);
}

namespace spillway::bench {

HeapCount heap_count() {
  return count;
}
void restart_heap_peak() {
  count.peak = count.now;
}

} // namespace spillway::bench
