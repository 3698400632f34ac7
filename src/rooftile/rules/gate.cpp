#include "rooftile/rules/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rooftile/analysis/trace/gain.h"
#include "rooftile/analysis/trace/use_groups.h"
#include "rooftile/base/quantity_text.h"

namespace rooftile {

Seconds pass_time(std::span<const TraceSummary> ranks) {
  Seconds slowest;
  for (const TraceSummary& trace : ranks) slowest = std::max(slowest, pass_time(trace));
  return slowest;
}

Seconds pass_time(const RuleInput& input) {
  const Seconds slowest = pass_time(input.workload.traces);
  return slowest > Seconds(0) ? slowest : input.analysis.total.expected;
}

std::optional<Evidence> kernel_evidence(const RuleInput& input, std::size_t op) {
  const Op& wanted = input.workload.ops[op];
  for (const TraceSummary& trace : input.workload.traces) {
    const KernelUse* largest = nullptr;
    Seconds time;
    for (const OpUse& use : trace.ops) {
      if (!use.op || use.op->phase != wanted.phase || use.op->body != wanted.body) continue;
      time += use.kernel_time;
      for (const KernelUse& kernel : use.kernels) {
        if (largest == nullptr || kernel.time > largest->time) largest = &kernel;
      }
    }
    if (largest == nullptr) continue;
    return Evidence::measured(fmt::format("{} per step, mostly in kernel {}",
                                          time_text(time / table_steps(trace)),
                                          short_kernel_name(largest->name)));
  }
  return std::nullopt;
}

bool matters(const RuleInput& input, std::size_t op) {
  return input.analysis.ops[op].time_share >= threshold::kReported;
}

bool is_math_bound(const RuleInput& input, const MatrixProduct& product) {
  const std::optional<FlopPerByte> ridge = input.device().ridge(product.math);
  if (!ridge) return false;
  const double m = static_cast<double>(product.m);
  const double n = static_cast<double>(product.n);
  const double k = static_cast<double>(product.k);
  const Bytes traffic = storage(m * k, product.a.dtype) + storage(n * k, product.b.dtype) +
                        storage(m * n, product.out.dtype);
  return Flop(2 * m * n * k) / traffic > 0.5 * *ridge;
}

std::optional<Range<Seconds>> saving_if(const RuleInput& input, std::size_t op, const Op& changed) {
  const std::optional<TimeEstimate>& before = input.analysis.ops[op].time;
  const std::optional<TimeEstimate> after = input.model.estimate(changed);
  if (!before || !after) return std::nullopt;
  return estimate_saving(*before, *after) * static_cast<double>(input.workload.ops[op].count);
}

Finding finding_at(const RuleInput& input, std::size_t op, std::string message, Fix fix,
                   std::optional<Range<Seconds>> saving_per_run) {
  const Op& concerned = input.workload.ops[op];
  Finding finding;
  finding.message = std::move(message);
  finding.location = concerned.source;
  if (finding.location.node.empty()) finding.location.node = concerned.name;
  finding.count = concerned.count;
  finding.fix = std::move(fix);
  finding.ops = {op};
  if (saving_per_run) {
    finding.saving = *saving_per_run * static_cast<double>(concerned.count);
  }
  return finding;
}

}  // namespace rooftile
