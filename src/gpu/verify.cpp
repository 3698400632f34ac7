#include "gpu/verify.h"

#include <utility>

namespace rooftile::gpu {
namespace {

std::optional<Range<Seconds>> time_of(const std::optional<TimeEstimate>& estimate) {
  if (!estimate) return std::nullopt;
  return estimate->time;
}

}  // namespace

Point Verifier::measured(const PlanItem& item) {
  if (clock_() < end_) return measure(gpu_, item, rule_, clock_);
  Point point;
  point.item = item;
  point.failure = "left when the time was over";
  return point;
}

const Point& Verifier::point_of(const Op& op) {
  const PlanItem item = workload_item(op);
  const std::string key = operation_text(item.op);
  const auto known = points_.find(key);
  if (known != points_.end()) return known->second;
  return points_.emplace(key, measured(item)).first->second;
}

CheckedFinding Verifier::check(const Workload& workload, const Finding& finding,
                               const TimeModel& model) {
  CheckedFinding checked;
  checked.ops = finding.changes.size();
  Seconds before, after;
  for (const ChangedOp& change : finding.changes) {
    const Op& op = workload.ops[change.op];
    const Point& old_point = point_of(op);
    const Point& new_point = point_of(change.after);
    if (!old_point.measured() || !new_point.measured()) continue;
    const double runs = static_cast<double>(op.count);
    ++checked.measured_ops;
    before += runs * old_point.summary.median;
    after += runs * new_point.summary.median;
    const auto old_time = model.estimate(op), new_time = model.estimate(change.after);
    if (old_time && new_time) checked.predicted += estimate_saving(*old_time, *new_time) * runs;
  }
  if (checked.measured_ops > 0) {
    checked.before = before;
    checked.after = after;
  }
  return checked;
}

Verification Verifier::verify(const Workload& workload, const std::vector<Finding>& findings,
                              const TimeModel& model) {
  Verification result;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Point& point = point_of(workload.ops[i]);
    CheckedOp op;
    op.op = i;
    op.predicted = time_of(model.estimate(workload.ops[i]));
    if (point.measured()) op.measured = point.summary.median;
    op.kernel = point.kernel;
    op.failure = point.failure;
    result.ops.push_back(std::move(op));
  }
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (findings[i].changes.empty()) {
      ++result.unmeasurable_findings;
      continue;
    }
    result.findings.push_back(check(workload, findings[i], model));
    result.findings.back().finding = i;
  }
  return result;
}

}  // namespace rooftile::gpu
