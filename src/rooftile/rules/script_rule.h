// How a rule joins what it says of training scripts with what it says of operations.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rooftile/rules/rule.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

using ScriptCheck = std::vector<Finding> (*)(const source::SourceFacts&);

// `findings` and those of the scripts, if there are any, behind them; what two programs say of one
// place counts once. `level` is the level of the latter where it is not the rule's.
inline std::vector<Finding> with_scripts(const RuleInput& input, std::vector<Finding> findings,
                                         ScriptCheck check, std::optional<Level> level = {}) {
  if (input.workload.source == nullptr) return findings;
  std::set<std::tuple<std::string, std::int64_t, std::int64_t, std::string>> said;
  for (Finding& finding : check(*input.workload.source)) {
    const SourceSpot& spot = finding.spot;
    if (!said.emplace(finding.location.file, spot.line, spot.column, finding.message).second) {
      continue;
    }
    if (level) finding.own_level = level;
    findings.push_back(std::move(finding));
  }
  return findings;
}

// Of a rule that speaks of scripts only.
inline std::vector<Finding> check_scripts(const RuleInput& input, ScriptCheck check) {
  return with_scripts(input, {}, check);
}

}  // namespace rooftile
