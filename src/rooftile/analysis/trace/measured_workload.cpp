#include "rooftile/analysis/trace/measured_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "rooftile/analysis/cost.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

std::string place_of(const TraceSite& site) { return site.module.empty() ? site.op : site.module; }

Op other_op(const std::string& what) {
  Op op;
  op.body = Other{.fn = what};
  return op;
}

// Rarer than once a pass (an evaluation, say) counts as once.
std::int64_t runs_in_pass(std::int64_t runs, double passes) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(runs) / passes));
}

// Summaries of earlier versions hold no times of single runs.
Seconds time_of_run(const TimeSample& times, Seconds sum, std::int64_t runs) {
  if (!times.empty()) return spread_of(times, runs).median;
  return sum / static_cast<double>(std::max<std::int64_t>(1, runs));
}

Op measured_op(const OpUse& use, double passes) {
  Op op = use.op.value_or(other_op(use.name));
  op.name = use.name;
  // What an operator moves does not depend on the pass that it ran in.
  if (op.phase != use.phase && op.streams.bytes == 0 && !is_matrix_op(op)) {
    op.streams.bytes = static_cast<std::int64_t>(count_cost(op).bytes.value());
  }
  op.phase = use.phase;
  op.count = runs_in_pass(use.count, passes);
  op.measured = time_of_run(use.times, use.kernel_time, use.count);
  op.source = use.site.source;
  op.source.module = use.site.module;
  op.source.node = place_of(use.site);
  return op;
}

// Kernels without an operator, one operation per kernel name.
Op orphan_op(const KernelUse& kernel, double passes) {
  Op op = other_op("kernel");
  op.name = kernel.name;
  op.count = runs_in_pass(kernel.count, passes);
  op.measured = time_of_run(kernel.times, kernel.time, kernel.count);
  return op;
}

std::string shape_key(Op op) {
  op.dtypes = {};
  return shape_bytes(op) + static_cast<char>(op.phase);
}

}  // namespace

bool trains(const TraceSummary& trace) {
  const auto is_backward = [](const OpUse& use) { return use.phase != Phase::forward; };
  const auto is_of_training = [](const KernelUse& kernel) {
    return kernel.facts.kernel_class == KernelClass::optimizer ||
           kernel.facts.direction == KernelDirection::dgrad ||
           kernel.facts.direction == KernelDirection::wgrad ||
           contains_any(kernel.name, {"backward", "_grad_"}) ||
           (kernel.facts.kernel_class == KernelClass::elementwise &&
            contains(kernel.name, "multi_tensor_apply"));
  };
  return std::ranges::any_of(trace.ops, is_backward) ||
         std::ranges::any_of(trace.orphans, is_of_training);
}

Workload measured_workload(std::vector<TraceSummary> summaries) {
  Workload workload;
  if (summaries.empty()) return workload;
  std::stable_sort(summaries.begin(), summaries.end(), [](const auto& a, const auto& b) {
    return a.rank.value_or(0) < b.rank.value_or(0);
  });
  const TraceSummary& trace = summaries.front();
  const double passes = table_steps(trace);
  workload.mode = trains(trace) ? Mode::training : Mode::inference;
  for (const OpUse& use : trace.ops) workload.ops.push_back(measured_op(use, passes));
  for (const KernelUse& kernel : trace.orphans) {
    workload.ops.push_back(orphan_op(kernel, passes));
  }
  for (const TraceSummary& summary : summaries) {
    for (const std::string& file : summary.files) {
      // Several processes may be in one file.
      if (std::ranges::find(workload.sources, file) == workload.sources.end()) {
        workload.sources.push_back(file);
      }
    }
    for (const auto& [name, count] : summary.skipped) workload.skipped[name] += count;
  }
  if (summaries.size() > 1) {
    workload.notes.push_back(fmt::format(
        "operators and kernels are those of {}; findings on waiting are of all {} recordings",
        trace.rank ? fmt::format("rank {}", *trace.rank) : "the first process", summaries.size()));
  }
  workload.traces = TraceList(std::move(summaries));
  return workload;
}

std::vector<Seconds> measured_times_in_pass(const Workload& workload) {
  std::vector<Seconds> times;
  if (workload.traces.empty()) return times;
  const TraceSummary& trace = workload.traces.front();
  if (workload.ops.size() != trace.ops.size() + trace.orphans.size()) return times;
  const double passes = table_steps(trace);
  for (const OpUse& use : trace.ops) times.push_back(use.kernel_time / passes);
  for (const KernelUse& kernel : trace.orphans) times.push_back(kernel.time / passes);
  return times;
}

Workload join_model(Workload measured, const Workload& model) {
  std::unordered_map<std::string, const Op*> by_shape;
  for (const Op& op : model.ops) {
    if (is_matrix_op(op)) by_shape.emplace(shape_key(op), &op);
  }
  std::size_t found = 0, asked = 0;
  for (Op& op : measured.ops) {
    if (!is_matrix_op(op)) continue;
    ++asked;
    const auto layer = by_shape.find(shape_key(op));
    if (layer == by_shape.end()) continue;
    ++found;
    op.name = layer->second->name;
    op.source = layer->second->source;
  }
  measured.notes.push_back(fmt::format(
      "{} of {} recorded matrix operations have the shape of a layer of the model", found, asked));
  measured.sources.insert(measured.sources.end(), model.sources.begin(), model.sources.end());
  if (!measured.parameters) measured.parameters = model.parameters;
  return measured;
}

}  // namespace rooftile
