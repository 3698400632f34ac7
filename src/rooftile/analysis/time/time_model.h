// The time model: one run of an operation on a GPU.
#pragma once

#include <optional>

#include "rooftile/analysis/gemm_form.h"
#include "rooftile/analysis/time/time_estimate.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/op.h"

namespace rooftile {

struct Calibration;  // fitted constants, data/calibration/*.json

// Predicts for one device; cheap to copy.
class TimeModel {
 public:
  explicit TimeModel(const Device& device);

  // One run of the operation; empty when nothing is known of it ("other" without bytes).
  std::optional<TimeEstimate> estimate(const Op& op) const;
  // One matrix product, all its repeats.
  TimeEstimate estimate(const MatrixProduct& product) const;
  // The same when the kernel's tile is known (read off a trace, or forced).
  TimeEstimate estimate_with_tile(const MatrixProduct& product, Tile tile) const;

  const Device& device() const { return device_; }
  // False when the constants come from another GPU generation: ranges are then wide.
  bool calibrated() const;

 private:
  Device device_;
  const Calibration* calibration_;
  double uncertainty_ = 1.0;  // widening of the calibration's intervals, in log
};

// Time saved when `before` is replaced by `after`: the errors of two estimates of one model are
// mostly shared, so the range is narrower than that of a difference of strangers.
Range<Seconds> estimate_saving(const TimeEstimate& before, const TimeEstimate& after);

}  // namespace rooftile
