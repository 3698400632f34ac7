#include "rooftile/analysis/trace/steady.h"

#include <algorithm>

namespace rooftile {

Seconds steady_span(const TraceSummary& trace) {
  constexpr double kVisible = 0.1;
  Seconds set_up;
  for (const IdleCause cause : {IdleCause::start_up, IdleCause::module_loading}) {
    const auto found = trace.time.idle_by_cause.find(cause);
    if (found != trace.time.idle_by_cause.end()) set_up += found->second;
  }
  const Seconds span = trace.time.span;
  return set_up < kVisible * span ? span : std::max(Seconds(), span - set_up);
}

}  // namespace rooftile
