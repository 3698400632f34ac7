#include "rooftile/analysis/analysis.h"

#include <array>
#include <string>
#include <unordered_map>

#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

OpAnalysis analyse(const Op& op, const TimeModel& model) {
  return {count_cost(op), matrix_products(op), model.estimate(op), 0, 0};
}

// Indices of the first operations of one body and dtypes.
struct FirstRuns {
  std::optional<std::size_t> any;
  std::array<std::optional<std::size_t>, 4> by_phase;
};

}  // namespace

Analysis analyse(const Workload& workload, const TimeModel& model) {
  Analysis analysis;
  analysis.ops.reserve(workload.ops.size());
  std::unordered_map<std::string, FirstRuns> layers;  // networks repeat their layers
  for (const Op& op : workload.ops) {
    const std::size_t index = analysis.ops.size();
    FirstRuns& first = layers[shape_bytes(op)];
    std::optional<std::size_t>& same = first.by_phase[static_cast<std::size_t>(op.phase)];
    if (!first.any) first.any = index;
    if (!same) {
      same = index;
      analysis.ops.push_back(analyse(op, model));
    } else {
      analysis.ops.push_back(analysis.ops[*same]);
    }
    OpAnalysis& entry = analysis.ops.back();
    entry.layer = *first.any;
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
