// Which operators of a trace belong to attention that is not fused.
#pragma once

#include <cstdint>
#include <span>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// As a double: sizes of an untrusted trace may overflow integers.
double product_of(std::span<const std::int64_t> sizes);

// Empty where shapes are not recorded.
const Attention* shape_of(const AttentionUse& use);

// Whether the operation has the sizes of one of its GEMMs or of its softmax.
bool is_part_of(const AttentionUse& use, const Op& op);

// The same of an operator of the trace and any of its attentions; also what works on the scores.
bool is_attention_part(const TraceSummary& trace, const OpUse& use);

}  // namespace rooftile
