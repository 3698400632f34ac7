// The findings of an earlier run, so that only new ones are told.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/findings/report.h"

namespace rooftile {

struct Baseline {
  std::set<std::string> fingerprints;
};

// docs/formats/baseline.md. Errors: no JSON, another schema, an entry without a fingerprint.
Result<Baseline> parse_baseline(std::string_view text);
std::string render_baseline(const Report& report);

// Takes out the known findings and counts those that would be shown.
void set_aside_known(const Baseline& baseline, Report& report);

}  // namespace rooftile
