// What find_break_even found, for people and for programs.
#include "results/break_even.hpp"
#include "results/explanation_words.hpp"
#include "results/report_parts.hpp"
#include "results/text_table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr double least_gain = 0.0005; // that is worth a word

double exposed_copies(const RunResult& r) {
  return r.time[static_cast<std::size_t>(TimeBin::exposed_offload)];
}

// A value that was searched for, to three or four digits.
std::string rounded(const Sweep& sweep, double number) {
  return fmt::format("{:.4g}{}{}", number, sweep.unit.empty() ? "" : " ", sweep.unit);
}

// "D2H link -6.3 %, H2D link -2.0 %".
std::string helps_most(const WhatIf& faster, std::size_t count) {
  std::string text;
  for (const FasterResource& one : faster.changed) {
    if (count-- == 0 || faster.change(one.step) > -least_gain) {
      break;
    }
    text += fmt::format("{}{} {:+.1f} %", text.empty() ? "" : ", ", one.resource,
                        100 * faster.change(one.step));
  }
  return text.empty() ? "nothing" : text;
}

std::string table_text(const BreakEven& found) {
  TextTable table;
  table.last_column_left = true;
  table.add({"value", found.base, found.policy, "speed-up", "hidden", "exposed copies",
             fmt::format("{} % faster helps most", found.points.front().faster.percent)});
  table.add_rule();
  for (const SweepPoint& point : found.points) {
    table.add({found.sweep.text(point.number), format_seconds(point.base.step_time_s),
               format_seconds(point.policy.step_time_s),
               speedup_text(speedup_band(point.base, point.policy)), hidden_text(point.policy),
               format_seconds(exposed_copies(point.policy)), helps_most(point.faster, 2)});
  }
  return table.render();
}

std::string crossing_text(const BreakEven& found, const Crossing& crossing) {
  std::string text = fmt::format("{} takes as long as {} at {}", found.policy, found.base,
                                 rounded(found.sweep, crossing.number));
  const auto end = [&](const std::optional<double>& number, const char* outside, double swept) {
    return number ? rounded(found.sweep, *number) : outside + rounded(found.sweep, swept);
  };
  if (crossing.has_band) {
    text += fmt::format(" (low and high: {} .. {})",
                        end(crossing.band_from, "below ", found.sweep.numbers.front()),
                        end(crossing.band_to, "beyond ", found.sweep.numbers.back()));
  }
  return text + fmt::format("; above, it is {}\n", crossing.gains ? "faster" : "slower");
}

std::string crossings_text(const BreakEven& found) {
  if (found.crossings.empty()) {
    const SweepPoint& last = found.points.back();
    const bool faster = last.policy.step_time_s < last.base.step_time_s;
    return fmt::format("{} is faster than {} at {} value\n", found.policy, found.base,
                       faster ? "every" : "no");
  }
  std::string text;
  for (const Crossing& crossing : found.crossings) {
    text += crossing_text(found, crossing);
  }
  return text;
}

std::string classes_text(const BreakEven& found, std::size_t count) {
  std::string text;
  for (const auto& [name, time] : time_by_class(found.beyond)) {
    if (count-- == 0) {
      break;
    }
    text += fmt::format("{} {} {}", text.empty() ? "" : ",", name,
                        share_text(time, found.points.back().faster.step));
  }
  return fmt::format("  a step waits for{}\n", text);
}

std::string exposed_text(const BreakEven& found, std::size_t count) {
  std::string text = fmt::format("  {} of its copies are exposed\n",
                                 format_seconds(exposed_copies(found.points.back().policy)));
  for (const WaitGroup& wait : found.beyond.waits) {
    if (wait.bin == TimeBin::exposed_offload && count > 0) {
      text +=
          fmt::format("    {} waits {} for {}\n", wait.before, time_text(wait.time), wait.cause);
      --count;
    }
  }
  for (const LostGroup& lost : found.beyond.lost) {
    text += fmt::format("  {} of what it waits for is lost to sharing {}\n", time_text(lost.time),
                        lost.resource);
  }
  return text;
}

