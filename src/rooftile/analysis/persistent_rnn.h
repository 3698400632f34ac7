// Which of cuDNN's recurrent algorithms PyTorch asks for.
#pragma once

#include "rooftile/hardware/device.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// standard: one product per step. persist_static: weights stay in registers over all steps.
// persist_small: the same in one SM's reach, for few hidden units.
enum class RnnAlgorithm { standard, persist_static, persist_small };

struct RnnChoice {
  RnnAlgorithm forward = RnnAlgorithm::standard, backward = RnnAlgorithm::standard;

  bool operator==(const RnnChoice&) const = default;
};

// With cuDNN 8.2.1 or newer. Source: PyTorch, aten/src/ATen/native/cudnn/RNN.cpp
// (get_algo, use_persist_common_heuristics, use_persist_device_heuristics).
RnnChoice cudnn_rnn_algorithm(const Recurrent& rnn, Dtype dtype, const Device& device);

}  // namespace rooftile
