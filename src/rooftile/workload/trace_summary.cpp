#include "rooftile/workload/trace_summary.h"

#include <algorithm>
#include <cmath>

namespace rooftile {

double window_steps(const TraceSummary& summary) {
  return std::max(1.0, static_cast<double>(summary.steps.durations.size()));
}

double recorded_steps(const TraceSummary& summary) {
  const bool is_all = summary.steps.durations.empty() && summary.time.span == summary.whole.span;
  if (is_all || summary.kernel_time_in_steps <= Seconds()) return 1;
  // Kernels vary by about as much from step to step.
  constexpr double kWhole = 0.01;
  const Seconds launched = summary.kernel_time - summary.leftover_time;
  const double steps = window_steps(summary) * (launched / summary.kernel_time_in_steps);
  const double whole = std::round(steps);
  return std::abs(steps - whole) <= kWhole * whole ? whole : steps;
}

bool is_of_host_alone(const TraceSummary& summary) {
  return summary.kernels == 0 && summary.whole.copy <= Seconds() && !summary.is_foreign &&
         summary.launches + summary.graph_launches == 0;
}

Seconds pass_time(const TraceSummary& summary) { return summary.time.span / window_steps(summary); }

Seconds median(std::vector<Seconds> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

}  // namespace rooftile
