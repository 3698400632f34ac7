// The public face: read, analyse, advise, report.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/base/result.h"
#include "rooftile/findings/comparison.h"
#include "rooftile/findings/report.h"
#include "rooftile/formats/toml/settings.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/pipeline/baseline.h"
#include "rooftile/pipeline/built_model.h"
#include "rooftile/pipeline/diff.h"
#include "rooftile/pipeline/fix.h"
#include "rooftile/pipeline/sweep.h"
#include "rooftile/pipeline/tune.h"
#include "rooftile/readers/reader.h"
#include "rooftile/reports/report_format.h"
#include "rooftile/reports/reports.h"
#include "rooftile/reports/trace_diff.h"
#include "rooftile/rules/rule.h"
#include "rooftile/tuner/calibrate.h"
#include "rooftile/workload/trace_summary_json.h"

namespace rooftile {

// Whether the path is read as training code: Python files, notebooks, and folders of them.
bool is_script(const std::string& path);

// Reads one input, derives the training step where asked, and applies the dtype; a recording is
// analysed.
Result<Workload> read(const std::string& path, const ReadOptions& options);

// Reads several, each on its own; recordings and summaries on all cores, with a recording in memory
// for each. The first error in the order of the paths.
Result<std::vector<Workload>> read_each(std::span<const std::string> paths,
                                        const ReadOptions& options);

// Reads several as one, as read_each() does: models run one after the other; recordings are the
// ranks of one job, and models beside them name their layers.
Result<Workload> read_all(std::span<const std::string> paths, const ReadOptions& options);

// The GPU that a workload was recorded on, by name, else the known one of the same compute
// capability, SM count and nearest memory size.
Result<Device> recorded_device(const Workload& workload);

// What can be said without a GPU: times and causes of a recording, findings in scripts.
Report check(const Workload& workload, std::span<const Rule* const> rules = all_rules());

// Judges a workload on a GPU; with a curve_of() it, also its batch.
Report check(const Workload& workload, const Device& device,
             std::span<const Rule* const> rules = all_rules(), const BatchCurve* curve = nullptr);

// A report with a row for each operation and without findings.
Report list_operations(const Workload& workload, const Device& device);

// What replacing one workload by another does to the time.
Comparison compare(const Workload& before, const Workload& after, const Device& device);

}  // namespace rooftile
