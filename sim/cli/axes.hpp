// --axis PATH=V1,V2,...: what is varied, and all combinations of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace spillway {

// Path and value of each axis, all combinations, the last axis fastest; one empty list
// where there are no axes. Throws InputError.
[[nodiscard]] std::vector<std::vector<std::pair<std::string, std::string>>> combinations(
    const std::vector<std::string>& axes);

} // namespace spillway
