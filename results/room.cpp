#include "results/room.hpp"

#include "results/explanation_words.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace spillway {
namespace {

void add(RoomGroup& group, SimTime took, SimTime slack, std::int64_t runs) {
  group.count += runs;
  if (slack <= SimTime{0}) {
    return;
  }
  group.least = group.with_room == 0 ? slack : std::min(group.least, slack);
  group.most = std::max(group.most, slack);
  group.time += took * runs;
  group.with_room += runs;
}

} // namespace

std::vector<RoomGroup> room_of(const Lowered& lowered, const Timeline& timeline,
                               const Slack& slack) {
  const LaneId compute = lowered.lanes.front().compute;
  std::map<std::pair<std::string, std::string>, RoomGroup> groups;
  for (TaskId task = 0; task < lowered.tasks.size(); ++task) {
    const TaskInfo& info = lowered.tasks[task];
    const SimTime took = timeline.tasks[task].end - timeline.tasks[task].start;
    if (info.rank != 0 || lowered.graph.tasks[task].lane == compute || took == SimTime{0}) {
      continue;
    }
    RoomGroup& group = groups[{class_of(info), lowered.labels[info.label]}];
    group.what = lowered.labels[info.label];
    group.phase = class_of(info);
    slack.each_run(task, [&](SimTime room, std::int64_t runs) { add(group, took, room, runs); });
  }
  std::vector<RoomGroup> list;
  for (auto& [key, group] : groups) {
    if (group.with_room > 0) {
      list.push_back(std::move(group));
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const RoomGroup& a, const RoomGroup& b) { return a.least < b.least; });
  return list;
}

} // namespace spillway
