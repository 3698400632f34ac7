// Findings that comments in the scripts allow: `# rooftile: allow precision/amp-off -- small
// model`.
#pragma once

#include <span>

#include "rooftile/findings/report.h"
#include "rooftile/rules/rule.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Takes out the allowed findings and counts them. A comment holds for its line and for the
// statement on it, of a compound one for its head; on a line of its own, for the statement below.
// Comments that are malformed or name no rule become notes. `rules` are those that were run: only
// of them can be told that a comment is not needed.
void set_aside_allowed(const SourceFacts& facts, std::span<const Rule* const> rules,
                       Report& report);

}  // namespace rooftile
