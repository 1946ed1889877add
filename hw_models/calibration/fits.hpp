// The single fits: each looks at its own records and adds what it found. Records that
// are not there add nothing; what is wrong with them is reported.
#pragma once

#include "hw_models/calibration/calibration.hpp"

namespace spillway {

void fit_memory(const Measurements& measured, Calibration& out, Diagnostics& diagnostics);
void fit_stream(const Measurements& measured, Calibration& out, Diagnostics& diagnostics);
void fit_launch(const Measurements& measured, Calibration& out, Diagnostics& diagnostics);
void fit_copies(const Measurements& measured, Calibration& out, Diagnostics& diagnostics);
void fit_duplex(const Measurements& measured, Calibration& out, Diagnostics& diagnostics);
void fit_tables(const Measurements& measured, Calibration& out, Diagnostics& diagnostics);
void fit_clock(const Measurements& measured, Calibration& out, Diagnostics& diagnostics);
void compare_interference(const Measurements& measured, Calibration& out, Diagnostics& diagnostics);

// Both directions together cannot carry more than each of them alone; out.fits has those.
void check_both_ways(double together, const Place& place, const Calibration& out,
                     Diagnostics& diagnostics);

} // namespace spillway
