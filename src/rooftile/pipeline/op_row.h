// One operation as tables show it.
#pragma once

#include "rooftile/analysis/analysis.h"
#include "rooftile/findings/report.h"

namespace rooftile {

OpRow op_row(const Op& op, const OpAnalysis& analysis);

}  // namespace rooftile
