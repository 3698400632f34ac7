#include "rooftile/findings/report.h"

#include <algorithm>

namespace rooftile {

std::string_view to_string(CheckVerdict verdict) {
  switch (verdict) {
    case CheckVerdict::findings:
      return "findings";
    case CheckVerdict::no_change_worth_making:
      return "no_change_worth_making";
    case CheckVerdict::not_judged:
      break;
  }
  return "not_judged";
}

CheckVerdict verdict_of(const Report& report) {
  const bool found = std::any_of(report.findings.begin(), report.findings.end(),
                                 [](const Finding& f) { return f.level > Level::info; });
  if (found) return CheckVerdict::findings;
  return report.not_judged_because.empty() ? CheckVerdict::no_change_worth_making
                                           : CheckVerdict::not_judged;
}

bool is_launch_bound(const Report& report) {
  constexpr double kProgram = 20;  // operations; fewer are a part of something else
  return is_sufficient(report.coverage) && report.launches >= kProgram &&
         report.host.expected > report.total.expected;
}

}  // namespace rooftile
