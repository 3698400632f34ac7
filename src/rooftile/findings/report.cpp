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

}  // namespace rooftile
