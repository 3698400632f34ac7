// Why silence does not mean that all is well.
#pragma once

#include <string>

#include "rooftile/findings/report.h"
#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Why a workload whose report has its coverage and scripts cannot be judged as a whole; empty where
// it can.
std::string not_judged_because(const Workload& workload, const Report& report);

// Why there is no advice on the kernels of a trace for which no GPU is given.
std::string no_advice_because(const TraceSummary& trace);

}  // namespace rooftile
