// The compact form in which one process of ours hands a workload to another; never stored.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

std::string to_bytes(const Workload& workload);

// Exactly the workload that to_bytes() was given. The sender may have been taken over by a hostile
// file: bytes that are cut, invalid or out of range are an error, and what is returned holds the
// limits of workload/validate.h.
Result<Workload> workload_from_bytes(std::string_view bytes);

// Kind, precisions and dimensions of an operation: equal bytes mean equal layers.
std::string shape_bytes(const Op& op);

}  // namespace rooftile
