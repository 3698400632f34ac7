#include "rooftile/analysis/analysis.h"

namespace rooftile {
namespace {

OpAnalysis analyse(const Op& op, const TimeModel& model) {
  return {count_cost(op), matrix_products(op), model.estimate(op), 0};
}

}  // namespace

Analysis analyse(const Workload& workload, const TimeModel& model) {
  Analysis analysis;
  for (const Op& op : workload.ops) {
    OpAnalysis& entry = analysis.ops.emplace_back(analyse(op, model));
    const double runs = static_cast<double>(op.count);
    if (entry.time) {
      analysis.total += entry.time->time * runs;
    } else {
      analysis.ops_without_time += runs;
    }
  }
  const double total = analysis.total.expected.value();
  for (std::size_t i = 0; i < analysis.ops.size() && total > 0; ++i) {
    OpAnalysis& entry = analysis.ops[i];
    if (!entry.time) continue;
    const double runs = static_cast<double>(workload.ops[i].count);
    entry.time_share = runs * entry.time->time.expected.value() / total;
  }
  return analysis;
}

}  // namespace rooftile
