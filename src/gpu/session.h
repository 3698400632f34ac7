// Measuring a plan, point by point, within a time budget.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "gpu/plan.h"
#include "gpu/statistics.h"

namespace rooftile::gpu {

// One measured operation, or why it could not be measured.
struct Point {
  PlanItem item;
  Summary summary;
  std::string kernel, failure;
  Conditions conditions;  // right after the last run

  bool measured() const { return failure.empty(); }
};

struct SessionOptions {
  StopRule rule;
  Seconds budget{1e9};         // no further point is begun after this
  std::set<std::string> done;  // operations (operation_text) that an earlier session measured
};

struct SessionCounts {
  std::size_t measured = 0, failed = 0;
  std::size_t known = 0;  // from an earlier session
  std::size_t left = 0;   // not reached within the budget
};

// Measures one operation on its own.
Point measure(Gpu& gpu, const PlanItem& item, const StopRule& rule, const Clock& clock);

// `keep` gets every point as soon as it is measured; its error ends the session.
Result<SessionCounts> run_plan(Gpu& gpu, const Plan& plan, const SessionOptions& options,
                               const Clock& clock,
                               const std::function<Result<void>(const Point&)>& keep);

}  // namespace rooftile::gpu
