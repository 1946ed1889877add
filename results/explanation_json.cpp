#include "results/explanation.hpp"

#include <nlohmann/json.hpp>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

double seconds(SimTime time) {
  return to_seconds(time).count();
}

Json counts_json(const StartCounts& counts) {
  return {{"beginning", counts.beginning},
          {"lane", counts.lane},
          {"dependency", counts.dependency},
          {"memory", counts.memory}};
}

void add_critical(Json& json, const Explanation& explanation) {
  json["critical_tasks"] = explanation.critical_tasks;
  json["critical_started_by"] = counts_json(explanation.started);
  json["critical_classes"] = Json::array();
  for (const auto& [name, time] : time_by_class(explanation)) {
    json["critical_classes"].push_back({{"class", name}, {"seconds", seconds(time)}});
  }
  json["critical_lost"] = Json::array();
  for (const LostGroup& group : explanation.lost) {
    json["critical_lost"].push_back(
        {{"resource", group.resource}, {"seconds", seconds(group.time)}});
  }
  json["critical"] = Json::array();
  for (const CriticalGroup& group : explanation.critical) {
    json["critical"].push_back({{"operation", group.what},
                                {"class", group.phase},
                                {"count", group.count},
                                {"seconds", seconds(group.time)},
                                {"started_by", counts_json(group.started)},
                                {"seconds_lost", seconds(group.lost)}});
  }
}

void add_waits(Json& json, const Explanation& explanation) {
  json["waits"] = Json::array();
  for (const WaitGroup& group : explanation.waits) {
    json["waits"].push_back({{"operation", group.before},
                             {"waits_for", group.cause},
                             {"bin", time_bin_name(group.bin)},
                             {"count", group.count},
                             {"seconds", seconds(group.time)}});
  }
  json["exposure"] = Json::array();
  for (const ExposureGroup& group : explanation.exposure) {
    json["exposure"].push_back({{"operation", group.what},
                                {"class", group.phase},
                                {"count", group.count},
                                {"seconds", seconds(group.time)},
                                {"seconds_exposed", seconds(group.exposed)},
                                {"seconds_hidden", seconds(group.hidden())}});
  }
  json["room"] = Json::array();
  for (const RoomGroup& group : explanation.room) {
    json["room"].push_back({{"operation", group.what},
                            {"class", group.phase},
                            {"count", group.count},
                            {"with_room", group.with_room},
                            {"seconds", seconds(group.time)},
                            {"least_room_s", seconds(group.least)},
                            {"most_room_s", seconds(group.most)}});
  }
}

void add_sharing(Json& json, const Explanation& explanation) {
  json["sharing"] = Json::array();
  for (const SharingGroup& group : explanation.sharing) {
    json["sharing"].push_back({{"operation", group.what},
                               {"resource", group.resource},
                               {"count", group.count},
                               {"seconds", seconds(group.time)},
                               {"seconds_alone", seconds(group.time_alone)}});
  }
}

Json faster_json(const WhatIf& faster) {
  Json json;
  json["percent"] = faster.percent;
  json["resources"] = Json::array();
  for (const FasterResource& one : faster.changed) {
    json["resources"].push_back({{"resource", one.resource}, {"step_time_s", seconds(one.step)}});
  }
  for (const std::string& name : faster.unchanged) {
    json["resources"].push_back({{"resource", name}, {"step_time_s", seconds(faster.step)}});
  }
  return json;
}

} // namespace

std::string explanation_json(const Simulation& run, const Explanation& explanation) {
  Json json;
  json["scenario"] = run.result.scenario;
  json["policy"] = run.result.policy;
  json["step_time_s"] = run.result.step_time_s;
  add_critical(json, explanation);
  add_waits(json, explanation);
  add_sharing(json, explanation);
  if (explanation.faster) {
    json["faster"] = faster_json(*explanation.faster);
  }
  return json.dump(2) + '\n';
}

} // namespace spillway
