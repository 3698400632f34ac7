#include "rooftile/analysis/coverage.h"

namespace rooftile {

KnownRuns known_runs(const Workload& workload, const Analysis& analysis) {
  KnownRuns runs;
  for (const Op& op : workload.ops) runs.all += to_double(op.count);
  runs.with_time = runs.all - analysis.ops_without_time;
  // Records that a recording lost are events of all kinds, not operations.
  if (!workload.traces.empty()) return runs;
  for (const auto& [name, count] : workload.skipped) {
    if (is_missing_work(name)) runs.all += to_double(count);
  }
  return runs;
}

}  // namespace rooftile
