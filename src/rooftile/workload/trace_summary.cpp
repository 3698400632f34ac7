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

double table_steps(const TraceSummary& summary) {
  return summary.has_tables_of_window ? window_steps(summary) : recorded_steps(summary);
}

std::int64_t kernels_in_tables(const TraceSummary& summary) {
  std::int64_t kernels = 0;
  const auto add = [&](const KernelUse& kernel) { kernels += kernel.count; };
  for (const OpUse& use : summary.ops) std::ranges::for_each(use.kernels, add);
  std::ranges::for_each(summary.orphans, add);
  return kernels;
}

bool shows_network(const TraceSummary& summary) {
  // A product of matrices alone is any program's.
  const bool has_torch = std::ranges::any_of(
      summary.orphans, [](const KernelUse& kernel) { return kernel.facts.library == "pytorch"; });
  const auto is_layer = [&](const KernelUse& kernel) {
    switch (kernel.facts.kernel_class) {
      case KernelClass::gemm:
        return has_torch;
      case KernelClass::convolution:
      case KernelClass::attention:
      case KernelClass::recurrent:
      case KernelClass::normalization:
      case KernelClass::softmax:
        return true;
      default:
        return false;
    }
  };
  return !summary.ops.empty() || std::ranges::any_of(summary.orphans, is_layer);
}

bool is_single_user_step(const TraceSummary& summary) {
  const Steps& steps = summary.steps;
  const bool is_marked =
      steps.source == StepSource::user_range || steps.source == StepSource::engine;
  return is_marked && steps.durations.size() == 1 && !steps.first_apart && !steps.last_apart;
}

bool falls_behind(const TraceSummary& summary) {
  constexpr double kMuch = 0.3, kLimits = 0.1;  // of a pass; of the span
  Seconds host;
  for (const IdleCause cause : {IdleCause::launch, IdleCause::host_work}) {
    const auto found = summary.time.idle_by_cause.find(cause);
    if (found != summary.time.idle_by_cause.end()) host += found->second;
  }
  return summary.leftover_time > kMuch * pass_time(summary) && host > kLimits * summary.time.span;
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
