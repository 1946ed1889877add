// The readers of everything that comes from outside, each as one function of any bytes.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace spillway {

// By name. A target returns whether the bytes were accepted or refused (InputError);
// any other exception is a finding, and so is whatever a sanitizer says.
using FuzzTarget = std::function<void(const std::string& bytes)>;
[[nodiscard]] const std::map<std::string, FuzzTarget>& fuzz_targets();

} // namespace spillway
