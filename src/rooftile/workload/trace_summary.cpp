#include "rooftile/workload/trace_summary.h"

#include <algorithm>

namespace rooftile {

double window_steps(const TraceSummary& summary) {
  return std::max(1.0, static_cast<double>(summary.steps.durations.size()));
}

double recorded_steps(const TraceSummary& summary) {
  if (summary.steps.durations.empty() || summary.kernel_time_in_steps <= Seconds()) return 1;
  return window_steps(summary) * (summary.kernel_time / summary.kernel_time_in_steps);
}

Seconds pass_time(const TraceSummary& summary) { return summary.time.span / window_steps(summary); }

}  // namespace rooftile
