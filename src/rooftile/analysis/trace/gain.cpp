#include "rooftile/analysis/trace/gain.h"

#include <algorithm>
#include <cmath>

#include "rooftile/analysis/trace/steady.h"

namespace rooftile {
namespace {

constexpr double kHostBoundShare = 0.1;  // of the window
constexpr double kCertainShare = 0.5;    // assumed, of idle time that has one cause

IdleCause cause_of(Remedy remedy) {
  switch (remedy) {
    case Remedy::ideal_loader:
      return IdleCause::data_loading;
    case Remedy::no_synchronization:
      return IdleCause::synchronization;
    case Remedy::batched_launches:
    case Remedy::fused_optimizer:
      return IdleCause::launch;
    case Remedy::no_allocation:
      return IdleCause::allocator;
    case Remedy::asynchronous_copies:
      return IdleCause::copy;
    case Remedy::hidden_communication:
      return IdleCause::communication_wait;
  }
  return IdleCause::unknown;
}

// Idle time that grows when kernels get shorter, because the host comes no earlier for it.
Seconds host_idle(const TraceSummary& trace) {
  return idle_of(trace, {IdleCause::launch, IdleCause::data_loading, IdleCause::allocator,
                         IdleCause::host_work, IdleCause::asleep});
}

}  // namespace

Seconds per_step(const TraceSummary& trace, Seconds in_window) {
  return in_window / window_steps(trace);
}

double window_part(const TraceSummary& trace) {
  return std::min(1.0, window_steps(trace) / recorded_steps(trace));
}

std::int64_t window_count(const TraceSummary& trace, std::int64_t recorded) {
  return std::llround(static_cast<double>(recorded) * window_part(trace));
}

double table_part(const TraceSummary& trace) {
  return std::min(1.0, window_steps(trace) / table_steps(trace));
}

std::int64_t table_count(const TraceSummary& trace, std::int64_t in_table) {
  return std::llround(static_cast<double>(in_table) * table_part(trace));
}

bool is_host_bound(const TraceSummary& trace) {
  return host_idle(trace) > kHostBoundShare * steady_span(trace);
}

Seconds overlapped_kernel_time(const TraceSummary& trace) {
  const Seconds at_least_one = trace.time.compute + trace.time.exposed_communication;
  return std::max(Seconds(0), trace.kernel_time_in_steps - at_least_one);
}

Range<Seconds> gain_of_kernel_time(const TraceSummary& trace, const Range<Seconds>& saved) {
  const Seconds busy = trace.time.gpu_busy, late = host_idle(trace);
  if (busy <= Seconds(0)) return {};
  Range<Seconds> gain;
  gain.high = std::max(Seconds(0), saved.high);
  gain.expected = std::max(Seconds(0), saved.expected) *
                  std::clamp(trace.kernel_time_share.value_or(busy / (busy + late)), 0.0, 1.0);
  // As recorded: the host needs its time, and that of its waits for others, whatever the GPU does.
  const Seconds waits =
      idle_of(trace, {IdleCause::data_loading, IdleCause::allocator, IdleCause::asleep});
  const Seconds most = std::max(Seconds(0), trace.time.span - trace.host_busy - waits);
  gain.expected = std::min(gain.expected, most);
  if (!is_host_bound(trace)) {
    gain.low = std::max(Seconds(0), saved.low - overlapped_kernel_time(trace));
    gain.low = std::min(gain.low, gain.expected);
  }
  return gain;
}

Range<Seconds> gain_of_idle_time(Seconds exposed) {
  return {kCertainShare * exposed, exposed, exposed};
}

Range<Seconds> gain_of_idle_time(const TraceSummary& trace, Remedy remedy, Seconds exposed) {
  for (const Prediction& prediction : trace.predictions) {
    if (prediction.remedy != remedy) continue;
    Seconds all = idle_of(trace, {cause_of(remedy)});
    if (remedy == Remedy::no_synchronization) all = all + idle_of(trace, {IdleCause::restart});
    const double share = all > Seconds(0) ? std::min(1.0, exposed / all) : 1.0;
    const Range<Seconds> saved = prediction.saved * share;
    // What the replay gains beyond that idle time may have another cause.
    const Range<Seconds> bound = gain_of_idle_time(exposed);
    return {std::min(saved.low, bound.low), std::min(saved.expected, bound.expected),
            std::min(saved.high, bound.high)};
  }
  return gain_of_idle_time(exposed);
}

Range<Seconds> capped_by_work(const TraceSummary& trace, Range<Seconds> gain) {
  const Seconds stays = std::max(trace.host_busy, trace.time.compute);
  const Seconds most = std::max(Seconds(), trace.time.span - stays);
  return {std::min(gain.low, most), std::min(gain.expected, most), std::min(gain.high, most)};
}

double speedup(const TraceSummary& trace, Seconds saved) {
  const Seconds left = trace.time.span - saved;
  return left > Seconds(0) ? trace.time.span / left : 1.0;
}

}  // namespace rooftile
