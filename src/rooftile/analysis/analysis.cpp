#include "rooftile/analysis/analysis.h"

#include <array>
#include <string>
#include <unordered_map>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

OpAnalysis analyse(const Op& op, const TimeModel& model) {
  return {.cost = count_cost(op),
          .products = matrix_products(op),
          .time = model.estimate(op),
          .measured = op.measured,
          .measured_in_pass = std::nullopt};
}

// Indices of the first operations of one body and dtypes.
struct FirstRuns {
  std::optional<std::size_t> any;
  std::array<std::optional<std::size_t>, 4> by_phase;
};

void add_shares(const Workload& workload, Analysis& analysis) {
  const double total = analysis.total.expected.value();
  for (std::size_t i = 0; i < analysis.ops.size() && total > 0; ++i) {
    const auto time = known_time_in_pass(analysis.ops[i], workload.ops[i].count);
    if (time) analysis.ops[i].time_share = time->expected.value() / total;
  }
}

}  // namespace

std::optional<Range<Seconds>> known_time(const OpAnalysis& op) {
  if (op.measured) return Range<Seconds>{*op.measured, *op.measured, *op.measured};
  return op.time ? std::optional(op.time->time) : std::nullopt;
}

std::optional<Range<Seconds>> known_time_in_pass(const OpAnalysis& op, std::int64_t count) {
  if (const auto& sum = op.measured_in_pass) return Range<Seconds>{*sum, *sum, *sum};
  const auto run = known_time(op);
  return run ? std::optional(*run * static_cast<double>(count)) : std::nullopt;
}

// What ran was measured; and one operation has what it reads to itself.
TimeModel step_model(const Workload& workload, const TimeModel& any_model) {
  if (!workload.traces.empty()) return any_model;
  const bool trains =
      std::ranges::any_of(workload.ops, [](const Op& op) { return op.phase != Phase::forward; });
  const TimeModel model = trains ? any_model.without_cache_update() : any_model;
  Bytes weights, caches;
  double elements = 0;
  for (const Op& op : workload.ops) {
    if (op.phase != Phase::forward) continue;
    const double runs = to_double(op.count);
    const bool cached = std::holds_alternative<Attention>(op.body);
    (cached ? caches : weights) += count_state(op) * runs;
    if (!std::holds_alternative<Embedding>(op.body)) elements += count_parameters(op) * runs;
  }
  // Layers that share a weight: the reader's number counts.
  const double parameters = to_double(workload.parameters.value_or(0));
  const double distinct = parameters > 0 && parameters < elements ? parameters / elements : 1;
  return model.in_step(weights + caches, weights * distinct + caches);
}

Analysis analyse(const Workload& workload, const TimeModel& model) {
  const TimeModel in_step = step_model(workload, model);
  Analysis analysis;
  const std::vector<Seconds> recorded = measured_times_in_pass(workload);
  analysis.ops.reserve(workload.ops.size());
  std::unordered_map<std::string, FirstRuns> layers;  // networks repeat their layers
  for (const Op& op : workload.ops) {
    const std::size_t index = analysis.ops.size();
    FirstRuns& first = layers[shape_bytes(op)];
    std::optional<std::size_t>& same = first.by_phase[static_cast<std::size_t>(op.phase)];
    if (!first.any) first.any = index;
    if (!same) {
      same = index;
      analysis.ops.push_back(analyse(op, in_step));
    } else {
      analysis.ops.push_back(analysis.ops[*same]);
    }
    OpAnalysis& entry = analysis.ops.back();
    entry.layer = *first.any;
    entry.measured = op.measured;  // equal layers need not have taken equally long
    entry.measured_in_pass.reset();
    if (!recorded.empty() && op.measured) entry.measured_in_pass = recorded[index];
    if (const auto time = known_time_in_pass(entry, op.count)) {
      analysis.total += *time;
    } else {
      analysis.ops_without_time += static_cast<double>(op.count);
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
