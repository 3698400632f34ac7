// How the enumerators of a trace summary are spelled in files.
#pragma once

#include <optional>
#include <string_view>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// The enumerator itself: "data_loading".
std::string_view name_of(IdleCause cause);
std::string_view name_of(StepSource source);
std::string_view name_of(CopyKind kind);
std::string_view name_of(KernelClass kernel_class);
std::string_view name_of(KernelDirection direction);

// The reverse; empty for any other text.
std::optional<IdleCause> parse_idle_cause(std::string_view name);
std::optional<StepSource> parse_step_source(std::string_view name);
std::optional<CopyKind> parse_copy_kind(std::string_view name);
std::optional<KernelClass> parse_kernel_class(std::string_view name);
std::optional<KernelDirection> parse_kernel_direction(std::string_view name);

}  // namespace rooftile
