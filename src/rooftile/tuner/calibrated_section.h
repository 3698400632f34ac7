// The sections that points of measurement can fit: which points each takes, and how far its
// constants may move.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "rooftile/analysis/time/time_model.h"
#include "rooftile/tuner/pace_search.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// A constant of a section, as a JSON pointer into it (RFC 6901). Its logarithm has a Gaussian prior
// of this width around the donor's value, scaled to the GPU.
struct TunedConstant {
  const char* pointer;
  double prior_sd;
  double low, high;
  Pace pace = Pace::none;
  bool is_time = false;  // and grows where the pace falls; a rate falls with it
};

struct CalibratedSection {
  const char* key;
  std::span<const TunedConstant> constants;
  // Error of the model on one point, in log, beyond which a point counts as an outlier.
  double noise;
  // Factor on the priors where the GPU's own generation was fitted: its constants are nearly known.
  double same_generation_prior;
  // Whether fits that start from other generations count too, where they are about as good.
  bool averages_donors;
};

// tensor_gemm, fp8_gemm, cuda_gemm, stream.
std::span<const CalibratedSection> calibrated_sections();

// The section that decides how long the operation takes on the device, where it alone does; null
// for every other operation.
const CalibratedSection* section_of(const Op& op, const Device& device);

}  // namespace rooftile
