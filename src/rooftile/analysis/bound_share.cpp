#include "rooftile/analysis/bound_share.h"

#include "rooftile/analysis/op_math.h"

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

Bound limit_of(const Op& op, const OpAnalysis& analysis, const Device& device) {
  constexpr double kVisible = 0.2;  // of the time
  if (!analysis.time) return Bound::unknown;
  const Bound bound = analysis.time->bound;
  const Cost& cost = analysis.cost;
  if ((bound != Bound::math && bound != Bound::memory) || cost.flop <= Flop()) return bound;
  const Seconds time = analysis.time->time.expected;
  const bool computes = cost.flop / math_unit(device, op).peak >= kVisible * time;
  const bool moves = cost.bytes / device.dram_bandwidth >= kVisible * time;
  if (bound == Bound::memory) return computes && !moves ? Bound::math : bound;
  if (computes) return Bound::math;
  return moves ? Bound::memory : Bound::latency;
}

BoundShare bound_share(const Workload& workload, const Analysis& analysis, const Device& device) {
  BoundShare share;
  double total = 0;
  for (std::size_t i = 0; i < analysis.ops.size(); ++i) {
    const OpAnalysis& op = analysis.ops[i];
    const auto time = known_time_in_pass(op, workload.ops[i].count);
    if (!time) continue;
    const double seconds = time->expected.value();
    part_of(limit_of(workload.ops[i], op, device), share) += seconds;
    total += seconds;
  }
  if (total <= 0) return {};
  for (double* part : {&share.math, &share.memory, &share.latency, &share.other}) *part /= total;
  return share;
}

}  // namespace rooftile
