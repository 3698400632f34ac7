// What the time model says of operators whose time is measured.
#pragma once

#include <functional>
#include <optional>

#include "rooftile/analysis/time/time_model.h"
#include "rooftile/analysis/trace/use_groups.h"

namespace rooftile {

// True unless the trace says that it was recorded on another GPU than the model's; one of the same
// generation with nearly as many SMs stands for a board that is not listed.
bool is_recorded_on(const TraceSummary& trace, const Device& device);

// Time of the window that the kernels of the group save when its operators run as the model
// predicts for the changed ones; empty when the operator of any use is unknown.
std::optional<Range<Seconds>> saving_if(const TimeModel& model, const UseGroup& group,
                                        const std::function<Op(const Op&)>& change);

// Share of the rate of aligned products that is left, as the model knows it from large products,
// when rows start at addresses that only `bytes` divide.
Range<double> rate_left_by_alignment(const TimeModel& model, Dtype dtype, double bytes);

// How the blocks of a kernel fill the GPU.
struct BlockWaves {
  double blocks = 0;
  double per_sm = 0;      // blocks that one SM runs at a time
  double waves = 0;       // rounded up
  double efficiency = 0;  // busy share of the GPU over all waves
};

// Empty where registers or threads are not recorded. Source of the limits: CUDA C++ Programming
// Guide, "Technical Specifications per Compute Capability".
std::optional<BlockWaves> block_waves(const LaunchShape& launch, const Device& device);

}  // namespace rooftile
