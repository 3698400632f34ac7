#include "gpu/session.h"

namespace rooftile::gpu {

Point measure(Gpu& gpu, const PlanItem& item, const StopRule& rule, const Clock& clock) {
  Point point;
  point.item = item;
  auto prepared = gpu.prepare(item.op, item.rotation);
  if (!prepared) {
    point.failure = to_string(prepared.error());
    return point;
  }
  const Result<Summary> summary = repeat([&] { return (*prepared)->run(); }, rule, clock);
  point.conditions = gpu.conditions();
  point.kernel = (*prepared)->kernel();
  if (summary) {
    point.summary = *summary;
  } else {
    point.failure = to_string(summary.error());
  }
  return point;
}

Result<SessionCounts> run_plan(Gpu& gpu, const Plan& plan, const SessionOptions& options,
                               const Clock& clock,
                               const std::function<Result<void>(const Point&)>& keep) {
  SessionCounts counts;
  const Seconds start = clock();
  for (const PlanItem& item : plan) {
    if (options.done.contains(operation_text(item.op))) {
      ++counts.known;
      continue;
    }
    if (clock() - start >= options.budget) {
      ++counts.left;
      continue;
    }
    const Point point = measure(gpu, item, options.rule, clock);
    ++(point.measured() ? counts.measured : counts.failed);
    const Result<void> kept = keep(point);
    if (!kept) return tl::unexpected(kept.error());
  }
  return counts;
}

}  // namespace rooftile::gpu
