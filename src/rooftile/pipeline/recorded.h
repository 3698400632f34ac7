// What a report takes from recordings and scripts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/findings/report.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Largest time first.
std::vector<KindShare> sorted_shares(const std::map<std::string, KindShare>& by_kind);

// Kernels of a recording by what their names say, per pass.
std::vector<KindShare> kernel_shares(const TraceSummary& trace);

// Device, total, kinds and coverage of a recording whose GPU is not known. There must be one.
void describe_recording(const Workload& workload, Report& report);

// The operation as it was recorded; measured_workload() keeps the order of the first rank's
// operators, kernels without one behind.
std::optional<RecordedRun> recorded_run(const Workload& workload, std::size_t op,
                                        const Device& device);

// Of a recorded operator without a form of its own (a convolution whose strides were not recorded,
// say): the shapes and the dtype of its tensors into the row's dims and dtype.
void show_arguments(const Workload& workload, std::size_t op, OpRow& row);

// All kernels of the first rank by name, largest total first.
std::vector<RecordedKernel> recorded_kernels(const Workload& workload);

// Recorded operators of one name, shape, phase and stage in one row each, whatever their module,
// largest total first; the kernel named is that of the module that takes most.
std::vector<OpRow> merged_rows(std::vector<OpRow> rows);

// Corrects predictions by what the trace's other operations show of their kernels.
void learn_from_each_other(std::vector<OpRow>& rows);

// Empty without scripts.
std::optional<SourceSummary> script_summary(const Workload& workload);

}  // namespace rooftile
