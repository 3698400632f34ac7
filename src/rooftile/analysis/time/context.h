// What every kernel family of the time model reads.
#pragma once

#include <algorithm>
#include <optional>

#include "rooftile/analysis/tiles.h"
#include "rooftile/analysis/time/calibration.h"
#include "rooftile/analysis/time/gemm_residual.h"
#include "rooftile/analysis/time/step_state.h"
#include "rooftile/analysis/time/time_estimate.h"
#include "rooftile/base/lazy.h"

namespace rooftile {

// A learned correction with the GPU it was fitted on: it depends on the shape alone, so the kernel
// model of that GPU provides its inputs.
template <class Constants>
struct ProductResidual {
  std::shared_ptr<const ResidualModel> model;
  Device reference;
  Constants constants;        // scaled to the reference
  bool is_reference = false;  // the GPU at hand is the reference, with those constants
  // Of the correction's intervals, in log; none where they were measured on another GPU.
  std::optional<double> widening;
};
using GemmResidual = ProductResidual<GemmConstants>;
using CudaCoreResidual = ProductResidual<CudaCoreConstants>;

// Each is read when a product first asks for it.
struct ProductResiduals {
  Lazy<GemmResidual> sixteen_bit, fp8_quantized;  // measured in bf16
  Lazy<CudaCoreResidual> fp32_linear, fp32_batched;
};

// Scaled to the device.
struct GemmFits {
  GemmConstants constants;
  std::vector<Alternative<GemmConstants>> alternatives;
};

struct TimeContext {
  const Device& device;
  const Device& running;  // at the clocks that a calibration found, for kernels it did not fit
  const Calibration& calibration;
  const GemmFits& tensor_gemm;
  const GemmFits& fp8_gemm;
  const CudaCoreConstants& cuda_gemm;
  const ProductResiduals& residuals;
  StepState step;
  bool takes_winograd = true;                     // libraries may, for convolutions on CUDA cores
  bool updates_cache = true;                      // attention stores the new keys in a cache
  std::optional<AttentionTile> attention_tile{};  // of the kernel that ran
};

// Whether the section was fitted on this very GPU.
template <class Constants>
bool is_fitted(const TimeContext& context, const Section<Constants>& section) {
  return section.this_gpu || std::ranges::count(section.fitted_on, context.device.id) > 0;
}

// Whether it was fitted on this GPU or another of its generation.
template <class Constants>
bool is_measured(const Section<Constants>& section) {
  return section.this_gpu || (section.own && !section.fitted_on.empty());
}

// Whether it was fitted on another GPU of this one's generation. Numbers that are not measured have
// ranges for the whole generation.
template <class Constants>
bool is_sister(const TimeContext& context, const Section<Constants>& section) {
  return is_measured(section) && !is_fitted(context, section);
}

// How much wider than fitted the intervals of a part of the model are, in log: sections that
// another generation donated say so themselves; a sister of the fitted GPU gets 1.3, read off H200
// predicted from H100. At clocks that were read off other kernels they are known to 10 or 20 %.
template <class Constants>
double widening(const TimeContext& context, const Section<Constants>& section) {
  constexpr double kSisterGpu = 1.3, kOtherClocks = 2;
  const Calibration& calibration = context.calibration;
  const bool moved = calibration.sm_clock != 1 || calibration.memory_clock != 1;
  const double here = is_sister(context, section) ? kSisterGpu : section.widening;
  return moved && !section.this_gpu ? here * kOtherClocks : here;
}

// The time with an interval around the expected one, and what other shapes do not share of it.
void set_time(TimeEstimate& estimate, Seconds expected, const Interval& interval, double widening);

// One kernel: the interval of its regime, and its bound by the longest part.
TimeEstimate make_estimate(Seconds total, Bound bound, const Intervals& intervals, double widening);

// Kernels this close to the launch floor wait for latency, whatever else they do.
inline constexpr double kLatencyMargin = 3.5e-6;

}  // namespace rooftile