// What the step waits for at the last value, and what no longer matters there.
std::string beyond_text(const BreakEven& found) {
  const SweepPoint& last = found.points.back();
  std::string text =
      fmt::format("What limits {} at {}\n", found.policy, found.sweep.text(last.number)) +
      classes_text(found, 5) + exposed_text(found, 3) +
      fmt::format("  {} % faster helps most: {}\n", last.faster.percent,
                  helps_most(last.faster, last.faster.changed.size()));
  if (!last.faster.unchanged.empty()) {
    text += fmt::format("  no change: {}\n", fmt::join(last.faster.unchanged, ", "));
  }
  return text;
}

Json point_json(const SweepPoint& point, bool band) {
  Json json;
  const RatioBand speedup = speedup_band(point.base, point.policy);
  json["value"] = point.number;
  json["base_step_time_s"] = point.base.step_time_s;
  json["step_time_s"] = point.policy.step_time_s;
  json["speedup"] = speedup.expected;
  if (band) {
    json["speedup_low"] = speedup.low;
    json["speedup_high"] = speedup.high;
  }
  json["verdict"] = verdict_name(point.policy.verdict);
  json["exposed_offload_s"] = exposed_copies(point.policy);
  json["faster_percent"] = point.faster.percent;
  json["faster"] = Json::object();
  for (const FasterResource& one : point.faster.changed) {
    json["faster"][one.resource] = to_seconds(one.step).count();
  }
  return json;
}

// With a band, an end that is outside of the swept values is null.
Json crossing_json(const Crossing& crossing) {
  Json json{{"value", crossing.number}, {"faster_above", crossing.gains}};
  if (crossing.has_band) {
    json["low"] = crossing.band_from ? Json(*crossing.band_from) : Json(nullptr);
    json["high"] = crossing.band_to ? Json(*crossing.band_to) : Json(nullptr);
  }
  return json;
}

Json beyond_json(const Explanation& beyond) {
  Json json{{"seconds", Json::object()}, {"waits", Json::array()}, {"lost", Json::object()}};
  for (const auto& [name, time] : time_by_class(beyond)) {
    json["seconds"][name] = to_seconds(time).count();
  }
  for (const WaitGroup& wait : beyond.waits) {
    json["waits"].push_back({{"operation", wait.before},
                             {"waits_for", wait.cause},
                             {"bin", time_bin_name(wait.bin)},
                             {"seconds", to_seconds(wait.time).count()}});
  }
  for (const LostGroup& lost : beyond.lost) {
    json["lost"][lost.resource] = to_seconds(lost.time).count();
  }
  return json;
}

} // namespace

std::string break_even_text(const BreakEven& found) {
  std::string text = table_text(found) + "\n" + crossings_text(found) + beyond_text(found);
  const RunResult& r = found.points.back().policy;
  if (r.verdict != Verdict::fits) {
    text += fmt::format("{} does not fit: {}\n", r.policy, shortfall_text(r));
  }
  return text;
}

std::string break_even_json(const std::vector<BreakEven>& all) {
  Json json;
  json["break_even"] = Json::array();
  for (const BreakEven& found : all) {
    Json one{{"path", found.sweep.path},
             {"unit", found.sweep.unit},
             {"base", found.base},
             {"policy", found.policy}};
    one["points"] = Json::array();
    for (const SweepPoint& point : found.points) {
      one["points"].push_back(point_json(point, point.base.has_band()));
    }
    one["crossings"] = Json::array();
    for (const Crossing& crossing : found.crossings) {
      one["crossings"].push_back(crossing_json(crossing));
    }
    one["beyond"] = beyond_json(found.beyond);
    json["break_even"].push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

} // namespace spillway
