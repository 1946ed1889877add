// Phrases that the text reports share.
#pragma once

#include "results/report_text.hpp"

#include <string>

namespace spillway {

[[nodiscard]] std::string job_text(const Scenario& scenario); // "128 GPUs = fsdp 16 x ..."
[[nodiscard]] std::string bytes_text(std::int64_t bytes);
[[nodiscard]] std::string range_text(double low_s, double high_s); // "11.4 s .. 15 s"
[[nodiscard]] std::string hidden_text(const RunResult& r);         // "80 %", "-" without copies
// "1.031 (1.012 .. 1.047)"; without a band "1.031".
[[nodiscard]] std::string speedup_text(const RatioBand& band);
[[nodiscard]] std::string bin_title(TimeBin bin); // its name without the unit

// What is short where; for a result that does not fit.
[[nodiscard]] std::string shortfall_text(const RunResult& r);
// Which setting or capacity is too small, and the smallest change that helps.
[[nodiscard]] std::string remedy_text(const Scenario& scenario, const RunResult& r);

} // namespace spillway
