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
  Cost cost;                            // of one run
  std::vector<MatrixProduct> products;  // empty for operations without
  std::optional<TimeEstimate> time;     // of one run
  double time_share = 0;                // of the whole, all `count` runs; 0 where unknown
  std::size_t layer = 0;  // the first operation of the same body and dtypes, whatever its phase
};

struct Analysis {
  std::vector<OpAnalysis> ops;  // one per operation of the workload, same order
  Range<Seconds> total;         // sum over the operations with an estimate, run one by one
  double ops_without_time = 0;  // runs of operations the model knows nothing of
};

Analysis analyse(const Workload& workload, const TimeModel& model);

}  // namespace rooftile
