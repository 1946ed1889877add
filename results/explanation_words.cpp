#include "results/explanation_words.hpp"

#include <fmt/format.h>

namespace spillway {

std::string class_of(const TaskInfo& info) {
  switch (info.kind) {
  case TaskKind::store:
  case TaskKind::reload: return "copy";
  case TaskKind::collective:
    return info.phase == Phase::recompute ? "collective, re-run" : "collective";
  case TaskKind::gap: return "gap between steps";
  case TaskKind::kernel:
  case TaskKind::bookkeeping: break;
  }
  return phase_name(info.phase);
}

const char* cause_name(Cause cause) {
  switch (cause) {
  case Cause::beginning: return "beginning";
  case Cause::dependency: return "dependency";
  case Cause::lane: return "lane";
  case Cause::memory: break;
  }
  return "memory";
}

std::string time_text(SimTime time) {
  return format_seconds(to_seconds(time).count());
}

std::string share_text(SimTime part, SimTime whole) {
  return fmt::format("{:.1f} %", whole > SimTime{0}
                                     ? 100 * to_seconds(part).count() / to_seconds(whole).count()
                                     : 0.0);
}

std::string moment_text(SimTime time) {
  return fmt::format("{:.3f} ms", 1e3 * to_seconds(time).count());
}

} // namespace spillway
