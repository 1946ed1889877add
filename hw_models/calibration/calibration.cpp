#include "hw_models/calibration/calibration.hpp"

#include "hw_models/calibration/fits.hpp"

#include <array>

namespace spillway {
namespace {

using Fit = void (*)(const Measurements&, Calibration&, Diagnostics&);

// Coefficients in the order of a hardware file.
constexpr std::array<Fit, 8> all_fits{fit_memory, fit_stream, fit_launch, fit_tables,
                                      fit_clock,  fit_copies, fit_duplex, compare_interference};

} // namespace

Calibration calibrate(const Measurements& measurements) {
  Calibration calibration;
  calibration.files = measurements.files;
  calibration.records = measurements.records;
  calibration.device = measurements.device.name;
  calibration.dropped = measurements.dropped;
  Diagnostics diagnostics;
  for (const Fit fit : all_fits) {
    fit(measurements, calibration, diagnostics);
  }
  diagnostics.throw_if_any();
  return calibration;
}

} // namespace spillway
