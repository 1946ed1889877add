#include "workloads/trace.hpp"

#include <algorithm>
#include <cassert>

namespace spillway {

std::array<LayerBlock, 2> cut(const LayerBlock& block, std::int64_t layers) {
  assert(0 < layers && layers < block.layers);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    LayerBlock made;
    made.layers = end - begin;
    const auto turns = static_cast<std::int64_t>(block.kinds.size());
    for (std::int64_t layer = begin; layer < std::min(end, begin + turns); ++layer) {
      made.kinds.push_back(block.kind_of(layer));
    }
    return made;
  };
  return {part(0, layers), part(layers, block.layers)};
}

std::int64_t decoder_layers(const StepTrace& trace) {
  std::int64_t layers = 0;
  for (const LayerBlock& block : trace.blocks) {
    layers += trace.kinds[block.kind_of(0)].checkpointed ? block.layers : 0;
  }
  return layers;
}

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (const Axis& axis : tensor.axes) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(axis.size);
  }
  return text + "]";
}

} // namespace spillway
