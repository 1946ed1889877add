#include "results/planning/plan_parts.hpp"
#include "results/report_parts.hpp"
#include "results/text_table.hpp"
#include "sim/base/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace spillway {
namespace {

// "micro 4, accumulation 2": the last word of each key.
std::string settings_text(const Assignments& settings) {
  std::vector<std::string> parts;
  for (const auto& [path, value] : settings) {
    const std::size_t dot = path.rfind('.');
    parts.push_back(
        fmt::format("{} {}", dot == std::string::npos ? path : path.substr(dot + 1), value));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Models that are varied may have other kinds of layers, and other names.
bool same_names(const std::vector<GroupSpace>& one, const std::vector<GroupSpace>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const GroupSpace& a, const GroupSpace& b) {
                      return a.kind() == b.kind() && a.names() == b.names();
                    });
}

// The plan's own name, a named policy's, or what is different from the plan.
std::string policy_text(const PlanAnswer& answer, const Replayed& replayed) {
  const Replayed& best = answer.replayed[*answer.best];
  if (&replayed == &best || replayed.policy.name != "plan" || !best.choice) {
    return replayed.policy.name;
  }
  const SettingSearch& search = *answer.settings[replayed.setting].search;
  if (!same_names(search.groups(), answer.settings[best.setting].search->groups())) {
    return policy_yaml(replayed.policy);
  }
  const std::vector<std::string> changes =
      fate_changes(search.groups(), *best.choice, *replayed.choice);
  return changes.empty() ? "plan" : fmt::format("plan with {}", fmt::join(changes, ", "));
}

std::string percent_text(double fraction) {
  return fmt::format("{:+.1f} %", 100 * fraction);
}

// What the step would be with the other fates of a tensor.
std::string alternatives_text(const TensorAnswer& tensor) {
  std::vector<std::string> parts;
  for (const Alternative& other : tensor.alternatives) {
    std::string text = percent_text(other.slower);
    if (other.hbm_over > 0) {
      text = fmt::format("{} over HBM", bytes_text(other.hbm_over));
    } else if (other.host_over > 0) {
      text = fmt::format("{} over host memory", bytes_text(other.host_over));
    }
    parts.push_back(fmt::format("{} {}", fate_name(other.fate), text));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string reason_text(const TensorAnswer& tensor) {
  const std::string store =
      fmt::format("store {} behind {} of forward", format_seconds(tensor.store),
                  format_seconds(tensor.forward));
  if (tensor.is_input) {
    return "the layer is recomputed from it" + (tensor.fate == Fate::offload ? "; " + store : "");
  }
  const std::string spares = fmt::format(
      "spares {}{}", format_seconds(tensor.rerun),
      tensor.rerun_ops.empty() ? "" : fmt::format(" ({})", fmt::join(tensor.rerun_ops, ", ")));
  switch (tensor.fate) {
  case Fate::offload: return spares + "; " + store;
  case Fate::keep: return spares;
  case Fate::recompute: break;
  }
  if (tensor.rerun == 0) {
    return "saving it spares nothing";
  }
  if (tensor.rerun_flops_per_byte < 1) {
    return fmt::format("re-run in {}, no product", format_seconds(tensor.rerun));
  }
  return fmt::format("re-run in {}: {:.0f} operations per byte to carry",
                     format_seconds(tensor.rerun), tensor.rerun_flops_per_byte);
}

void add_plan(std::string& text, const PlanQuestion& question, const PlanAnswer& answer,
              const Replayed& best) {
  const RunResult& r = best.result;
  const MemoryLimits most = limits_of(question, answer.settings[best.setting].search->scenario());
  const Assignments& settings = answer.settings[best.setting].settings;
  text += fmt::format("{} a step, {:.1f} TFLOP/s per GPU, {:.0f} tokens/s per GPU{}\n",
                      format_seconds(r.step_time_s), r.model_tflops_per_gpu, r.tokens_per_s_per_gpu,
                      settings.empty() ? "" : ", at " + settings_text(settings));
  text += fmt::format("peak HBM {} of {}, pinned host memory {} of {}\n\n",
                      bytes_text(r.peak_hbm_bytes), bytes_text(most.hbm),
                      bytes_text(r.peak_host_bytes), bytes_text(most.host));
  text += fmt::format("  {}\n\n", policy_yaml(best.policy));
  if (answer.best_named) {
    const Replayed& named = answer.replayed[*answer.best_named];
    const Assignments& own = answer.settings[named.setting].settings;
    text +=
        fmt::format("{:.3f} times as fast as the best named policy, {}{}: {} a step, {:.1f} "
                    "TFLOP/s per GPU\n",
                    named.seconds_per_token / best.seconds_per_token, named.policy.name,
                    own.empty() ? "" : " at " + settings_text(own),
                    format_seconds(named.result.step_time_s), named.result.model_tflops_per_gpu);
  }
}

void add_proof(std::string& text, const PlanAnswer& answer) {
  const double gap = answer.gap();
  const std::string ended = answer.out_of_time      ? " (the time limit ended the search)"
                            : answer.out_of_replays ? " (the limit on replays ended the search)"
                                                    : "";
  text += fmt::format("No policy that treats all layers of a kind alike is {}: {} of {:.2g} in {} "
                      "were replayed, bounds tell of the others{}\n",
                      gap == 0 ? "faster" : fmt::format("more than {:.2f} % faster", 100 * gap),
                      answer.replayed.size(), answer.policies,
                      plural(answer.settings.size(), "setting"), ended);
}

// Where nothing fits: what comes nearest.
void add_nearest(std::string& text, const PlanQuestion& question, const PlanAnswer& answer) {
  const Replayed* nearest = nullptr;
  std::int64_t least = 0;
  for (const Replayed& r : answer.replayed) {
    const MemoryLimits most = limits_of(question, answer.settings[r.setting].search->scenario());
    const std::int64_t over = std::max<std::int64_t>(0, r.result.peak_hbm_bytes - most.hbm) +
                              std::max<std::int64_t>(0, r.result.peak_host_bytes - most.host);
    if (nearest == nullptr || over < least) {
      nearest = &r;
      least = over;
    }
  }
  if (nearest != nullptr) {
    text +=
        fmt::format("Nearest of the {} that were replayed: {} at {}, {} too large\n",
                    answer.replayed.size(), policy_yaml(nearest->policy),
                    settings_text(answer.settings[nearest->setting].settings), bytes_text(least));
  }
}

void add_settings(std::string& text, const PlanAnswer& answer) {
  TextTable table;
  table.left_columns = 1;
  table.last_column_left = true;
  table.add(
      {"setting", "step", "TFLOP/s", "tokens/s", "at most", "peak HBM", "host", "best policy"});
  table.add_rule();
  for (const SettingOutcome& setting : answer.settings) {
    std::vector<std::string> cells{settings_text(setting.settings)};
    if (!setting.best) {
      cells.insert(cells.end(),
                   {"-", "-", "-", "-", "-", "-",
                    setting.search ? "nothing that was replayed fits" : setting.impossible});
    } else {
      const Replayed& best = answer.replayed[*setting.best];
      cells.insert(cells.end(),
                   {format_seconds(best.result.step_time_s),
                    fmt::format("{:.1f}", best.result.model_tflops_per_gpu),
                    fmt::format("{:.0f}", 1 / best.seconds_per_token),
                    fmt::format("{:.0f}", 1 / setting.bound),
                    bytes_text(best.result.peak_hbm_bytes), bytes_text(best.result.peak_host_bytes),
                    policy_text(answer, best)});
    }
    table.add(std::move(cells));
  }
  text += "\nBest known of each setting; 'at most': tokens/s if nothing cost memory\n" +
          table.render("  ");
}

void add_tensors(std::string& text, const std::vector<TensorAnswer>& tensors) {
  TextTable table;
  table.left_columns = 2;
  table.last_column_left = true;
  std::string unused;
  std::string kind;
  table.add({"tensor", "fate", "bytes", "otherwise", "why"});
  for (const TensorAnswer& tensor : tensors) {
    if (!tensor.needed) {
      unused += (unused.empty() ? "" : ", ") + tensor.kind + "." + tensor.name;
      continue;
    }
    if (kind != tensor.kind) {
      table.add_rule();
      kind = tensor.kind;
    }
    table.add({tensor.kind + "." + tensor.name,
               std::string(fate_name(tensor.fate)) + (tensor.pinned ? " (pinned)" : ""),
               bytes_text(tensor.bytes), alternatives_text(tensor), reason_text(tensor)});
  }
  text += "\nWhy: what the step takes more with another fate, and what one layer takes alone\n" +
          table.render("  ");
  if (!unused.empty()) {
    text += "  not read by backward as it is: " + unused + "\n";
  }
}

void add_pareto(std::string& text, const PlanAnswer& answer, const std::vector<std::size_t>& front,
                std::size_t top) {
  TextTable table;
  table.last_column_left = true;
  table.add({"tokens/s", "TFLOP/s", "peak HBM", "host", "setting", "policy"});
  table.add_rule();
  const std::size_t shown = std::min(front.size(), top);
  for (std::size_t i = 0; i < shown; ++i) { // spread over all of them
    const std::size_t at = shown == 1 ? 0 : i * (front.size() - 1) / (shown - 1);
    const Replayed& r = answer.replayed[front[at]];
    table.add({fmt::format("{:.0f}", 1 / r.seconds_per_token),
               fmt::format("{:.1f}", r.result.model_tflops_per_gpu),
               bytes_text(r.result.peak_hbm_bytes), bytes_text(r.result.peak_host_bytes),
               settings_text(answer.settings[r.setting].settings), policy_text(answer, r)});
  }
  text +=
      fmt::format("\nTime against memory: {} of the {} replayed policies that fit are beaten by "
                  "none in all three{}\n",
                  front.size(),
                  std::count_if(answer.replayed.begin(), answer.replayed.end(),
                                [](const Replayed& r) { return r.fits; }),
                  shown < front.size() ? fmt::format("; {} of them", shown) : "");
  text += table.render("  ");
}

void add_families(std::string& text, const std::vector<FamilyAnswer>& families) {
  TextTable table;
  table.add({"policy", "micro-batch", "tokens/s"});
  table.add_rule();
  for (const FamilyAnswer& family : families) {
    table.add({family.policy, family.largest > 0 ? std::to_string(family.largest) : "none fits",
               family.largest > 0 ? fmt::format("{:.0f}", family.tokens_per_s) : "-"});
  }
  text += "\nLargest micro-batch that fits, with the plan's accumulation\n" + table.render("  ");
}

void add_changes(std::string& text, const std::vector<ChangeAnswer>& changes) {
  for (const ChangeAnswer& change : changes) {
    if (change.changes.empty()) {
      text += fmt::format("\n{} does not fit, and no few changed fates help\n", change.policy);
      continue;
    }
    text += fmt::format(
        "\n{} does not fit at the scenario's own setting; the smallest change found that helps, "
        "and the fastest of these: {}\n  then {} a step, peak HBM {}, pinned host memory {}\n",
        change.policy, fmt::join(change.changes, ", "), format_seconds(change.result.step_time_s),
        bytes_text(change.result.peak_hbm_bytes), bytes_text(change.result.peak_host_bytes));
  }
}

void add_what_changes(std::string& text, const PlanAnswer& answer,
                      const std::vector<WhatChanges>& all) {
  const Replayed& best = answer.replayed[*answer.best];
  TextTable table;
  table.add({"with", "this plan", "tokens/s", "fits", "best named policy"});
  table.add_rule();
  for (const WhatChanges& change : all) {
    if (!change.impossible.empty()) {
      table.add({change.what, "-", "-", "-", change.impossible});
      continue;
    }
    const double now = 1 / best.seconds_per_token;
    table.add({change.what, percent_text(change.plan / now - 1), fmt::format("{:.0f}", change.plan),
               change.plan_fits ? "yes" : "no",
               change.named > 0 ? fmt::format("{:.0f}{}", change.named,
                                              change.named_fits ? "" : ", does not fit")
                                : "-"});
  }
  text +=
      "\nIf one thing were different, both policies at the plan's setting\n" + table.render("  ");
}

} // namespace

std::string policy_yaml(const PolicySpec& policy) {
  const auto entries = [](const Fates& fates) {
    std::vector<std::string> all;
    for (const auto& [name, fate] : fates) {
      all.push_back(fmt::format("{}: {}", name, fate_name(fate)));
    }
    return fmt::format("tensors: {{{}}}", fmt::join(all, ", "));
  };
  const auto lists = [&](const Fates& tensors, const FatesByKind& by_kind) {
    std::string text = tensors.empty() ? "" : ", " + entries(tensors);
    for (const auto& [kind, fates] : by_kind) {
      text += fmt::format(", {}: {{{}}}", kind, entries(fates));
    }
    return text;
  };
  const std::string preset =
      policy.framework_preset.empty()
          ? std::string(built_in_presets[static_cast<std::size_t>(policy.preset)])
          : policy.framework_preset;
  std::string text = fmt::format("{{preset: {}{}", preset, lists(policy.tensors, policy.by_kind));
  if (policy.first) {
    text += fmt::format(", first: {{layers: {}{}}}", policy.first->layers,
                        lists(policy.first->tensors, policy.first->by_kind));
  }
  return text + "}";
}

std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer,
                      const std::optional<PlanAnswers>& answers, std::size_t top) {
  std::string text;
  if (!answer.best) {
    text = "Nothing that was looked at fits.\n";
    add_nearest(text, question, answer);
    add_settings(text, answer);
    return text;
  }
  const Replayed& best = answer.replayed[*answer.best];
  add_plan(text, question, answer, best);
  add_proof(text, answer);
  if (answer.settings.size() > 1) {
    add_settings(text, answer);
  }
  if (answers) {
    if (!answers->tensors.empty()) {
      add_tensors(text, answers->tensors);
    }
    const FreeTransfer& free = answers->free_transfer;
    text += fmt::format(
        "\nFree transfers: {} of forward at {} let {} a micro-batch reach the host; "
        "the plan moves {}\n",
        format_seconds(free.forward_s), format_byte_rate(free.rate),
        bytes_text(static_cast<std::int64_t>(free.bytes())), bytes_text(free.offloaded));
    if (answers->depth) {
      const DepthAnswer& depth = *answers->depth;
      text += fmt::format("\nWith the plan in the first {} decoder layers only, and {} in the "
                          "others: {} a step ({})\n  {}\n",
                          depth.layers, fmt::join(depth.changes, ", "),
                          format_seconds(depth.result.step_time_s),
                          percent_text(depth.result.step_time_s / best.result.step_time_s - 1),
                          policy_yaml(depth.policy));
    }
    add_pareto(text, answer, answers->pareto, top);
    add_families(text, answers->families);
    add_changes(text, answers->changes);
    add_what_changes(text, answer, answers->what_changes);
  }
  return text;
}

} // namespace spillway
