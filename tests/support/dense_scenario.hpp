// A correct scenario of a small dense model, to be changed.
#pragma once

#include <string>

namespace spillway::testing {

inline const std::string dense = R"(kind: scenario
model: {extends: llama-3.1-405b, layers: 2}
hardware: gb200-nvl72
gpus: 8
parallel: {fsdp: 8}
batch: {micro: 1, sequence: 4096}
runtime: {framework: maxtext}
policies:
  remat: {preset: full}
)";

} // namespace spillway::testing
