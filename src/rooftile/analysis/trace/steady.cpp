#include "rooftile/analysis/trace/steady.h"

#include <algorithm>

namespace rooftile {
namespace {

Seconds set_up_of(const TraceSummary& trace) {
  Seconds set_up;
  for (const IdleCause cause : {IdleCause::start_up, IdleCause::module_loading}) {
    const auto found = trace.time.idle_by_cause.find(cause);
    if (found != trace.time.idle_by_cause.end()) set_up += found->second;
  }
  return set_up;
}

}  // namespace

bool is_mostly_set_up(const TraceSummary& trace) {
  return set_up_of(trace) > 0.5 * trace.time.span;
}

Seconds steady_span(const TraceSummary& trace) {
  constexpr double kVisible = 0.1;
  const Seconds set_up = set_up_of(trace);
  const Seconds span = trace.time.span;
  return set_up < kVisible * span ? span : std::max(Seconds(), span - set_up);
}

}  // namespace rooftile
