#include "results/planning/planner.hpp"

#include "results/parallel.hpp"
#include "results/planning/plan_parts.hpp"
#include "results/planning/proposals.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <set>

namespace spillway {
namespace {

constexpr std::size_t batch = 16;         // replays between two looks at the bounds
constexpr std::size_t opened_at_once = 4; // settings
constexpr std::size_t before_opening_more = 10 * batch;
constexpr double never = std::numeric_limits<double>::infinity();

struct Job {
  std::size_t setting = 0;
  PolicySpec policy;
  std::optional<Choice> choice;
  bool named = false;
};

class Planner {
public:
  Planner(const PlanQuestion& question, unsigned threads,
          const std::function<void(const PlanProgress&)>& progress)
      : question_(question), threads_(threads), progress_(progress) {
    if (question.time_limit) {
      deadline_ =
          std::chrono::steady_clock::now() +
          std::chrono::duration_cast<std::chrono::steady_clock::duration>(*question.time_limit);
    }
  }

  [[nodiscard]] PlanAnswer run() {
    make_searches();
    replay_named();
    replay_proposals();
    search();
    return std::move(answer_);
  }

private:
  void make_searches();
  void replay_named();
  void replay_proposals();
  void open_some();
  [[nodiscard]] double least_of(std::size_t setting) const;
  void search();
  [[nodiscard]] std::vector<Job> next_jobs(std::size_t setting);
  void replay(std::vector<Job> jobs);
  void note(Replayed replayed, bool named);
  void improve();
  [[nodiscard]] std::vector<Job> neighbours(const Replayed& of) const;
  [[nodiscard]] bool out_of_time() const;

  [[nodiscard]] double best_score() const {
    return answer_.best ? answer_.replayed[*answer_.best].seconds_per_token : never;
  }
  // In seconds a step of this setting, what the best known takes per token.
  [[nodiscard]] double ceiling(std::size_t setting) const {
    return best_score() * (1 - question_.enough_gap) * answer_.settings[setting].tokens;
  }
  [[nodiscard]] MemoryLimits limits(std::size_t setting) const;
  [[nodiscard]] Job job_of(std::size_t setting, const Choice& choice) const;

