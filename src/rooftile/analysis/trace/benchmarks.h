// Recordings of no program: a benchmark of a kernel or two, or a toy.
#pragma once

#include <string>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Both say in words why a recording is none of a program; empty for a program.
//  - One or two kernels run again and again, and nothing is trained: how the inputs are made is no
//    cost of a program. Where steps are marked, only of a kernel that no operator launches.
std::string benchmark_because(const TraceSummary& trace);
//  - Kernels of two microseconds on a GPU that is nearly idle: tensors of bytes.
std::string toy_because(const TraceSummary& trace);

}  // namespace rooftile
