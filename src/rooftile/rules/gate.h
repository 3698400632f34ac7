// What several rules ask before they speak, and how they build a finding.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rooftile/rules/rule.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {

// Of the slowest rank's step; 0 without traces.
Seconds pass_time(std::span<const TraceSummary> ranks);

// Time of one pass over the workload: of the slowest rank's step where there are traces, else the
// sum over the operations.
Seconds pass_time(const RuleInput& input);

// What the traces measured of an operation: "measured: 40 runs of kernel 'ampere_…', 3.1 ms per
// step"; empty where no trace shows it.
std::optional<Evidence> kernel_evidence(const RuleInput& input, std::size_t op);

// True when the operation takes a visible share of the time (all its runs together).
bool matters(const RuleInput& input, std::size_t op);

// Math-bound in the sense of PyTorch Inductor's pad_mm: intensity above half the GPU's ridge,
// because operands that stay in L2 see more than the DRAM bandwidth.
bool is_math_bound(const RuleInput& input, const MatrixProduct& product);

// Time saved over all runs of operation `op` when it becomes `changed`; empty where the model
// knows nothing.
std::optional<Range<Seconds>> saving_if(const RuleInput& input, std::size_t op, const Op& changed);

// A finding at operation `op`: location, count, saving times its runs, and the operation's index.
// `saving_per_run` is of one run of the operation.
Finding finding_at(const RuleInput& input, std::size_t op, std::string message, Fix fix,
                   std::optional<Range<Seconds>> saving_per_run = std::nullopt);

}  // namespace rooftile
