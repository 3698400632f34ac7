// Attention that a program runs as single operators: GEMM, softmax, GEMM, and their backward.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/host_table.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

struct AttentionUses {
  std::vector<AttentionUse> uses;  // largest time first
  std::vector<bool> is_part;       // by GPU activity: belongs to one of them; empty without any
};

// A softmax, with the nearest batched GEMMs before and after it on its thread whose shapes fit;
// pointwise kernels, copies and other small work may lie between, a layer's GEMM may not. Where
// shapes are not recorded, the order alone decides.
AttentionUses find_attention(const HostView& view, const KernelNames& names);

}  // namespace rooftile::trace
