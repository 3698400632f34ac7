// How the enumerators of a trace summary are spelled in files.
#pragma once

#include <optional>
#include <string_view>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// The enumerator itself: "data_loading".
std::string_view name_of(IdleCause cause);
std::string_view name_of(StepSource source);
std::string_view name_of(StepPart part);  // idle time as "idle.launch"
std::string_view name_of(PathKind kind);
std::string_view name_of(Remedy remedy);
std::string_view name_of(CopyKind kind);
std::string_view name_of(ServingStage stage);
std::string_view name_of(KernelClass kernel_class);
std::string_view name_of(KernelDirection direction);

// The reverse; empty for any other text. For the enumerations above.
template <class Enum>
std::optional<Enum> parse_name(std::string_view name);

}  // namespace rooftile
