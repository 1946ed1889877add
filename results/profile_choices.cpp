#include "results/profiles.hpp"

#include "results/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace spillway {
namespace {

constexpr std::array<double, 6> limit_shares{0.5, 0.6, 0.7, 0.8, 0.9, 1.0};
constexpr std::size_t least_policies = 5;

struct Figures {
  double step_s = 0, peak_bytes = 0;
};

// All records of one policy in a group.
struct Candidate {
  const ProfileRecord* first = nullptr;
  double times = 0;
  Figures measured, predicted; // mean time, largest peak
};

struct Group {
  const ProfileRecord* first = nullptr;
  std::vector<Candidate> policies;
};

// The item for which `same` holds, or a new one of this record at the end.
template <class Item, class Same>
Item& found_or_added(std::vector<Item>& items, const ProfileRecord& record, Same same) {
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const Item& item) { return same(*item.first, record); });
  if (found != items.end()) {
    return *found;
  }
  items.emplace_back();
  items.back().first = &record;
  return items.back();
}

std::vector<Group> groups_of(const std::vector<ProfileRecord>& records,
                             const std::vector<ProfileResult>& results) {
  const auto same_policy = [](const ProfileRecord& a, const ProfileRecord& b) {
    return a.policy == b.policy;
  };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const ProfileRecord& record = records[i];
    Group& group = found_or_added(groups, record, same_group);
    Candidate& policy = found_or_added(group.policies, record, same_policy);
    const auto add = [&](Figures& sum, double step_s, double peak_bytes) {
      sum.step_s += (step_s - sum.step_s) / (policy.times + 1);
      sum.peak_bytes = std::max(sum.peak_bytes, peak_bytes);
    };
    const std::vector<CaseResult>& metrics = results[i].metrics;
    add(policy.measured, record.step_s, record.peak_bytes);
    add(policy.predicted, metrics[0].predicted, metrics[1].predicted);
    policy.times += 1;
  }
  return groups;
}

// Of equals the one that was measured first; null where nothing fits.
const Candidate* fastest_that_fits(const Group& group, Figures Candidate::*by, double limit) {
  const Candidate* best = nullptr;
  for (const Candidate& policy : group.policies) {
    const Figures& figures = policy.*by;
    if (figures.peak_bytes <= limit && (best == nullptr || figures.step_s < (best->*by).step_s)) {
      best = &policy;
    }
  }
  return best;
}

PolicyChoice choice_of(const Group& group, const Candidate& fastest, double limit) {
  PolicyChoice choice;
  choice.group = profile_group(*group.first);
  choice.limit_bytes = limit;
  choice.fastest = fastest.first->id;
  if (const Candidate* chosen = fastest_that_fits(group, &Candidate::predicted, limit)) {
    choice.chosen = chosen->first->id;
    choice.fits = chosen->measured.peak_bytes <= limit;
    choice.regret_percent = 100 * (chosen->measured.step_s / fastest.measured.step_s - 1);
  }
  return choice;
}

std::string worst_text(const std::vector<PolicyChoice>& choices) {
  const auto worst = std::max_element(
      choices.begin(), choices.end(), [](const PolicyChoice& a, const PolicyChoice& b) {
        return (a.fits ? a.regret_percent : -1) < (b.fits ? b.regret_percent : -1);
      });
  if (!worst->fits || worst->regret_percent <= 0) {
    return "worst regret of those that fit: 0 %\n";
  }
  return fmt::format("worst regret of those that fit: {:.2f} %, {}\n  instead of {} under {}\n",
                     worst->regret_percent, worst->chosen, worst->fastest,
                     format_bytes(worst->limit_bytes));
}

std::string misses_text(const std::vector<PolicyChoice>& choices) {
  TextTable table;
  table.left_columns = 3;
  table.add({"choices that are not right", "fastest that fits", "", "limit", "regret"});
  table.add_rule();
  bool any = false;
  for (const PolicyChoice& choice : choices) {
    if (!choice.is_right()) {
      any = true;
      table.add({choice.chosen.empty() ? choice.group + ": none" : choice.chosen, choice.fastest,
                 choice.chosen.empty() || choice.fits ? "" : "does not fit",
                 format_bytes(choice.limit_bytes),
                 choice.fits ? fmt::format("{:.1f} %", choice.regret_percent) : "-"});
    }
  }
  return any ? "\n" + table.render() : std::string();
}

} // namespace

bool PolicyChoice::is_right() const {
  return fits && regret_percent <= timing_noise_percent;
}

PolicyChoices policy_choices(const std::vector<ProfileRecord>& records,
                             const std::vector<ProfileResult>& results) {
  PolicyChoices all;
  for (const Group& group : groups_of(records, results)) {
    if (group.policies.size() < least_policies) {
      continue;
    }
    ++all.groups;
    double largest = 0;
    for (const Candidate& policy : group.policies) {
      largest = std::max(largest, policy.measured.peak_bytes);
    }
    for (const double share : limit_shares) {
      const double limit = share * largest;
      if (const Candidate* fastest = fastest_that_fits(group, &Candidate::measured, limit)) {
        all.choices.push_back(choice_of(group, *fastest, limit));
      }
    }
  }
  return all;
}

std::string choices_text(const PolicyChoices& all) {
  if (all.groups == 0) {
    return fmt::format("\nno records of {} policies of one shape and one set of switches, among "
                       "which to choose\n",
                       least_policies);
  }
  const std::vector<PolicyChoice>& choices = all.choices;
  const auto count = [&](const auto& is) {
    return std::count_if(choices.begin(), choices.end(), is);
  };
  std::string text = fmt::format(
      "\nof {} choices of a policy, in {} groups of one shape and one set of switches, under HBM\n"
      "limits of {:g} to {:g} % of the group's largest peak, {} are the fastest that fits as "
      "measured\n"
      "or within {:g} % of it; chosen that do not fit as measured: {}; limits that no policy was\n"
      "predicted to fit: {}\n",
      choices.size(), all.groups, 100 * limit_shares.front(), 100 * limit_shares.back(),
      count([](const PolicyChoice& c) { return c.is_right(); }), timing_noise_percent,
      count([](const PolicyChoice& c) { return !c.chosen.empty() && !c.fits; }),
      count([](const PolicyChoice& c) { return c.chosen.empty(); }));
  return text + worst_text(choices) + misses_text(choices);
}

} // namespace spillway