  const PlanQuestion& question_;
  unsigned threads_;
  const std::function<void(const PlanProgress&)>& progress_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  PlanAnswer answer_;
  std::vector<std::shared_ptr<SettingSearch>> searches_; // by setting; none: impossible
  std::vector<bool> opened_; // by setting: whether its candidates are listed
  std::size_t replays_since_opening_ = 0;
  std::set<std::pair<std::size_t, Choice>> seen_;
};

MemoryLimits Planner::limits(std::size_t setting) const {
  return limits_of(question_, searches_[setting]->scenario());
}

Job Planner::job_of(std::size_t setting, const Choice& choice) const {
  Job job;
  job.setting = setting;
  job.choice = choice;
  job.policy = policy_of(*searches_[setting], choice);
  return job;
}

void Planner::make_searches() {
  answer_.settings.resize(question_.settings.size());
  searches_.resize(question_.settings.size());
  std::vector<std::exception_ptr> failures(question_.settings.size());
  run_jobs(
      question_.settings.size(), threads_, [] { return 0; },
      [&](std::size_t i, int) {
        SettingOutcome& outcome = answer_.settings[i];
        outcome.settings = question_.settings[i];
        std::optional<Scenario> scenario;
        try {
          scenario = question_.load(outcome.settings);
        } catch (const InputError& error) {
          outcome.impossible = error.diagnostics().front().message;
          failures[i] = std::current_exception();
          return;
        }
        outcome.tokens =
            static_cast<double>(scenario->trace.tokens * scenario->trace.micro_batches);
        searches_[i] = std::make_shared<SettingSearch>(std::move(*scenario), question_.pins,
                                                       question_.folding);
        outcome.search = searches_[i];
        outcome.bound = searches_[i]->root_bound() / outcome.tokens;
      });
  if (std::all_of(searches_.begin(), searches_.end(),
                  [](const auto& search) { return search == nullptr; })) {
    std::rethrow_exception(failures.front());
  }
  for (const auto& search : searches_) {
    double policies = search == nullptr ? 0 : 1;
    if (search != nullptr) {
      for (const GroupSpace& group : search->groups()) {
        policies *= group.policies();
      }
      check_pins(question_.pins, search->groups());
    }
    answer_.policies += policies;
  }
}

void Planner::note(Replayed replayed, bool named) {
  const MemoryLimits most = limits(replayed.setting);
  SettingOutcome& outcome = answer_.settings[replayed.setting];
  replayed.seconds_per_token = replayed.result.step_time_s / outcome.tokens;
  replayed.fits = fits(replayed.result, most);
  const std::size_t index = answer_.replayed.size();
  const auto take = [&](std::optional<std::size_t>& best) {
    if (replayed.fits &&
        (!best || replayed.seconds_per_token < answer_.replayed[*best].seconds_per_token)) {
      best = index;
    }
  };
  take(outcome.best);
  take(answer_.best);
  if (named) {
    take(answer_.best_named);
  }
  answer_.replayed.push_back(std::move(replayed));
}

void Planner::replay(std::vector<Job> jobs) {
  std::erase_if(jobs, [&](const Job& job) {
    return job.choice && !seen_.insert({job.setting, *job.choice}).second;
  });
  std::vector<RunResult> results(jobs.size());
  run_jobs(
      jobs.size(), threads_, [] { return 0; },
      [&](std::size_t i, int) {
        const SettingSearch& search = *searches_[jobs[i].setting];
        RateCache cache = search.rates(); // of this device
        results[i] = simulate(search.scenario(), jobs[i].policy, cache, question_.folding).result;
      });
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Replayed replayed;
    replayed.setting = jobs[i].setting;
    replayed.policy = std::move(jobs[i].policy);
    replayed.choice = std::move(jobs[i].choice);
    replayed.result = std::move(results[i]);
    note(std::move(replayed), jobs[i].named);
  }
}

// The scenario's policies and the framework's presets, where pins leave them as they are.
void Planner::replay_named() {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < searches_.size(); ++i) {
    if (searches_[i] == nullptr) {
      continue;
    }
    const Scenario& scenario = searches_[i]->scenario();
    std::vector<PolicySpec> named = scenario.policies;
    named.insert(named.end(), scenario.presets.begin(), scenario.presets.end());
    for (PolicySpec& policy : named) {
      Job job{i, policy, exact_choice(*searches_[i], policy), true};
      if (keeps_pins(policy, scenario, question_.pins)) {
        jobs.push_back(std::move(job));
      }
    }
  }
  replay(std::move(jobs));
}

void Planner::replay_proposals() {
  std::vector<std::vector<Choice>> proposed(searches_.size());
  run_jobs(
      searches_.size(), threads_, [] { return 0; },
      [&](std::size_t i, int) {
        if (searches_[i] != nullptr) {
          proposed[i] = propose(*searches_[i], limits(i));
        }
      });
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < proposed.size(); ++i) {
    for (const Choice& choice : proposed[i]) {
      jobs.push_back(job_of(i, choice));
    }
  }
  replay(std::move(jobs));
  improve();
}

// Every policy that differs in one tensor, and by its bounds may be faster and fit.
std::vector<Job> Planner::neighbours(const Replayed& of) const {
  std::vector<Job> jobs;
  const SettingSearch& search = *searches_[of.setting];
  const MemoryLimits most = limits(of.setting);
  for (const Choice& choice : changed_in_one(search, *of.choice)) {
    const SettingSearch::Bounded bounded = search.bound_of(choice);
    if (bounded.step_s < ceiling(of.setting) && most.hold(bounded.bytes)) {
      jobs.push_back(job_of(of.setting, choice));
    }
  }
  return jobs;
}

void Planner::improve() {
  std::optional<std::size_t> from;
  while (answer_.best != from && answer_.best && !out_of_time()) {
    from = answer_.best;
    if (answer_.replayed[*from].choice) {
      replay(neighbours(answer_.replayed[*from]));
    }
  }
}

