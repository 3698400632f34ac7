// The collectives of a trace in text reports.
#pragma once

#include "rooftile/findings/report.h"
#include "rooftile/reports/layout.h"

namespace rooftile {

// The largest, per pass; what the rest takes in the last row.
TextTable collectives_table(const Report& report);

}  // namespace rooftile
