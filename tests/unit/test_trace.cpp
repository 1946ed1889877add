// Cutting a loop of layers in two.
#include "tests/support/traces.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace spillway;

namespace {

// Its kind by layer: "0120" is four layers, of the kinds 0, 1, 2 and 0 again.
std::string kinds_by_layer(const LayerBlock& block) {
  std::string kinds;
  for (std::int64_t layer = 0; layer < block.layers; ++layer) {
    kinds += std::to_string(block.kind_of(layer));
  }
  return kinds;
}

} // namespace

TEST_CASE("A cut keeps the kind of every layer, wherever in a round of kinds it is") {
  for (const LayerBlock& block : {LayerBlock{{3}, 7}, LayerBlock{{0, 1}, 7},
                                  LayerBlock{{0, 1, 2}, 8}, LayerBlock{{4, 4, 5}, 9}}) {
    for (std::int64_t layers = 1; layers < block.layers; ++layers) {
      CAPTURE(layers);
      const auto [first, others] = cut(block, layers);
      CHECK(first.layers == layers);
      CHECK(others.layers == block.layers - layers);
      CHECK(kinds_by_layer(first) + kinds_by_layer(others) == kinds_by_layer(block));
    }
  }
}

TEST_CASE("A part that is shorter than a round has only the kinds of its layers") {
  const auto [first, others] = cut({{0, 1, 2}, 6}, 4);
  CHECK(first.kinds == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(others.kinds == std::vector<std::uint32_t>{1, 2});
  CHECK(cut({{0, 1, 2}, 6}, 1)[0].kinds == std::vector<std::uint32_t>{0});
}

TEST_CASE("Embedding and head are no decoder layers") {
  CHECK(decoder_layers(build(small_dense(), {1, 1, 1}, {1, 1, 64, 1})) == 2);
  CHECK(decoder_layers(build(small_moe(), {4, 1, 4}, {1, 1, 64, 1})) == 3);
}
