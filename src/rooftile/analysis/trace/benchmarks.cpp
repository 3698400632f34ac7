#include "rooftile/analysis/trace/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rooftile/analysis/trace/gain.h"
#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/use_groups.h"
#include "rooftile/base/quantity_text.h"

namespace rooftile {
namespace {

struct Runs {
  std::int64_t count = 0;
  Seconds time;
  bool is_own = false;  // no operator launches it
  std::string op;       // else the operator
};

using RunsByKernel = std::map<std::string, Runs>;

RunsByKernel runs_by_kernel(const TraceSummary& trace) {
  RunsByKernel runs;
  const auto add = [&](const KernelUse& kernel, const OpUse* use) {
    if (kernel.facts.kernel_class == KernelClass::fill) return;
    Runs& all = runs[kernel.name];
    all.count += kernel.count;
    all.time += kernel.time;
    all.is_own = use == nullptr && kernel.facts.library.empty();
    if (use != nullptr) all.op = use->name;
  };
  for (const OpUse& use : trace.ops) {
    for (const KernelUse& kernel : use.kernels) add(kernel, &use);
  }
  for (const KernelUse& kernel : trace.orphans) add(kernel, nullptr);
  return runs;
}

}  // namespace

std::string benchmark_because(const TraceSummary& trace) {
  constexpr std::size_t kMostKernels = 2;
  constexpr std::int64_t kFewestRuns = 3;
  const RunsByKernel runs = runs_by_kernel(trace);
  if (runs.empty() || runs.size() > kMostKernels || trains(trace) || !trace.modules.empty() ||
      !trace.loaders.empty() || trace.graph_launches > 0) {
    return "";
  }
  const auto& [name, most] =
      *std::ranges::max_element(runs, {}, [](const auto& entry) { return entry.second.time; });
  const bool has_marks =
      !trace.steps.durations.empty() && trace.steps.source != StepSource::repetition;
  if (most.count < kFewestRuns || (has_marks && !most.is_own)) return "";
  const std::string kernel = short_kernel_name(name);
  const std::string time = fmt::format("{} runs of {} each", most.count,
                                       time_text(most.time / static_cast<double>(most.count)));
  if (most.is_own) {
    return fmt::format(
        "the recording is of {} ({}), a kernel of the program's own, which no rule looks "
        "into: compare its time with that of a library's",
        kernel, time);
  }
  return fmt::format(
      "the recording repeats {} ({}) and nothing else: a benchmark, whose inputs are "
      "made for it",
      most.op.empty() ? kernel : most.op, time);
}

std::string toy_because(const TraceSummary& trace) {
  constexpr double kMostBusy = 0.1;                         // of the window
  constexpr double kMostKernels = 100, kFewestKernels = 3;  // a step
  constexpr Seconds kTiny = microseconds(3);
  const double kernels = static_cast<double>(table_count(trace, kernels_in_tables(trace)));
  const double each = kernels / window_steps(trace);
  const bool is_tiny = kernels > 0 && trace.kernel_time_in_steps < kTiny * kernels;
  if (!is_tiny || each > kMostKernels || each < kFewestKernels || trace.steps.durations.empty() ||
      trace.time.gpu_busy > kMostBusy * trace.time.span) {
    return "";
  }
  return fmt::format(
      "the GPU's {:.0f} kernels a step take {} each: tensors of so few numbers leave all of the "
      "time "
      "to the host, which only larger batches or a CUDA graph of the whole step change",
      each, time_text(trace.kernel_time_in_steps / kernels));
}

}  // namespace rooftile
