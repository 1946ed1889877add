// One target of tests/fuzz/targets.hpp as libFuzzer calls it; the build names which.
#include "tests/fuzz/targets.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const spillway::FuzzTarget& target = spillway::fuzz_targets().at(SPILLWAY_FUZZ_TARGET);
  target(std::string(bytes, bytes + size));
  return 0;
}
