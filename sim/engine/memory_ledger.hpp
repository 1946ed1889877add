// Who holds how many bytes of which pool, and the highest level so far.
//
// The owners at the peak are copied only when the level first falls below a new
// maximum, so a long climb costs one copy.
#pragma once

#include "sim/base/units.hpp"
#include "sim/engine/machine.hpp"
#include "sim/engine/task_graph.hpp"
#include "sim/engine/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace spillway {

// A task frees bytes that their owner does not hold at that moment. Whether one does
// depends on the order of ends, so nothing but a replay can tell.
class NotHeld : public std::logic_error {
public:
  NotHeld(const std::string& what, TaskId task, const MemoryChange& freed, std::int64_t held)
      : std::logic_error(what), task_(task), freed_(freed), held_(held) {}
  [[nodiscard]] TaskId task() const { return task_; }
  [[nodiscard]] const MemoryChange& freed() const { return freed_; }
  [[nodiscard]] std::int64_t held() const { return held_; }

private:
  TaskId task_;
  MemoryChange freed_;
  std::int64_t held_;
};

class MemoryLedger {
public:
  MemoryLedger(std::span<const Pool> pools, std::span<const MemoryChange> initial) : pools_(pools) {
    std::size_t owner_total = 0;
    accounts_.reserve(pools.size());
    for (const Pool& pool : pools) {
      Account account;
      account.capacity = pool.capacity;
      account.stalls = pool.mode == PoolMode::stall;
      account.first_owner = owner_total;
      accounts_.push_back(account);
      owner_total += pool.owners.size();
    }
    held_by_owner_.assign(owner_total, 0);
    peak_by_owner_.assign(owner_total, 0);
    allocate(initial, SimTime{0}, no_id);
  }

  // The first stalling pool (in pool order: rows are sorted by pool) in which
  // the bytes do not fit, or no_id when the task may start.
  [[nodiscard]] PoolId first_pool_without_room(std::span<const MemoryChange> changes) const {
    PoolId pool = no_id;
    std::int64_t room = 0;
    for (const MemoryChange& change : changes) {
      const Account& account = accounts_[change.pool];
      if (!account.stalls) {
        continue;
      }
      if (change.pool != pool) {
        pool = change.pool;
        room = account.capacity - account.held;
      }
      if (change.bytes > room) {
        return pool;
      }
      room -= change.bytes;
    }
    return no_id;
  }

  void allocate(std::span<const MemoryChange> changes, SimTime now, TaskId task) {
    for (const MemoryChange& change : changes) {
      Account& account = accounts_[change.pool];
      if (change.bytes > most_bytes - account.held) {
        report_overflow(change.pool);
      }
      account.held += change.bytes;
      held_by_owner_[account.first_owner + change.owner] += change.bytes;
      if (account.held > account.peak) {
        account.peak = account.held;
        account.peak_time = now;
        account.peak_task = task;
        account.peak_owners_stale = true;
      }
    }
  }

  void release(const MemoryChange& change, TaskId task) {
    Account& account = accounts_[change.pool];
    if (account.peak_owners_stale) {
      copy_peak_owners(change.pool);
    }
    std::int64_t& by_owner = held_by_owner_[account.first_owner + change.owner];
    if (change.bytes > by_owner) {
      throw NotHeld(fmt::format("{} bytes freed in pool '{}' by '{}', which holds {}", change.bytes,
                                pools_[change.pool].name, pools_[change.pool].owners[change.owner],
                                by_owner),
                    task, change, by_owner);
    }
    by_owner -= change.bytes;
    account.held -= change.bytes;
  }

  [[nodiscard]] std::int64_t room(PoolId pool) const {
    return accounts_[pool].capacity - accounts_[pool].held;
  }

  // Bytes held, owners of the first pool first.
  [[nodiscard]] const std::vector<std::int64_t>& held_by_owner() const { return held_by_owner_; }
  [[nodiscard]] std::size_t first_owner(PoolId pool) const { return accounts_[pool].first_owner; }

  // As if everything that changed the owners from `before` to now had happened `times`
  // times more. Peaks stay: whoever calls knows that a higher one follows.
  void repeat_since(const std::vector<std::int64_t>& before, std::uint64_t times) {
    for (PoolId pool = 0; pool < accounts_.size(); ++pool) {
      Account& account = accounts_[pool];
      if (account.peak_owners_stale) {
        copy_peak_owners(pool);
      }
      for (std::size_t owner = 0; owner < pools_[pool].owners.size(); ++owner) {
        const std::size_t at = account.first_owner + owner;
        const std::int64_t change = repeated(held_by_owner_[at] - before[at], times, pool);
        held_by_owner_[at] += change;
        account.held += change;
      }
    }
  }

  void report(Timeline& timeline) {
    timeline.peaks.resize(accounts_.size());
    timeline.final_bytes.resize(accounts_.size());
    for (std::size_t pool = 0; pool < accounts_.size(); ++pool) {
      const Account& account = accounts_[pool];
      if (account.peak_owners_stale) {
        copy_peak_owners(pool);
      }
      const std::span<const std::int64_t> owners =
          std::span<const std::int64_t>(peak_by_owner_)
              .subspan(account.first_owner, pools_[pool].owners.size());
      Timeline::PoolPeak& peak = timeline.peaks[pool];
      peak.bytes = account.peak;
      peak.time = account.peak_time;
      peak.task = account.peak_task;
      peak.owners.assign(owners.begin(), owners.end());
      timeline.final_bytes[pool] = account.held;
    }
  }

private:
  struct Account {
    std::int64_t held = 0;
    std::int64_t capacity = 0;
    std::int64_t peak = 0;
    SimTime peak_time{0};
    std::size_t first_owner = 0; // in the by-owner arrays
    TaskId peak_task = no_id;
    bool stalls = false;
    bool peak_owners_stale = false; // held == peak, owners not copied yet
  };

  static constexpr std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();

  [[noreturn]] void report_overflow(PoolId pool) const {
    throw std::overflow_error(
        fmt::format("pool '{}' holds more than 2^63 bytes", pools_[pool].name));
  }

  // change * times, which leaves room for what is held now.
  [[nodiscard]] std::int64_t repeated(std::int64_t change, std::uint64_t times, PoolId pool) const {
    const std::int64_t room = most_bytes - accounts_[pool].held;
    if (change > 0 && times > static_cast<std::uint64_t>(room / change)) {
      report_overflow(pool);
    }
    return change * static_cast<std::int64_t>(times);
  }

  void copy_peak_owners(std::size_t pool) {
    Account& account = accounts_[pool];
    std::copy_n(held_by_owner_.data() + account.first_owner, pools_[pool].owners.size(),
                peak_by_owner_.data() + account.first_owner);
    account.peak_owners_stale = false;
  }

  std::span<const Pool> pools_;
  std::vector<Account> accounts_;
  std::vector<std::int64_t> held_by_owner_;
  std::vector<std::int64_t> peak_by_owner_;
};

} // namespace spillway
