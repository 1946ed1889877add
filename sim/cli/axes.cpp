#include "sim/cli/axes.hpp"

#include "sim/base/error.hpp"
#include "sim/cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

struct VariedKey {
  std::string path;
  std::vector<std::string> values;
};

VariedKey parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  VariedKey axis;
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw InputError(fmt::format("--axis '{}' is not PATH=V1,V2,...", text),
                     "for example --axis batch.micro=1,2,4");
  }
  axis.path = text.substr(0, equals);
  axis.values = split(text.substr(equals + 1), ',');
  return axis;
}

constexpr std::size_t max_combinations = 10'000;

} // namespace

std::vector<std::vector<std::pair<std::string, std::string>>> combinations(
    const std::vector<std::string>& axes) {
  std::vector<std::vector<std::pair<std::string, std::string>>> all{{}};
  std::vector<std::string> paths;
  for (const std::string& text : axes) {
    const VariedKey axis = parse_axis(text);
    if (std::find(paths.begin(), paths.end(), axis.path) != paths.end()) {
      throw InputError(fmt::format("--axis: two axes vary '{}'", axis.path),
                       "list all values in one");
    }
    paths.push_back(axis.path);
    if (all.size() * axis.values.size() > max_combinations) {
      throw InputError(fmt::format("--axis: more than {} combinations", max_combinations));
    }
    std::vector<std::vector<std::pair<std::string, std::string>>> longer;
    for (const auto& settings : all) {
      for (const std::string& value : axis.values) {
        longer.push_back(settings);
        longer.back().emplace_back(axis.path, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

} // namespace spillway
