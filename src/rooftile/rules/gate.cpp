#include "rooftile/rules/gate.h"

#include <utility>

namespace rooftile {

bool matters(const RuleInput& input, std::size_t op) {
  return input.analysis.ops[op].time_share >= kMinTimeShare;
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
