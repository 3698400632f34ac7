// The time model: one run of an operation on a GPU.
#pragma once

#include <memory>
#include <optional>

#include "rooftile/analysis/gemm_form.h"
#include "rooftile/analysis/time/step_state.h"
#include "rooftile/analysis/time/time_estimate.h"
#include "rooftile/base/result.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// Predicts kernel time on one device, launches hidden behind the kernel before; cheap to copy.
// docs/time_model.md explains the forms and where their constants come from.
class TimeModel {
 public:
  // Needs a valid Device::time_model; devices from outside go through create().
  explicit TimeModel(const Device& device);
  // An error names the section and the key of Device::time_model that is wrong.
  static Result<TimeModel> create(const Device& device);

  // The same inside a step whose operations read so many bytes of weights and caches: fewer
  // distinct ones where layers share their weights. By itself an operation may find its own in L2.
  TimeModel in_step(Bytes reads, Bytes distinct) const;

  // The same where the library did not take Winograd's algorithm for convolutions.
  TimeModel without_winograd() const;

  // The same where this kernel of FlashAttention-2 ran.
  TimeModel with_attention_tile(const AttentionTile& tile) const;

  // The same where attention stores no new keys and values in a cache: in training, and where that
  // is an operation of its own.
  TimeModel without_cache_update() const;

  // One run of the operation; empty when nothing is known of it ("other" without bytes).
  std::optional<TimeEstimate> estimate(const Op& op) const;
  // One matrix product, all its repeats.
  TimeEstimate estimate(const MatrixProduct& product) const;
  // The same by a kernel with this tile. On CUDA cores, `split_k` blocks share the k of each, and a
  // tile that no kernel of cuBLAS has is ignored.
  TimeEstimate estimate(const MatrixProduct& product, Tile tile, int split_k = 1) const;

  const Device& device() const;
  // False when the constants of its matrix products come from another GPU generation: ranges are
  // then wide.
  bool calibrated() const;
  // Of products in that precision alone.
  bool calibrated(Dtype math) const;

 private:
  struct State;
  explicit TimeModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
  StepState step_;
  bool takes_winograd_ = true, updates_cache_ = true;
  std::optional<AttentionTile> attention_tile_;
};

// Time saved when `before` is replaced by `after`: the errors of two estimates of one model are
// mostly shared, so the range is narrower than that of a difference of strangers. `low` is 0 or
// less where the model cannot tell the two apart.
Range<Seconds> estimate_saving(const TimeEstimate& before, const TimeEstimate& after);

}  // namespace rooftile
