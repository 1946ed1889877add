// What a step does not wait for: operations beside the compute lane that could end later
// without making the step longer (sim/analysis/slack.hpp).
#pragma once

#include "results/simulate.hpp"
#include "sim/analysis/slack.hpp"

#include <string>
#include <vector>

namespace spillway {

// Operations of the reported GPU with one name, off the compute lane. Those without room
// are on the critical sequence, or as critical as it is.
struct RoomGroup {
  std::string what;  // "reload query_proj"
  std::string phase; // as in CriticalGroup
  std::int64_t count = 0;
  std::int64_t with_room = 0; // > 0
  SimTime time{0};            // of those with room, as they ran
  SimTime least{0};           // room of the one that has least, of those that have any
  SimTime most{0};
};

// Least room first; operations that take no time and groups without any room are left
// out.
[[nodiscard]] std::vector<RoomGroup> room_of(const Lowered& lowered, const Timeline& timeline,
                                             const Slack& slack);

} // namespace spillway
