// What one GPU did in one step, in terms that a measured trace and a simulated
// timeline share: kernels and copies with a class, a start and an end.
//
// Time of a class is the sum of its kernels. Of copies it is the time in which a
// copy of that direction runs, since several streams may wait for one engine; they
// are exposed while no kernel runs, and hidden otherwise. A copy that a kernel does
// is a copy here, not a kernel. The step lasts from the first start to the last end
// on the device: what the host does between two steps is left out.
//
//   kernels  |####|      |####|    0..4, 8..12
//   copy        |======|           3..10         7 long, exposed 4..8, hidden 3/7
//   step     |------------|        12, idle 0
#pragma once

#include "results/simulate.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace spillway {

enum class ActivityClass : std::uint8_t {
  matmul,
  attention_forward,
  attention_backward,
  memory, // bound by HBM
  unclassified,
  store,  // device to host
  reload, // host to device
};
inline constexpr std::size_t activity_class_count = 7;
[[nodiscard]] const char* activity_class_name(ActivityClass kind); // as files write it
[[nodiscard]] const char* activity_class_title(ActivityClass kind);
[[nodiscard]] bool is_copy(ActivityClass kind);

struct Activity {
  std::string name;
  ActivityClass kind = ActivityClass::unclassified;
  SimTime start{0}, end{0};
  std::optional<Bytes> bytes; // copies, where stated
  bool by_kernel = false;     // a copy that a kernel does
  bool counted = true;        // false: belongs to a kernel of another name
};

struct KernelTotal {
  std::int64_t count = 0;
  SimTime busy{0};
};

struct CopyTotal {
  std::int64_t count = 0;
  SimTime busy{0};
  SimTime exposed{0};
  SimTime by_kernels{0};
  // Of copies by an engine that state their size:
  Bytes sized;
  SimTime sized_time{0};
  [[nodiscard]] std::optional<double> hidden_fraction() const;  // none without copies
  [[nodiscard]] std::optional<double> bytes_per_second() const; // none without a size
};

struct NameTotal {
  std::string name;
  ActivityClass kind = ActivityClass::unclassified;
  std::int64_t count = 0;
  SimTime busy{0}; // sum
};

struct StepTotals {
  std::array<KernelTotal, activity_class_count> kernels; // by class; empty for copies
  CopyTotal stores, reloads;
  SimTime exposed{0}; // a copy of either direction and no kernel
  SimTime idle{0};    // neither
  SimTime step{0};
  std::vector<NameTotal> names; // most time first
  [[nodiscard]] const KernelTotal& of(ActivityClass kind) const {
    return kernels[static_cast<std::size_t>(kind)];
  }
};

[[nodiscard]] StepTotals total(std::span<const Activity> activities);

// The reported GPU's kernels and copies, in the order of the graph.
[[nodiscard]] std::vector<Activity> activities_of(const Simulation& run);

} // namespace spillway
