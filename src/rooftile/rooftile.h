// The public face: read, analyse, advise, report.
#pragma once

#include <string>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/base/result.h"
#include "rooftile/findings/report.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/readers/reader.h"
#include "rooftile/reports/reports.h"
#include "rooftile/rules/rule.h"
#include "rooftile/tuner/calibrate.h"

namespace rooftile {

// Reads one input, derives the training step where asked, and applies the dtype.
Result<Workload> read(const std::string& path, const ReadOptions& options);

// Judges a workload on a GPU.
Report check(const Workload& workload, const Device& device,
             std::span<const Rule* const> rules = all_rules());

}  // namespace rooftile
