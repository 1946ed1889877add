#include "results/planning/setting_search.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <utility>

namespace spillway {
namespace {

PolicySpec reference_policy() {
  PolicySpec full;
  full.name = "full";
  return full;
}

// Of two shares the least of everything.
StepBound::Share least_of(const StepBound::Share& one, const StepBound::Share& other) {
  StepBound::Share least = one;
  for (std::size_t s = 0; s < least.time.size(); ++s) {
    least.time[s] = std::min(one.time[s], other.time[s]);
  }
  const auto smaller = [](double& place, double value) { place = std::min(place, value); };
  smaller(least.kernels.matmul_s, other.kernels.matmul_s);
  smaller(least.kernels.attention_s, other.kernels.attention_s);
  smaller(least.kernels.memory_s, other.kernels.memory_s);
  smaller(least.kernels.matmul_flops, other.kernels.matmul_flops);
  least.kept = std::min(one.kept, other.kept);
  least.offloaded = std::min(one.offloaded, other.offloaded);
  return least;
}

} // namespace

SettingSearch::SettingSearch(Scenario scenario, const Pins& pins, Folding folding)
    : scenario_(std::move(scenario)) {
  const Plan plan = decide(reference_policy(), scenario_.trace, scenario_.framework);
  CostModel cost(scenario_.device, scenario_.parallel.gpus, cache_);
  const StepRun run = run_step(scenario_, plan, cost, cache_, folding);
  bound_ = std::make_unique<StepBound>(scenario_, plan, run, cache_);
  StepBound::Share all;
  for (std::size_t g = 0; g < bound_->groups().size(); ++g) {
    groups_.emplace_back(scenario_, bound_->groups()[g], pins);
    // Everything is there: nothing is re-run, and nothing is copied or written for it.
    std::uint32_t every = 0;
    for (std::size_t i = 0; i < groups_[g].names().size(); ++i) {
      every |= 1U << i;
    }
    const StepBound::Orders orders = bound_->orders(g, groups_[g].plans({every, 0}));
    least_shares_.push_back(bound_->share(g, groups_[g].nothing_saved(), bound_->saved(g, orders)));
    all += least_shares_.back();
    if (groups_[g].bytes() > groups_[main_group_].bytes()) {
      main_group_ = g;
    }
  }
  root_bound_ = bound_->step_time(all);
}

SettingSearch::Bounded SettingSearch::bound_of(const Choice& choice) const {
  Bounded result;
  StepBound::Share all;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<KindPlan> plans = groups_[g].plans(choice[g]);
    const StepBound::Orders orders = bound_->orders(g, plans);
    all += bound_->share(g, plans, bound_->saved(g, orders));
    result.bytes.hbm += bound_->last_layer_bytes(g, plans);
  }
  result.bytes.hbm += all.kept + bound_->fixed_bytes(all.offloaded > 0);
  result.bytes.host = all.offloaded;
  result.step_s = bound_->step_time(all);
  return result;
}

double SettingSearch::step_with(const StepBound::Share& share, const StepBound::Share& more) const {
  StepBound::Share all = share;
  all += more;
  return bound_->step_time(all);
}

// The ways to keep or offload the tensors of one saved set, those with most bytes first.
void SettingSearch::split(std::size_t group, std::uint32_t saved,
                          const StepBound::Saved& saved_share, const Need& others, double ceiling,
                          const MemoryLimits& limits, std::vector<Option>& options) {
  const GroupSpace& space = groups_[group];
  std::vector<KindPlan> plans = space.plans({saved, saved});
  const std::int64_t last_layer = bound_->least_last_layer_bytes(group, plans);
  const std::int64_t room = limits.hbm -
                            std::min(bound_->fixed_bytes(false), bound_->fixed_bytes(true)) -
                            others.kept - others.last_layer - last_layer;
  std::vector<std::size_t> free;
  std::uint32_t pinned_offload = 0;
  std::int64_t kept = 0;
  std::int64_t offloaded = 0;
  for (std::size_t i = 0; i < space.names().size(); ++i) {
    if ((saved >> i & 1U) == 0) {
      continue;
    }
    if (!space.pinned(i)) {
      free.push_back(i);
    } else if (*space.pinned(i) == Fate::offload) {
      pinned_offload |= 1U << i;
      offloaded += space.bytes()[i];
    } else {
      kept += space.bytes()[i];
    }
  }
  std::sort(free.begin(), free.end(), [&](std::size_t one, std::size_t other) {
    return std::pair(space.bytes()[other], one) < std::pair(space.bytes()[one], other);
  });
  const auto visit = [&](const auto& self, std::size_t at, std::uint32_t offload,
                         std::int64_t kept_bytes, std::int64_t host_bytes) -> void {
    if (kept_bytes > room || host_bytes > limits.host) {
      return;
    }
    if (at < free.size()) {
      const std::int64_t bytes = space.bytes()[free[at]];
      self(self, at + 1, offload, kept_bytes + bytes, host_bytes);
      self(self, at + 1, offload | 1U << free[at], kept_bytes, host_bytes + bytes);
      return;
    }
    ++counts_.bounded;
    Option option;
    option.choice = {saved, offload};
    space.set_fates(option.choice, plans);
    option.share = bound_->share(group, plans, saved_share);
    option.last_layer = last_layer;
    if (step_with(option.share, others.share) < ceiling) {
      options.push_back(std::move(option));
    }
  };
  // Bytes of a layer that keeps what others offload are small beside this.
  visit(visit, 0, pinned_offload, kept, offloaded);
}

