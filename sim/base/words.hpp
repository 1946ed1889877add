// How messages put several things into words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

[[nodiscard]] std::string joined(const std::vector<std::string>& parts);    // "a, b and c"
[[nodiscard]] std::string plural(std::size_t count, std::string_view what); // "2 tasks"

} // namespace spillway
