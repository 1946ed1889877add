// Independent jobs on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace spillway {

// Runs jobs 0 .. count-1 on a few threads, each with a state of its own; results
// are indexed, so the order in which jobs finish does not matter.
template <class MakeState, class Job>
void run_jobs(std::size_t count, unsigned threads, const MakeState& make_state, const Job& job) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  const auto work = [&] {
    try {
      auto state = make_state();
      for (std::size_t i = next++; i < count && !failed; i = next++) {
        job(i, state);
      }
    } catch (...) {
      if (!failed.exchange(true)) {
        failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> pool;
  try {
    for (std::size_t t = 1; t < std::min<std::size_t>(threads, count); ++t) {
      pool.emplace_back(work);
    }
  } catch (const std::system_error&) {
    // No more threads to be had: those that there are do the work.
  }
  work();
  for (std::thread& thread : pool) {
    thread.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

} // namespace spillway
