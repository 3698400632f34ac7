// One function per family of kernels; each in a file of its own.
#pragma once

#include <optional>

#include "rooftile/analysis/time/context.h"
#include "rooftile/workload/op.h"

namespace rooftile {

TimeEstimate estimate_gemm(const TimeContext& context, const Op& op, const Gemm& gemm);
TimeEstimate estimate_convolution(const TimeContext& context, const Op& op,
                                  const Convolution& conv);
TimeEstimate estimate_attention(const TimeContext& context, const Op& op,
                                const Attention& attention);
TimeEstimate estimate_fused_attention(const TimeContext& context, const Op& op,
                                      const Attention& attention);
TimeEstimate estimate_recurrent(const TimeContext& context, const Op& op,
                                const Recurrent& recurrent);
TimeEstimate estimate_collective(const TimeContext& context, const Op& op,
                                 const Collective& collective);

// How a memory-bound kernel reads; `rows` is softmax.
enum class Access { elementwise, rows, norm, gather, transpose };

// One kernel that moves `bytes`; `rows` independent rows of `cols` elements, or 0 for work that
// splits anywhere. Rows without cols are read and written once in four bytes an element.
TimeEstimate estimate_stream(const TimeContext& context, Bytes bytes, Access access,
                             double rows = 0, double cols = 0);
// Normalisation, softmax, pooling, elementwise, reduction, embedding, layout conversion, cast,
// optimizer step, and others of known traffic; empty for others without.
std::optional<TimeEstimate> estimate_memory_bound(const TimeContext& context, const Op& op);

}  // namespace rooftile
