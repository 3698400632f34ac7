// What the name of a GPU kernel says: its library, task, precision, tile and so on.
#pragma once

#include <string_view>

#include "rooftile/workload/kernel_facts.h"

namespace rooftile {

// Any bytes give facts; names that no family explains give KernelClass::unknown. Matrix kernels
// carry only what their name states: tile sizes and layout are in the library's own terms, which
// for cuBLAS are column-major with m along the contiguous axis of the result.
KernelFacts parse_kernel_name(std::string_view name);

}  // namespace rooftile
