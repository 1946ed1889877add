#include "hw_models/calibration/json_line.hpp"

#include "sim/base/input_file.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace spillway {
namespace {

using Json = nlohmann::json;

constexpr std::size_t most_shown_bytes = 60;

} // namespace

JsonLine parse_json_line(const std::string& line) try {
  std::optional<std::string> repeated;
  std::vector<std::set<std::string>> open; // keys of the objects around the current value
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (starts_too_deep(depth, event)) {
      throw JsonLineError(fmt::format("nested more than {} levels deep", most_levels));
    }
    if (event == Json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open.back().insert(key).second && !repeated) {
        repeated = key;
      }
    }
    return true;
  };
  Json value = Json::parse(line, watch);
  return {std::move(value), std::move(repeated)};
} catch (const Json::exception&) {
  throw JsonLineError("this line is not JSON");
}

bool starts_too_deep(int depth, Json::parse_event_t event) {
  const bool start =
      event == Json::parse_event_t::array_start || event == Json::parse_event_t::object_start;
  return start && std::cmp_greater_equal(depth, most_levels); // so many are around it
}

std::string shown(const Json& value) {
  if (value.is_structured()) {
    return value.is_array() ? "a list" : "a map";
  }
  std::string text = value.dump();
  if (text.size() > most_shown_bytes) {
    std::size_t end = most_shown_bytes - 3;
    while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) { // within a character
      --end;
    }
    text = text.substr(0, end) + "...";
  }
  return text;
}

} // namespace spillway
