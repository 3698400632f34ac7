// What a training program does more often than it must, found by the order of its operators.
#pragma once

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/host_table.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// Convolutions with a bias whose result a batch normalisation in training reads next.
ConvBiasUse find_conv_bias(const HostView& view, const KernelNames& names);

// Kernels of the window whose operators run a forward pass again, as under checkpointing.
RecomputeUse find_recomputed(const HostView& view);

// Casts of weights that begin in the window. None where shapes are not recorded.
WeightCasts find_weight_casts(const HostView& view);

}  // namespace rooftile::trace
