#include "rooftile/analysis/analysis.h"

#include <array>
#include <string>
#include <unordered_map>

#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

OpAnalysis analyse(const Op& op, const TimeModel& model) {
  return {count_cost(op), matrix_products(op), model.estimate(op), op.measured, 0, 0};
}

// Indices of the first operations of one body and dtypes.
struct FirstRuns {
  std::optional<std::size_t> any;
  std::array<std::optional<std::size_t>, 4> by_phase;
};

void add_shares(const Workload& workload, Analysis& analysis) {
  const double total = analysis.total.expected.value();
  for (std::size_t i = 0; i < analysis.ops.size() && total > 0; ++i) {
    const auto time = known_time(analysis.ops[i]);
    if (!time) continue;
    const double runs = static_cast<double>(workload.ops[i].count);
    analysis.ops[i].time_share = runs * time->expected.value() / total;
  }
}

}  // namespace

std::optional<Range<Seconds>> known_time(const OpAnalysis& op) {
  if (op.measured) return Range<Seconds>{*op.measured, *op.measured, *op.measured};
  return op.time ? std::optional(op.time->time) : std::nullopt;
}

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
    entry.measured = op.measured;  // equal layers need not have taken equally long
    const double runs = static_cast<double>(op.count);
    if (const auto time = known_time(entry)) {
      analysis.total += *time * runs;
    } else {
      analysis.ops_without_time += runs;
    }
  }
  if (!workload.traces.empty()) {
    const Seconds pass = pass_time(workload.traces.front());
    analysis.total = {pass, pass, pass};
  }
  add_shares(workload, analysis);
  return analysis;
}

}  // namespace rooftile
