#include "rooftile/analysis/bound_share.h"

namespace rooftile {
namespace {

double& part_of(Bound bound, BoundShare& share) {
  switch (bound) {
    case Bound::math:
      return share.math;
    case Bound::memory:
      return share.memory;
    case Bound::latency:
      return share.latency;
    case Bound::communication:
    case Bound::unknown:
      break;
  }
  return share.other;
}

}  // namespace

BoundShare bound_share(const Workload& workload, const Analysis& analysis) {
  BoundShare share;
  double total = 0;
  for (std::size_t i = 0; i < analysis.ops.size(); ++i) {
    const OpAnalysis& op = analysis.ops[i];
    const auto time = known_time(op);
    if (!time) continue;
    const double seconds = time->expected.value() * to_double(workload.ops[i].count);
    part_of(op.time ? op.time->bound : Bound::unknown, share) += seconds;
    total += seconds;
  }
  if (total <= 0) return {};
  for (double* part : {&share.math, &share.memory, &share.latency, &share.other}) *part /= total;
  return share;
}

}  // namespace rooftile
