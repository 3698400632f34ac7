// Predictions against measurements: a workload's operations, and what its findings promise.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/session.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/findings/finding.h"

namespace rooftile::gpu {

struct CheckedOp {
  std::size_t op = 0;                       // index in the workload
  std::optional<Range<Seconds>> predicted;  // of one run
  std::optional<Seconds> measured;          // of one run
  std::string kernel, failure;
};

// Times of all runs of a finding's operations that could be measured before and after.
struct CheckedFinding {
  std::size_t finding = 0;  // index
  std::size_t ops = 0, measured_ops = 0;
  Range<Seconds> predicted{};  // saving of the operations measured
  std::optional<Seconds> before, after;

  std::optional<Seconds> measured_saving() const {
    if (!before || !after) return std::nullopt;
    return *before - *after;
  }
};

struct Verification {
  std::vector<CheckedOp> ops;
  std::vector<CheckedFinding> findings;  // those that change operations
  std::size_t unmeasurable_findings = 0;
};

// Each different operation is measured once; equal ones share its time. After `budget` no further
// one is begun.
class Verifier {
 public:
  Verifier(Gpu& gpu, StopRule rule, Clock clock, Seconds budget = Seconds(1e9))
      : gpu_(gpu), rule_(rule), clock_(std::move(clock)), end_(clock_() + budget) {}

  Verification verify(const Workload& workload, const std::vector<Finding>& findings,
                      const TimeModel& model);

 private:
  const Point& point_of(const Op& op);
  Point measured(const PlanItem& item);
  CheckedFinding check(const Workload& workload, const Finding& finding, const TimeModel& model);

  Gpu& gpu_;
  StopRule rule_;
  Clock clock_;
  Seconds end_;
  std::map<std::string, Point> points_;
};

}  // namespace rooftile::gpu