// Seconds per token that no choice of a setting that is still to come is below.
double Planner::least_of(std::size_t setting) const {
  if (searches_[setting] == nullptr) {
    return never;
  }
  const double seconds =
      opened_[setting] ? searches_[setting]->least() : searches_[setting]->root_bound();
  return seconds / answer_.settings[setting].tokens;
}

// A few settings at a time, those with the best known policies first: what they find leaves
// less to list in the others.
void Planner::open_some() {
  std::vector<std::size_t> closed;
  for (std::size_t i = 0; i < searches_.size(); ++i) {
    if (!opened_[i] && least_of(i) < best_score() * (1 - question_.enough_gap)) {
      closed.push_back(i);
    }
  }
  const auto known = [&](std::size_t i) {
    const std::optional<std::size_t>& best = answer_.settings[i].best;
    return best ? answer_.replayed[*best].seconds_per_token : never;
  };
  std::stable_sort(closed.begin(), closed.end(),
                   [&](std::size_t one, std::size_t other) { return known(one) < known(other); });
  closed.resize(std::min(closed.size(), opened_at_once));
  run_jobs(
      closed.size(), threads_, [] { return 0; },
      [&](std::size_t i, int) {
        searches_[closed[i]]->open(ceiling(closed[i]), limits(closed[i]), deadline_);
      });
  for (const std::size_t setting : closed) {
    opened_[setting] = true;
  }
}

bool Planner::out_of_time() const {
  return deadline_ && std::chrono::steady_clock::now() >= *deadline_;
}

// Half of them new, half in the order of their bounds, which is what closes the gap.
std::vector<Job> Planner::next_jobs(std::size_t setting) {
  std::vector<Job> jobs;
  SettingSearch& search = *searches_[setting];
  for (bool by_bound : {false, true}) {
    while (jobs.size() < (by_bound ? batch : batch / 2)) {
      const auto next =
          by_bound ? search.take(ceiling(setting)) : search.take_new(ceiling(setting));
      if (!next) {
        break;
      }
      jobs.push_back(job_of(setting, next->choice));
    }
  }
  return jobs;
}

void Planner::search() {
  opened_.assign(searches_.size(), false);
  for (;;) {
    std::size_t first = 0;      // of all
    std::size_t first_open = 0; // of those that are listed
    for (std::size_t i = 1; i < searches_.size(); ++i) {
      first = least_of(i) < least_of(first) ? i : first;
      const bool before = !opened_[first_open] || least_of(i) < least_of(first_open);
      first_open = opened_[i] && before ? i : first_open;
    }
    // Candidates from the target on are not looked at, so nothing is known of those.
    const double target = best_score() * (1 - question_.enough_gap);
    answer_.least = std::min(least_of(first), target);
    progress_({answer_.replayed.size(),
               answer_.best ? std::optional(1 / best_score()) : std::nullopt, answer_.gap()});
    if (!(answer_.least < target)) {
      break;
    }
    answer_.out_of_replays = answer_.replayed.size() >= question_.most_replays;
    answer_.out_of_time = out_of_time();
    if (answer_.out_of_replays || answer_.out_of_time) {
      break;
    }
    const bool closed_left = answer_.least < least_of(first_open) || !opened_[first_open];
    if (!opened_[first_open] || !(least_of(first_open) < target) ||
        (closed_left && replays_since_opening_ >= before_opening_more)) {
      open_some();
      replays_since_opening_ = 0;
      continue;
    }
    replays_since_opening_ += batch;
    replay(next_jobs(first_open));
  }
  for (const auto& search : searches_) {
    if (search != nullptr) {
      answer_.bounded += search->bounded();
    }
  }
}

} // namespace

double PlanAnswer::gap() const {
  return best ? std::max(0.0, 1 - least / replayed[*best].seconds_per_token) : 1.0;
}

PlanAnswer find_plan(const PlanQuestion& question, unsigned threads,
                     const std::function<void(const PlanProgress&)>& progress) {
  return Planner(question, threads, progress).run();
}

} // namespace spillway
