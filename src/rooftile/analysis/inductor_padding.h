// What PyTorch's compiler (Inductor) already pads or converts by itself, with its own thresholds.
// Source: PyTorch, torch/_inductor: fx_passes/pad_mm.py, config.py, ir.py and graph.py
// (decide_layout_opt).
#pragma once

#include <cstdint>
#include <span>

#include "rooftile/analysis/gemm_form.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// Padding is kept only where the unpadded product takes this many times as long.
inline constexpr double kInductorMinSpeedup = 1.1;
// Caches serve part of the traffic, so products count as compute-bound above half the ridge.
inline constexpr double kInductorRidgeShare = 0.5;
// Rows of intermediates get this alignment, if they are longer than this many elements.
inline constexpr std::int64_t kInductorStrideBytes = 128;
inline constexpr std::int64_t kInductorMinPaddedStride = 1024;

// Multiple that dimensions are padded to: 8 for fp16 and bf16, 4 for fp32 (and tf32), 1 = none.
std::int64_t inductor_alignment(Dtype dtype);
// The padded size; a size of 1 stays.
std::int64_t inductor_padded_size(std::int64_t size, Dtype dtype);
// The padded row stride of an intermediate tensor.
std::int64_t inductor_padded_stride(std::int64_t stride, Dtype dtype);

// m·n·k / (m·k + k·n + m·n) above half the ridge; long bf16 sums before Hopper always.
bool inductor_is_compute_bound(const MatrixProduct& product, const Device& device);
// The case padded without a measurement: bf16, an odd n and an enormous k before Hopper.
bool inductor_forces_padding(const MatrixProduct& product, const Device& device);
// Whether its learned heuristic applies: all dims at least 512 on A100, 768 on H100; never
// elsewhere.
bool inductor_has_learned_heuristic(const MatrixProduct& product, const Device& device);

// Whether a compiled graph stays channels-first although it has convolutions on a GPU.
bool inductor_stays_channels_first(std::span<const Convolution> convolutions,
                                   std::int64_t graph_nodes, bool training);

}  // namespace rooftile
