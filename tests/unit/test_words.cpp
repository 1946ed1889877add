#include "sim/base/words.hpp"

#include <doctest/doctest.h>

namespace spillway {
namespace {

TEST_CASE("several things are joined by commas, the last by 'and'") {
  CHECK(joined({}).empty());
  CHECK(joined({"a"}) == "a");
  CHECK(joined({"a", "b"}) == "a and b");
  CHECK(joined({"a", "b", "c"}) == "a, b and c");
}

TEST_CASE("one thing is singular, none are plural") {
  CHECK(plural(0, "task") == "0 tasks");
  CHECK(plural(1, "task") == "1 task");
  CHECK(plural(2, "more task") == "2 more tasks");
}

} // namespace
} // namespace spillway
