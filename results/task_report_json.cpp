#include "results/explanation_words.hpp"
#include "results/task_report.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

double seconds(SimTime time) {
  return to_seconds(time).count();
}

Json line_json(const TaskLine& line) {
  return {{"task", line.what},
          {"lane", line.lane},
          {"start_s", seconds(line.start)},
          {"end_s", seconds(line.end)},
          {"started_by", cause_name(line.cause)}};
}

Json lines_json(const std::vector<TaskLine>& lines) {
  Json list = Json::array();
  for (const TaskLine& line : lines) {
    list.push_back(line_json(line));
  }
  return list;
}

Json memory_json(const std::vector<TaskMemory>& changes) {
  Json list = Json::array();
  for (const TaskMemory& change : changes) {
    list.push_back({{"pool", change.pool}, {"owner", change.owner}, {"bytes", change.bytes}});
  }
  return list;
}

Json waiting_json(const std::vector<WaitingTask>& all) {
  Json list = Json::array();
  for (const WaitingTask& one : all) {
    Json json = line_json(one.line);
    json["through"] = cause_name(one.through);
    json["started_by_it"] = one.started;
    list.push_back(std::move(json));
  }
  return list;
}

Json flow_json(const TaskFlow& flow) {
  return {{"bytes", flow.bytes},
          {"latency_s", seconds(flow.latency)},
          {"bytes_per_s", flow.rate},
          {"bytes_per_s_alone", flow.rate_alone},
          {"alone_bound_by", flow.alone_bound_by},
          {"seconds_lost", seconds(flow.lost)},
          {"bound_by", flow.bound_by}};
}

} // namespace

std::string task_json(const RunResult& result, const TaskReport& report) {
  Json json;
  json["scenario"] = result.scenario;
  json["policy"] = result.policy;
  json["task"] = report.what;
  json["class"] = report.phase;
  json["gpu"] = report.rank;
  json["occurrence"] = report.occurrence;
  json["occurrences"] = report.occurrences;
  json["lane"] = report.lane;
  json["ready_s"] = seconds(report.ready);
  json["start_s"] = seconds(report.start);
  json["end_s"] = seconds(report.end);
  json["slack_s"] = seconds(report.slack);
  json["critical"] = report.critical;
  json["started_by"] = cause_name(report.cause);
  json["started_by_pool"] = report.cause_pool.empty() ? Json() : Json(report.cause_pool);
  json["chain"] = lines_json(report.chain);
  json["waited_s"] = {{"dependency", seconds(report.by_dependency)},
                      {"lane", seconds(report.by_lane)},
                      {"memory", seconds(report.by_memory)}};
  json["dependencies"] = lines_json(report.dependencies);
  json["flow"] = report.flow ? flow_json(*report.flow) : Json();
  json["compute"] = report.compute ? Json{{"what", report.compute->what},
                                          {"flops", report.compute->flops},
                                          {"bytes", report.compute->bytes}}
                                   : Json();
  json["takes"] = memory_json(report.takes);
  json["gives_back"] = memory_json(report.gives_back);
  json["waiting"] = waiting_json(report.waiting);
  return json.dump(2) + '\n';
}

} // namespace spillway
