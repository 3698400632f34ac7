// The kernel that scales the rows of an activation to fp8, each by its own largest element.
#pragma once

#include "rooftile/analysis/time/calibration.h"

namespace rooftile {

struct QuantizeParts {
  double launch = 0, compute = 0, memory = 0, total = 0;  // seconds; compute and memory overlap
};

// One block a row; `in_bytes` of an element before, one after.
QuantizeParts quantize_parts(double rows, double cols, double in_bytes,
                             const QuantizeConstants& constants, const Device& device);

}  // namespace rooftile
