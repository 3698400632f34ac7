// The public face: read, analyse, advise, report.
#pragma once

#include <string>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/base/result.h"
#include "rooftile/findings/comparison.h"
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

// A report with a row for each operation and without findings.
Report list_operations(const Workload& workload, const Device& device);

// What replacing one workload by another does to the time.
Comparison compare(const Workload& before, const Workload& after, const Device& device);

}  // namespace rooftile
