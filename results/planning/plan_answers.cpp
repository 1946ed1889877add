#include "results/planning/plan_answers.hpp"

#include "results/planning/plan_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

// What saving one name spares, in one layer.
void fill_rerun(TensorAnswer& tensor, const SettingSearch& search, std::size_t group,
                GroupChoice choice, std::size_t name, double speed) {
  const GroupSpace& space = search.groups()[group];
  const std::uint32_t kind = search.bound().groups()[group].kinds.front();
  const LayerKind& layer = search.scenario().trace.kinds[kind];
  const KindPlan with = space.plans(with_fate(choice, name, Fate::keep)).front();
  const KindPlan without = space.plans(with_fate(choice, name, Fate::recompute)).front();
  double flops = 0;
  std::int64_t bytes = 0;
  for (const OpIndex op : without.rerun) {
    if (!std::binary_search(with.rerun.begin(), with.rerun.end(), op)) {
      const Work& work = layer.ops[op].work;
      tensor.rerun += search.bound().layer(kind).op_time(op, speed);
      flops += work.flops().value();
      if (work.kind != WorkKind::none && work.kind != WorkKind::memory) {
        tensor.rerun_ops.push_back(layer.ops[op].name);
      }
    }
  }
  tensor.needed = false;
  tensor.is_input = space.is_input(name);
  for (TensorIndex t = 0; t < layer.tensors.size(); ++t) {
    if (space.is_named(t, name)) {
      bytes += layer.tensors[t].bytes.count();
      tensor.needed = tensor.needed || with.tensors[t].needed;
      tensor.store += with.tensors[t].needed ? search.bound().layer(kind).copy(t).store : 0.0;
    }
  }
  tensor.rerun_flops_per_byte = bytes > 0 ? flops / static_cast<double>(bytes) : 0;
}

std::vector<TensorAnswer> tensors_of(const PlanQuestion& question, const PlanAnswer& answer,
                                     unsigned threads) {
  const Replayed& best = best_of(answer);
  const SettingSearch& search = *answer.settings[best.setting].search;
  const MemoryLimits limits = limits_of(question, search.scenario());
  std::vector<TensorAnswer> tensors;
  std::vector<PolicySpec> others;
  for (std::size_t g = 0; g < search.groups().size(); ++g) {
    const GroupSpace& space = search.groups()[g];
    const GroupChoice own = (*best.choice)[g];
    const std::uint32_t kind = search.bound().groups()[g].kinds.front();
    const double forward = search.bound()
                               .layer(kind)
                               .forward_of(space.nothing_saved().front(), best.result.clock_speed)
                               .first;
    for (std::size_t i = 0; i < space.names().size(); ++i) {
      TensorAnswer tensor;
      tensor.kind = space.kind();
      tensor.name = space.names()[i];
      tensor.fate = fate_of(own, i);
      tensor.pinned = space.pinned(i).has_value();
      tensor.bytes = space.bytes()[i];
      tensor.forward = forward;
      fill_rerun(tensor, search, g, own, i, best.result.clock_speed);
      for (const Fate fate : {Fate::keep, Fate::recompute, Fate::offload}) {
        if (fate != tensor.fate && tensor.needed && space.may_be(i, fate)) {
          Choice changed = *best.choice;
          changed[g] = with_fate(own, i, fate);
          others.push_back(policy_of(search, changed));
          tensor.alternatives.push_back({fate, 0, 0, 0});
        }
      }
      tensors.push_back(std::move(tensor));
    }
  }
  const std::vector<RunResult> results = replay_all(search, others, question.folding, threads);
  std::size_t next = 0;
  for (TensorAnswer& tensor : tensors) {
    for (Alternative& alternative : tensor.alternatives) {
      const RunResult& result = results[next++];
      alternative.slower = result.step_time_s / best.result.step_time_s - 1;
      alternative.hbm_over = result.peak_hbm_bytes - limits.hbm;
      alternative.host_over = result.peak_host_bytes - limits.host;
    }
  }
  return tensors;
}

FreeTransfer free_transfer(const PlanAnswer& answer) {
  const Replayed& best = best_of(answer);
  const SettingSearch& search = *answer.settings[best.setting].search;
  FreeTransfer free;
  for (std::size_t g = 0; g < search.groups().size(); ++g) {
    const std::vector<std::uint32_t>& kinds = search.bound().groups()[g].kinds;
    const std::vector<KindPlan> nothing = search.groups()[g].nothing_saved();
    for (const LayerBlock& block : search.scenario().trace.blocks) {
      for (std::int64_t position = 0; position < block.layers; ++position) {
        const auto at = std::find(kinds.begin(), kinds.end(), block.kind_of(position));
        if (at != kinds.end()) {
          free.forward_s += search.bound()
                                .layer(*at)
                                .forward_of(nothing[static_cast<std::size_t>(at - kinds.begin())],
                                            best.result.clock_speed)
                                .next;
        }
      }
    }
  }
  free.rate = copy_rate(search.scenario(), PriceOf::store);
  free.offloaded = best.result.peak_host_bytes;
  return free;
}

} // namespace

std::vector<std::string> fate_changes(const std::vector<GroupSpace>& groups, const Choice& from,
                                      const Choice& to) {
  std::vector<std::string> changes;
  for (std::size_t g = 0; g < from.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].names().size(); ++i) {
      if (fate_of(from[g], i) != fate_of(to[g], i)) {
        changes.push_back(fmt::format("{}.{}={}", groups[g].kind(), groups[g].names()[i],
                                      fate_name(fate_of(to[g], i))));
      }
    }
  }
  return changes;
}

std::vector<std::size_t> pareto_set(const PlanAnswer& answer) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < answer.replayed.size(); ++i) {
    if (answer.replayed[i].fits) {
      order.push_back(i);
    }
  }
  const auto key = [&](std::size_t i) {
    const Replayed& r = answer.replayed[i];
    return std::tuple(r.seconds_per_token, r.result.peak_hbm_bytes, r.result.peak_host_bytes, i);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t one, std::size_t other) { return key(one) < key(other); });
  std::vector<std::size_t> front;
  for (const std::size_t i : order) {
    const RunResult& own = answer.replayed[i].result;
    const bool beaten = std::any_of(front.begin(), front.end(), [&](std::size_t other) {
      const RunResult& r = answer.replayed[other].result;
      return r.peak_hbm_bytes <= own.peak_hbm_bytes && r.peak_host_bytes <= own.peak_host_bytes;
    });
    if (!beaten) {
      front.push_back(i);
    }
  }
  return front;
}

PlanAnswers explain_plan(const PlanQuestion& question, const PlanAnswer& answer, unsigned threads) {
  PlanAnswers answers;
  answers.pareto = pareto_set(answer);
  if (best_of(answer).choice) {
    answers.tensors = tensors_of(question, answer, threads);
    answers.depth = depth_of(question, answer, threads);
  }
  answers.families = families_of(question, answer, threads);
  answers.changes = changes_of(question, threads);
  answers.what_changes = what_changes(question, answer, threads);
  answers.free_transfer = free_transfer(answer);
  return answers;
}

} // namespace spillway
