#include "results/planning/plan_parts.hpp"
#include "results/write.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

Json settings_json(const Assignments& settings) {
  Json json = Json::object();
  for (const auto& [path, value] : settings) {
    json[path] = value;
  }
  return json;
}

Json replayed_json(const PlanAnswer& answer, const Replayed& replayed) {
  Json json;
  json["settings"] = settings_json(answer.settings[replayed.setting].settings);
  json["policy_yaml"] = policy_yaml(replayed.policy);
  json["result"] = Json::parse(run_json(replayed.result));
  return json;
}

Json tensors_json(const std::vector<TensorAnswer>& tensors) {
  Json all = Json::array();
  for (const TensorAnswer& tensor : tensors) {
    Json json;
    json["kind"] = tensor.kind;
    json["name"] = tensor.name;
    json["fate"] = fate_name(tensor.fate);
    json["pinned"] = tensor.pinned;
    json["needed"] = tensor.needed;
    json["bytes"] = tensor.bytes;
    json["layer_store_s"] = tensor.store;
    json["layer_forward_s"] = tensor.forward;
    json["layer_rerun_s"] = tensor.rerun;
    json["rerun_flops_per_byte"] = tensor.rerun_flops_per_byte;
    json["rerun_operations"] = tensor.rerun_ops;
    json["alternatives"] = Json::array();
    for (const Alternative& other : tensor.alternatives) {
      json["alternatives"].push_back(
          {{"fate", fate_name(other.fate)},
           {"slower_percent", 100 * other.slower},
           {"hbm_over_bytes", std::max<std::int64_t>(0, other.hbm_over)},
           {"host_over_bytes", std::max<std::int64_t>(0, other.host_over)}});
    }
    all.push_back(std::move(json));
  }
  return all;
}

void add_answers(Json& json, const PlanAnswer& answer, const PlanAnswers& answers) {
  json["tensors"] = tensors_json(answers.tensors);
  json["pareto"] = Json::array();
  for (const std::size_t i : answers.pareto) {
    const Replayed& r = answer.replayed[i];
    json["pareto"].push_back({{"settings", settings_json(answer.settings[r.setting].settings)},
                              {"policy", r.policy.name},
                              {"policy_yaml", policy_yaml(r.policy)},
                              {"tokens_per_s_per_gpu", 1 / r.seconds_per_token},
                              {"step_time_s", r.result.step_time_s},
                              {"peak_hbm_bytes", r.result.peak_hbm_bytes},
                              {"peak_host_bytes", r.result.peak_host_bytes}});
  }
  json["largest_micro_batch"] = Json::array();
  for (const FamilyAnswer& family : answers.families) {
    json["largest_micro_batch"].push_back({{"policy", family.policy},
                                           {"micro_batch", family.largest},
                                           {"tokens_per_s_per_gpu", family.tokens_per_s}});
  }
  json["smallest_changes"] = Json::array();
  for (const ChangeAnswer& change : answers.changes) {
    Json one{{"policy", change.policy}, {"changes", change.changes}};
    if (!change.changes.empty()) {
      one["step_time_s"] = change.result.step_time_s;
      one["peak_hbm_bytes"] = change.result.peak_hbm_bytes;
      one["peak_host_bytes"] = change.result.peak_host_bytes;
    }
    json["smallest_changes"].push_back(std::move(one));
  }
  json["if_different"] = Json::array();
  for (const WhatChanges& change : answers.what_changes) {
    Json one{{"what", change.what}};
    if (!change.impossible.empty()) {
      one["impossible"] = change.impossible;
    } else {
      one["plan_tokens_per_s_per_gpu"] = change.plan;
      one["plan_fits"] = change.plan_fits;
      one["named_tokens_per_s_per_gpu"] = change.named;
      one["named_fits"] = change.named_fits;
    }
    json["if_different"].push_back(std::move(one));
  }
  json["depth"] = Json();
  if (answers.depth) {
    json["depth"] = {{"layers", answers.depth->layers},
                     {"changes_in_others", answers.depth->changes},
                     {"policy_yaml", policy_yaml(answers.depth->policy)},
                     {"step_time_s", answers.depth->result.step_time_s},
                     {"peak_hbm_bytes", answers.depth->result.peak_hbm_bytes},
                     {"peak_host_bytes", answers.depth->result.peak_host_bytes}};
  }
  json["free_transfer"] = {{"forward_s", answers.free_transfer.forward_s},
                           {"rate_bytes_per_s", answers.free_transfer.rate},
                           {"free_bytes", answers.free_transfer.bytes()},
                           {"offloaded_bytes", answers.free_transfer.offloaded}};
}

} // namespace

std::string plan_json(const PlanQuestion& question, const PlanAnswer& answer,
                      const std::optional<PlanAnswers>& answers) {
  Json json;
  json["plan"] = answer.best ? replayed_json(answer, answer.replayed[*answer.best]) : Json();
  json["best_named"] =
      answer.best_named ? replayed_json(answer, answer.replayed[*answer.best_named]) : Json();
  if (answer.best) {
    const MemoryLimits most = limits_of(
        question, answer.settings[answer.replayed[*answer.best].setting].search->scenario());
    json["hbm_limit_bytes"] = most.hbm;
    json["host_limit_bytes"] = most.host;
    json["gap_percent"] = 100 * answer.gap();
  } else {
    json["gap_percent"] = Json();
  }
  json["policies"] = answer.policies;
  json["replayed"] = answer.replayed.size();
  json["bounded"] = answer.bounded;
  json["ended_by"] = answer.out_of_time      ? "time limit"
                     : answer.out_of_replays ? "replays"
                                             : "bound";
  json["pins"] = Json::object();
  for (const auto& [name, fate] : question.pins) {
    json["pins"][name] = fate_name(fate);
  }
  json["settings"] = Json::array();
  for (const SettingOutcome& setting : answer.settings) {
    Json one{{"settings", settings_json(setting.settings)}};
    if (!setting.search) {
      one["impossible"] = setting.impossible;
    } else {
      one["bound_tokens_per_s_per_gpu"] = 1 / setting.bound;
      if (setting.best) {
        const Replayed& best = answer.replayed[*setting.best];
        one["policy"] = best.policy.name;
        one["policy_yaml"] = policy_yaml(best.policy);
        one["tokens_per_s_per_gpu"] = 1 / best.seconds_per_token;
        one["peak_hbm_bytes"] = best.result.peak_hbm_bytes;
        one["peak_host_bytes"] = best.result.peak_host_bytes;
      }
    }
    json["settings"].push_back(std::move(one));
  }
  if (answers) {
    add_answers(json, answer, *answers);
  }
  return json.dump(2) + '\n';
}

} // namespace spillway
