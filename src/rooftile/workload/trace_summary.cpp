#include "rooftile/workload/trace_summary.h"

#include <algorithm>

namespace rooftile {

double count_passes(const TraceSummary& trace) {
  return std::max<double>(1, static_cast<double>(trace.steps.durations.size()));
}

Seconds pass_time(const TraceSummary& trace) {
  if (trace.steps.durations.empty()) return trace.time.span;
  Seconds sum;
  for (const Seconds step : trace.steps.durations) sum += step;
  return sum / count_passes(trace);
}

}  // namespace rooftile
