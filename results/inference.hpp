// The answer to a question: every setting against every fact, and what those that agree
// with all of them predict.
#pragma once

#include "results/question.hpp"
#include "sim/lower/catalog.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// Of a setting that agrees with all facts.
struct Predicted {
  Verdict base_verdict = Verdict::fits;
  double base_tflops = 0, tflops = 0; // model TFLOP/s per GPU
  double speedup = 0;
  double hidden = 0; // part of the copies, 0 .. 1
  std::int64_t peak_hbm_bytes = 0, peak_host_bytes = 0;
};

struct Setting {
  std::size_t combination = 0, set = 0; // of the question
  // The first fact that it contradicts; none: it agrees, and is predicted.
  std::optional<std::size_t> contradicts;
  Predicted predicted;
};

struct Impossible {
  std::size_t combination = 0;
  std::string why; // of the first mistake in the scenario that results
};

struct Inference {
  std::vector<Setting> settings; // in the order of combinations, then sets
  std::vector<Impossible> impossible;
};

// The same for any number of threads. `progress` hears of every combination that is
// done, from any thread.
[[nodiscard]] Inference infer(const Catalog& catalog, const Question& question, unsigned threads,
                              const std::function<void(std::size_t done)>& progress);

// `top` rows of those that agree, the largest speed-up first.
[[nodiscard]] std::string inference_text(const Question& question, const Inference& inference,
                                         std::size_t top);
// All that agree.
[[nodiscard]] std::string inference_csv(const Question& question, const Inference& inference);
[[nodiscard]] std::string inference_json(const Question& question, const Inference& inference);

} // namespace spillway