std::vector<SettingSearch::Option> SettingSearch::options_of(std::size_t group, const Need& others,
                                                             double ceiling,
                                                             const MemoryLimits& limits) {
  const GroupSpace& space = groups_[group];
  const std::vector<KindPlan> nothing = space.nothing_saved();
  std::vector<Option> options;
  for (const std::uint32_t saved : space.saved_sets()) {
    ++counts_.sets;
    const StepBound::Orders orders = bound_->orders(group, space.plans({saved, 0}));
    const StepBound::Saved shared = bound_->saved(group, orders);
    if (step_with(bound_->share(group, nothing, shared), others.share) < ceiling) {
      split(group, saved, shared, others, ceiling, limits, options);
    }
  }
  return options;
}

// Without those that, by their bounds, take as long as another one and as much memory.
void SettingSearch::keep_undominated(std::vector<Option>& options) const {
  const auto key = [](const Option& o) {
    return std::tuple(o.share.time.back(), o.share.kept, o.share.offloaded, o.choice);
  };
  std::sort(options.begin(), options.end(),
            [&](const Option& one, const Option& other) { return key(one) < key(other); });
  std::vector<Option> front;
  for (Option& option : options) {
    const bool dominated = std::any_of(front.begin(), front.end(), [&](const Option& other) {
      return other.share.kept + other.last_layer <= option.share.kept + option.last_layer &&
             other.share.offloaded <= option.share.offloaded;
    });
    if (!dominated) {
      front.push_back(std::move(option));
    }
  }
  options = std::move(front);
}

void SettingSearch::open(double ceiling, const MemoryLimits& limits) {
  if (groups_.size() > 2) {
    throw std::logic_error("a search knows two kinds of layers");
  }
  limits_ = limits;
  queue_ = {};
  const std::size_t other = groups_.size() == 2 ? 1 - main_group_ : main_group_;
  Need none;
  none.share.time.assign(least_shares_.front().time.size(), 0.0);
  Need of_other = none;
  partner_.clear();
  if (other != main_group_) {
    Need of_main{least_shares_[main_group_], 0, 0};
    partner_ = options_of(other, of_main, ceiling, limits);
    keep_undominated(partner_);
    if (partner_.empty()) {
      return;
    }
    of_other.share = partner_.front().share;
    of_other.kept = partner_.front().share.kept;
    of_other.last_layer = partner_.front().last_layer;
    for (const Option& option : partner_) {
      of_other.share = least_of(of_other.share, option.share);
      of_other.kept = std::min(of_other.kept, option.share.kept);
      of_other.last_layer = std::min(of_other.last_layer, option.last_layer);
    }
  } else {
    Option nothing;
    nothing.share = none.share;
    partner_.push_back(std::move(nothing));
  }
  partner_least_.assign(partner_.size(), partner_.back().share);
  for (std::size_t i = partner_.size(); i-- > 1;) {
    partner_least_[i - 1] = least_of(partner_least_[i], partner_[i - 1].share);
  }
  main_ = options_of(main_group_, of_other, ceiling, limits);
  counts_.listed += main_.size() * partner_.size();
  for (std::uint32_t i = 0; i < main_.size(); ++i) {
    push(i, 0);
  }
}

bool SettingSearch::fits(const Option& one, const Option& other) const {
  const std::int64_t host = one.share.offloaded + other.share.offloaded;
  const std::int64_t hbm = bound_->fixed_bytes(host > 0) + one.share.kept + other.share.kept +
                           one.last_layer + other.last_layer;
  return hbm <= limits_.hbm && host <= limits_.host;
}

void SettingSearch::push(std::uint32_t main, std::uint32_t partner) {
  while (partner < partner_.size() && !fits(main_[main], partner_[partner])) {
    ++partner;
  }
  if (partner < partner_.size()) {
    queue_.push({step_with(main_[main].share, partner_least_[partner]), main, partner});
  }
}

double SettingSearch::least() const {
  return queue_.empty() ? std::numeric_limits<double>::infinity() : queue_.top().least;
}

std::optional<SettingSearch::Next> SettingSearch::take(double ceiling) {
  while (!queue_.empty() && queue_.top().least < ceiling) {
    const Node node = queue_.top();
    queue_.pop();
    push(node.main, node.partner + 1);
    const Option& main = main_[node.main];
    const Option& partner = partner_[node.partner];
    const double bound = step_with(main.share, partner.share);
    if (bound >= ceiling) {
      continue;
    }
    Next next;
    next.choice.resize(groups_.size());
    next.choice[main_group_] = main.choice;
    if (groups_.size() == 2) {
      next.choice[1 - main_group_] = partner.choice;
    }
    next.bound_s = bound;
    const MemoryLimits bytes = bound_of(next.choice).bytes;
    if (bytes.hbm <= limits_.hbm && bytes.host <= limits_.host) {
      return next;
    }
    ++counts_.too_large;
  }
  return std::nullopt;
}

} // namespace spillway
