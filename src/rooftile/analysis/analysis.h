// Everything the rules and reports need to know about each operation on one GPU.
#pragma once

#include <optional>
#include <vector>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/gemm_form.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

struct OpAnalysis {
  Cost cost;                                // of one run
  std::vector<MatrixProduct> products;      // empty for operations without
  std::optional<TimeEstimate> time;         // of one run, by the model
  std::optional<Seconds> measured;          // of one run, where it was recorded: the median
  std::optional<Seconds> measured_in_pass;  // of all its runs in one pass, as a trace adds them up
  double time_share = 0;                    // of the whole, all `count` runs; 0 where unknown
  std::size_t layer = 0;  // the first operation of the same body and dtypes, whatever its phase
};

struct Analysis {
  std::vector<OpAnalysis> ops;  // one per operation of the workload, same order
  // Of one pass: what was recorded, else the sum over the operations with a time, run one by one.
  Range<Seconds> total;
  double ops_without_time = 0;  // runs of operations neither recorded nor known to the model
};

// The recorded time, else the model's.
std::optional<Range<Seconds>> known_time(const OpAnalysis& op);
// Of all its `count` runs. Some of a trace are rarer than once a pass, and runs differ: then this
// is what was added up.
std::optional<Range<Seconds>> known_time_in_pass(const OpAnalysis& op, std::int64_t count);

// The model of the workload's operations inside its step: what rules compare changed ones by.
TimeModel step_model(const Workload& workload, const TimeModel& model);

Analysis analyse(const Workload& workload, const TimeModel& model);

}  // namespace rooftile
