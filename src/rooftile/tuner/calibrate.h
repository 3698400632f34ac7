// Constants of the time model for one GPU, from a few measured points. docs/measure.md explains
// the method and what it reaches.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/hardware/device.h"
#include "rooftile/tuner/pace_search.h"
#include "rooftile/workload/op.h"

namespace rooftile {

struct CalibrationOptions {
  // Calibrations (sm80 …) to start from. Empty: the GPU's generation where it was fitted itself,
  // else every one that was. Those named here go without learned corrections.
  std::vector<std::string> donors;
  // Goes into the origin of the constants: "measured by rooftile, November 2026".
  std::string origin = "measured points";
};

// |predicted / measured - 1|, as shares.
struct FitError {
  double mean = 0, median = 0, p90 = 0;
};

struct FittedSection {
  std::string key;    // tensor_gemm
  std::string donor;  // whose constants it started from: sm90
  std::size_t points = 0;
  FitError before, after;  // with the GPU's constants as they were, and with the fitted ones
  // At which the points were measured, against what is known of the GPU; 1 where its generation was
  // never fitted.
  Paces paces;
};

struct CalibrationResult {
  std::string time_model;  // for Device::time_model, a JSON object
  std::vector<FittedSection> sections;
  // Points that no section takes: unmeasured, misaligned, other kinds and precisions.
  std::size_t unused = 0;
};

// Fewer points than this leave a section as it is.
inline constexpr std::size_t kMinCalibrationPoints = 5;

// Fits tensor_gemm to 16-bit and fp8_gemm to fp8 products on Tensor Cores, cuda_gemm to products on
// CUDA cores and stream to memory-bound operations, from Op::measured. Sections without enough
// points keep the text that `device` brings. An error when no section has enough, or no constants
// come near the points.
Result<CalibrationResult> calibrate(const Device& device, std::span<const Op> points,
                                    const CalibrationOptions& options = {});

}  // namespace rooftile
