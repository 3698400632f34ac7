#include "rooftile/analysis/analysis.h"

#include <string>
#include <unordered_map>

#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

OpAnalysis analyse(const Op& op, const TimeModel& model) {
  return {count_cost(op), matrix_products(op), model.estimate(op), 0};
}

}  // namespace

Analysis analyse(const Workload& workload, const TimeModel& model) {
  Analysis analysis;
  analysis.ops.reserve(workload.ops.size());
  std::unordered_map<std::string, std::size_t> first;  // networks repeat their layers
  for (const Op& op : workload.ops) {
    std::string key = shape_bytes(op);
    key += static_cast<char>(op.phase);
    const auto [known, is_new] = first.try_emplace(std::move(key), analysis.ops.size());
    if (is_new) {
      analysis.ops.push_back(analyse(op, model));
    } else {
      analysis.ops.push_back(analysis.ops[known->second]);
    }
    OpAnalysis& entry = analysis.ops.back();
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
