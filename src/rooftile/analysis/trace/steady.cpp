#include "rooftile/analysis/trace/steady.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace rooftile {

Seconds idle_of(const TraceSummary& trace, std::initializer_list<IdleCause> causes) {
  Seconds idle;
  for (const IdleCause cause : causes) {
    const auto found = trace.time.idle_by_cause.find(cause);
    if (found != trace.time.idle_by_cause.end()) idle += found->second;
  }
  return idle;
}

Seconds set_up_of(const TraceSummary& trace) {
  return idle_of(trace, {IdleCause::start_up, IdleCause::module_loading});
}

bool is_mostly_set_up(const TraceSummary& trace) {
  return set_up_of(trace) > 0.5 * trace.time.span;
}

bool runs_once(const TraceSummary& trace) {
  constexpr double kHardly = 1.5;  // runs of each
  if (!trace.steps.durations.empty() || trace.time.idle <= 0.5 * trace.time.span) return false;
  std::set<std::string_view> names;
  const auto add = [&](const KernelUse& kernel) { names.insert(kernel.name); };
  for (const OpUse& use : trace.ops) std::ranges::for_each(use.kernels, add);
  std::ranges::for_each(trace.orphans, add);
  constexpr std::size_t kPass = 3;  // fewer are no pass
  return names.size() >= kPass && static_cast<double>(kernels_in_tables(trace)) <
                                      kHardly * static_cast<double>(names.size());
}

Seconds unexplained_time(const TraceSummary& trace) {
  return idle_of(trace, {IdleCause::unrecorded_work, IdleCause::unknown}) + trace.time.stretched;
}

bool is_mostly_unexplained(const TraceSummary& trace) {
  constexpr double kHides = 0.3;  // assumed: what is left may hide as much as what is seen
  return unexplained_time(trace) > kHides * trace.time.span;
}

Seconds steady_span(const TraceSummary& trace) {
  constexpr double kVisible = 0.1;
  const Seconds set_up = set_up_of(trace);
  const Seconds span = trace.time.span;
  return set_up < kVisible * span ? span : std::max(Seconds(), span - set_up);
}

}  // namespace rooftile
