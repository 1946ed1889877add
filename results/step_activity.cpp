#include "results/step_activity.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace spillway {
namespace {

struct ClassInfo {
  const char* name;
  const char* title;
};
constexpr std::array<ClassInfo, activity_class_count> class_info{{
    {"matmul", "matmul"},
    {"attention_forward", "attention forward"},
    {"attention_backward", "attention backward"},
    {"memory", "HBM-bound"},
    {"unclassified", "unclassified"},
    {"store", "D2H copies"},
    {"reload", "H2D copies"},
}};

struct Span {
  SimTime start{0}, end{0};
};
using Spans = std::vector<Span>; // sorted and disjoint, unless `joined` is still to come

Spans joined(Spans spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.start < b.start; });
  Spans out;
  for (const Span& span : spans) {
    if (out.empty() || span.start > out.back().end) {
      out.push_back(span);
    } else {
      out.back().end = std::max(out.back().end, span.end);
    }
  }
  return out;
}

SimTime length(const Spans& spans) {
  SimTime sum{0};
  for (const Span& span : spans) {
    sum += span.end - span.start;
  }
  return sum;
}

// Time in `spans` that is not in `others`; both joined.
SimTime length_outside(const Spans& spans, const Spans& others) {
  SimTime sum = length(spans);
  std::size_t first = 0;
  for (const Span& span : spans) {
    while (first < others.size() && others[first].end <= span.start) {
      ++first;
    }
    for (std::size_t i = first; i < others.size() && others[i].start < span.end; ++i) {
      sum -= std::min(span.end, others[i].end) - std::max(span.start, others[i].start);
    }
  }
  return sum;
}

// Of one direction, before and after the spans are joined.
struct Direction {
  Spans all, by_kernels, sized;
  CopyTotal total;

  void add(const Activity& copy) {
    const Span span{copy.start, copy.end};
    ++total.count;
    all.push_back(span);
    if (copy.by_kernel) {
      by_kernels.push_back(span);
    } else if (copy.bytes) {
      sized.push_back(span);
      total.sized += *copy.bytes;
    }
  }
  CopyTotal finish(const Spans& kernels) {
    all = joined(std::move(all));
    total.busy = length(all);
    total.exposed = length_outside(all, kernels);
    total.by_kernels = length(joined(std::move(by_kernels)));
    total.sized_time = length(joined(std::move(sized)));
    return total;
  }
};

std::vector<NameTotal> totals_by_name(std::span<const Activity> activities) {
  std::map<std::pair<ActivityClass, std::string>, NameTotal> by_name;
  for (const Activity& activity : activities) {
    NameTotal& name = by_name[{activity.kind, activity.name}];
    name.name = activity.name;
    name.kind = activity.kind;
    ++name.count;
    name.busy += activity.end - activity.start;
  }
  std::vector<NameTotal> names;
  names.reserve(by_name.size());
  for (auto& [key, name] : by_name) {
    names.push_back(std::move(name));
  }
  std::stable_sort(names.begin(), names.end(),
                   [](const NameTotal& a, const NameTotal& b) { return a.busy > b.busy; });
  return names;
}

ActivityClass class_of(const Work& work) {
  switch (work.kind) {
  case WorkKind::matmul: return ActivityClass::matmul;
  case WorkKind::attention:
    return work.stage == Stage::backward ? ActivityClass::attention_backward
                                         : ActivityClass::attention_forward;
  case WorkKind::none:
  case WorkKind::memory:
  case WorkKind::all_gather:
  case WorkKind::reduce_scatter:
  case WorkKind::all_to_all: break;
  }
  return ActivityClass::memory;
}

} // namespace

const char* activity_class_name(ActivityClass kind) {
  return class_info[static_cast<std::size_t>(kind)].name;
}
const char* activity_class_title(ActivityClass kind) {
  return class_info[static_cast<std::size_t>(kind)].title;
}
bool is_copy(ActivityClass kind) {
  return kind == ActivityClass::store || kind == ActivityClass::reload;
}

std::optional<double> CopyTotal::hidden_fraction() const {
  if (busy == SimTime{0}) {
    return std::nullopt;
  }
  return 1 - to_seconds(exposed) / to_seconds(busy);
}

std::optional<double> CopyTotal::bytes_per_second() const {
  if (sized_time == SimTime{0}) {
    return std::nullopt;
  }
  return static_cast<double>(sized.count()) / to_seconds(sized_time).count();
}

StepTotals total(std::span<const Activity> activities) {
  StepTotals totals;
  if (activities.empty()) {
    return totals;
  }
  Spans kernels;
  Direction stores;
  Direction reloads;
  Span step{activities.front().start, activities.front().end};
  for (const Activity& activity : activities) {
    step.start = std::min(step.start, activity.start);
    step.end = std::max(step.end, activity.end);
    if (is_copy(activity.kind)) {
      (activity.kind == ActivityClass::store ? stores : reloads).add(activity);
      continue;
    }
    kernels.push_back({activity.start, activity.end});
    KernelTotal& kernel = totals.kernels[static_cast<std::size_t>(activity.kind)];
    kernel.count += activity.counted ? 1 : 0;
    kernel.busy += activity.end - activity.start;
  }
  kernels = joined(std::move(kernels));
  totals.stores = stores.finish(kernels);
  totals.reloads = reloads.finish(kernels);
  Spans copies = stores.all;
  copies.insert(copies.end(), reloads.all.begin(), reloads.all.end());
  totals.exposed = length_outside(joined(std::move(copies)), kernels);
  totals.step = step.end - step.start;
  totals.idle = totals.step - length(kernels) - totals.exposed;
  totals.names = totals_by_name(activities);
  return totals;
}

std::vector<Activity> activities_of(const Simulation& run) {
  const Lowered& lowered = run.lowered;
  std::vector<Activity> activities;
  for (TaskId task = 0; task < lowered.tasks.size(); ++task) {
    const TaskInfo& info = lowered.tasks[task];
    const TaskPrice& price = lowered.prices[task];
    const bool copy = info.kind == TaskKind::store || info.kind == TaskKind::reload;
    const SimTime start = run.timeline.tasks[task].start;
    const SimTime end = run.timeline.tasks[task].end;
    if (info.rank != 0 || start == end || (!copy && info.kind != TaskKind::kernel)) {
      continue;
    }
    Activity activity;
    activity.name = lowered.labels[info.label];
    activity.start = start;
    activity.end = end;
    if (copy) {
      activity.kind = info.kind == TaskKind::store ? ActivityClass::store : ActivityClass::reload;
      activity.bytes = Bytes{static_cast<std::int64_t>(lowered.graph.tasks[task].work)};
      activity.by_kernel = price.of == PriceOf::peeled_store || price.of == PriceOf::peeled_reload;
    } else {
      activity.kind =
          price.of == PriceOf::work ? class_of(lowered.works[price.work]) : ActivityClass::memory;
    }
    activities.push_back(std::move(activity));
  }
  return activities;
}

} // namespace spillway
