// What `rooftile measure` tells: tables of a calibration and of a verification.
#pragma once

#include <string>

#include "gpu/session.h"
#include "gpu/verify.h"
#include "rooftile/rooftile.h"

namespace rooftile {

// One row per fitted section, its error before and after.
std::string calibration_text(const CalibrationResult& result, const TextStyle& style);

// "31 points measured, 2 could not be, 9 left at the end of the time".
std::string session_text(const gpu::SessionCounts& counts);

// Predicted and measured time per operation, then predicted and measured saving per finding.
std::string verification_text(const Workload& workload, const std::vector<Finding>& findings,
                              const gpu::Verification& verification, const TextStyle& style);

}  // namespace rooftile
