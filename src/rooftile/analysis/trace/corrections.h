// What profiles measured of kernels that the model knows from tables: data/profiles.
#pragma once

#include <optional>
#include <string_view>

#include "rooftile/analysis/time/calibration.h"

namespace rooftile {

// Of measured over predicted time.
struct ProfileCorrection {
  double factor = 1;  // of the expected time
  Interval interval;  // around the corrected time
};

// Of the family, on GPUs of that major compute capability where it was measured there; else of all
// GPUs; else of the families that share its beginning: "gemm/vector/short", "gemm/vector", "gemm";
// else of all. Empty where there is none.
std::optional<ProfileCorrection> profile_correction(std::string_view family,
                                                    int compute_capability);

}  // namespace rooftile
