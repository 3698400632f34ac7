// What alignment leaves of a kernel's math rate.
#pragma once

#include "rooftile/analysis/gemm_form.h"
#include "rooftile/analysis/time/calibration.h"
#include "rooftile/analysis/time/math_unit.h"

namespace rooftile {

// Share of the aligned rate, at most 1, with its 90 % range. CUDA cores do not mind alignment.
Range<double> alignment_factor(const AlignmentConstants& constants, const MatrixProduct& product,
                               const MathUnit& unit);

}  // namespace rooftile
