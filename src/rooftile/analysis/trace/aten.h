#pragma once
#if __has_include("rooftile/workload/aten_op.h")
#include "rooftile/workload/aten_op.h"
#else
#include <optional>

#include "rooftile/workload/op.h"
#include "rooftile/workload/timeline.h"
namespace rooftile {
inline std::vector<Op> aten_ops(std::string_view, const OpArguments&) { return {}; }
inline std::optional<Op> as_backward_of(const Op&, const Op&, bool) { return std::nullopt; }
}  // namespace rooftile
#endif
