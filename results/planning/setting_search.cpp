#include "results/planning/setting_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
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
    const auto all_bytes = [](const GroupSpace& group) {
      return std::accumulate(group.bytes().begin(), group.bytes().end(), std::int64_t{0});
    };
    if (all_bytes(groups_[g]) > all_bytes(groups_[main_group_])) {
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

// The ways to keep or offload the tensors of one saved set. Those with most bytes are decided
// first; what is not decided yet costs nothing.
class SettingSearch::Splitter {
public:
  Splitter(SettingSearch& search, std::size_t group, std::uint32_t saved,
           const StepBound::Saved& shared, const Need& others, double ceiling,
           const MemoryLimits& limits)
      : search_(search), bound_(*search.bound_), space_(search.groups_[group]), group_(group),
        saved_(saved), shared_(shared), others_(others), ceiling_(ceiling), most_host_(limits.host),
        plans_(space_.plans({saved, saved})),
        last_layer_(bound_.least_last_layer_bytes(group, plans_)),
        room_(limits.hbm - std::min(bound_.fixed_bytes(false), bound_.fixed_bytes(true)) -
              others.kept - others.last_layer - last_layer_) {}

  void run(std::vector<Option>& options) {
    Split start;
    for (std::size_t i = 0; i < space_.names().size(); ++i) {
      if ((saved_ >> i & 1U) == 0) {
        continue;
      }
      if (space_.pinned(i)) {
        start = with(start, i, *space_.pinned(i));
      } else {
        free_.push_back(i);
      }
    }
    std::sort(free_.begin(), free_.end(), [&](std::size_t one, std::size_t other) {
      return std::pair(space_.bytes()[other], one) < std::pair(space_.bytes()[one], other);
    });
    visit(start, 0, options);
  }

private:
  struct Split {
    std::uint32_t kept = 0, offloaded = 0;
    std::int64_t kept_bytes = 0;
  };
  [[nodiscard]] Split with(Split split, std::size_t name, Fate fate) const {
    const bool offload = fate == Fate::offload;
    (offload ? split.offloaded : split.kept) |= 1U << name;
    split.kept_bytes += offload ? 0 : space_.bytes()[name];
    return split;
  }

  void visit(const Split& split, std::size_t at, std::vector<Option>& options) {
    if (split.kept_bytes > room_ || search_.late()) {
      return;
    }
    ++search_.bounded_;
    space_.set_fates(split.kept, split.offloaded, plans_);
    Option option{{saved_, split.offloaded}, bound_.share(group_, plans_, shared_), last_layer_};
    // Not the bytes of all names: the last layer may keep its own, or free them early.
    if (option.share.offloaded > most_host_ ||
        search_.step_with(option.share, others_.share) >= ceiling_) {
      return;
    }
    if (at == free_.size()) {
      options.push_back(std::move(option));
      return;
    }
    visit(with(split, free_[at], Fate::keep), at + 1, options);
    visit(with(split, free_[at], Fate::offload), at + 1, options);
  }

  SettingSearch& search_;
  const StepBound& bound_;
  const GroupSpace& space_;
  std::size_t group_;
  std::uint32_t saved_;
  const StepBound::Saved& shared_;
  const Need& others_;
  double ceiling_;
  std::int64_t most_host_;
  std::vector<KindPlan> plans_;
  std::int64_t last_layer_;
  std::int64_t room_; // for what this group keeps
  std::vector<std::size_t> free_;
};

std::vector<SettingSearch::Option> SettingSearch::options_of(std::size_t group, const Need& others,
                                                             double ceiling,
                                                             const MemoryLimits& limits) {
  const GroupSpace& space = groups_[group];
  const std::vector<KindPlan> nothing = space.nothing_saved();
  std::vector<Option> options;
  for (const std::uint32_t saved : space.saved_sets()) {
    if (late()) {
      break;
    }
    const StepBound::Orders orders = bound_->orders(group, space.plans({saved, 0}));
    const StepBound::Saved shared = bound_->saved(group, orders);
    if (step_with(bound_->share(group, nothing, shared), others.share) < ceiling) {
      Splitter(*this, group, saved, shared, others, ceiling, limits).run(options);
    }
  }
  return options;
}

void SettingSearch::sort_by_time(std::vector<Option>& options) {
  const auto key = [](const Option& o) { return std::tuple(o.share.time.back(), o.choice); };
  std::sort(options.begin(), options.end(),
            [&](const Option& one, const Option& other) { return key(one) < key(other); });
}

// Of every option at least this.
SettingSearch::Need SettingSearch::least_need(const std::vector<Option>& options) const {
  Need need;
  need.share.time.assign(least_shares_.front().time.size(), 0.0);
  if (!options.empty()) {
    need = {options.front().share, options.front().share.kept, options.front().last_layer};
    for (const Option& option : options) {
      need.share = least_of(need.share, option.share);
      need.kept = std::min(need.kept, option.share.kept);
      need.last_layer = std::min(need.last_layer, option.last_layer);
    }
  }
  return need;
}

void SettingSearch::open(double ceiling, const MemoryLimits& limits, const Deadline& deadline) {
  if (groups_.size() > 2) {
    throw std::logic_error("a search knows two kinds of layers");
  }
  limits_ = limits;
  deadline_ = deadline;
  complete_ = true;
  queue_ = {};
  new_ = {};
  partner_.clear();
  Need least_other = least_need({});
  if (groups_.size() == 2) {
    least_other.share = least_shares_[1 - main_group_];
  }
  main_ = options_of(main_group_, least_other, ceiling, limits);
  if (main_.empty()) {
    complete_ = !late();
    return;
  }
  if (groups_.size() == 2) {
    partner_ = options_of(1 - main_group_, least_need(main_), ceiling, limits);
    sort_by_time(partner_);
  } else {
    partner_.push_back({{}, least_need({}).share, 0});
  }
  if (partner_.empty()) {
    complete_ = !late();
    return;
  }
  partner_least_.assign(partner_.size(), partner_.back().share);
  for (std::size_t i = partner_.size(); i-- > 1;) {
    partner_least_[i - 1] = least_of(partner_least_[i], partner_[i - 1].share);
  }
  for (std::uint32_t i = 0; i < main_.size(); ++i) {
    push(i, 0);
  }
  new_ = queue_;
  complete_ = !late();
}

bool SettingSearch::fits(const Option& one, const Option& other) const {
  const std::int64_t host = one.share.offloaded + other.share.offloaded;
  const std::int64_t hbm = bound_->fixed_bytes(host > 0) + one.share.kept + other.share.kept +
                           one.last_layer + other.last_layer;
  return limits_.hold({hbm, host});
}

void SettingSearch::push(std::uint32_t main, std::uint32_t partner) {
  while (partner < partner_.size() && !fits(main_[main], partner_[partner])) {
    ++partner;
  }
  if (partner < partner_.size()) {
    queue_.push({step_with(main_[main].share, partner_least_[partner]), main, partner});
  }
}

bool SettingSearch::late() const {
  return deadline_ && std::chrono::steady_clock::now() >= *deadline_;
}

double SettingSearch::least() const {
  if (!complete_) {
    return root_bound_;
  }
  return queue_.empty() ? std::numeric_limits<double>::infinity() : queue_.top().least;
}

// None: the two together take too long, or need too much memory.
std::optional<SettingSearch::Next> SettingSearch::choice_of(const Node& node, double ceiling) {
  const Option& main = main_[node.main];
  const Option& partner = partner_[node.partner];
  Next next;
  next.bound_s = step_with(main.share, partner.share);
  if (next.bound_s >= ceiling) {
    return std::nullopt;
  }
  next.choice.resize(groups_.size());
  next.choice[main_group_] = main.choice;
  if (groups_.size() == 2) {
    next.choice[1 - main_group_] = partner.choice;
  }
  return limits_.hold(bound_of(next.choice).bytes) ? std::optional(next) : std::nullopt;
}

std::optional<SettingSearch::Next> SettingSearch::take(double ceiling) {
  while (!queue_.empty() && queue_.top().least < ceiling && !late()) {
    const Node node = queue_.top();
    queue_.pop();
    push(node.main, node.partner + 1);
    if (std::optional<Next> next = choice_of(node, ceiling)) {
      return next;
    }
  }
  return std::nullopt;
}

std::optional<SettingSearch::Next> SettingSearch::take_new(double ceiling) {
  while (!new_.empty() && new_.top().least < ceiling && !late()) {
    const Node node = new_.top();
    new_.pop();
    if (std::optional<Next> next = choice_of(node, ceiling)) {
      return next;
    }
  }
  return std::nullopt;
}

} // namespace spillway
