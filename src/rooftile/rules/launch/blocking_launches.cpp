#include <fmt/format.h>

#include "rooftile/analysis/source/environment.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace blocking_launches {

constexpr std::string_view kDoc = R"md(
## What it finds
`CUDA_LAUNCH_BLOCKING` set to 1 by a program that trains on a GPU.

## Why it costs time
The host waits after each kernel. Nothing is queued, so the time of every launch adds to the step.

## How to fix
Remove the line; set the variable in the shell for a debugging run.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Under a debugging flag that is off by default.

## Evidence
- CUDA C++ Programming Guide, "Concurrent Execution between Host and Device": set
  CUDA_LAUNCH_BLOCKING to 1 for debugging only.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const EnvironmentSetting& setting : environment_settings(facts, "CUDA_LAUNCH_BLOCKING")) {
    const Value value = facts.value(setting.value);
    if (!value.is("1") && !value.is(1)) continue;
    Fix fix{"Remove the line, and set the variable in the shell when debugging",
            Exactness::bit_exact};
    add_edit(remove_statement(*setting.statement), fix);
    fix.safe = !fix.edits.empty();
    Finding finding =
        finding_at(*setting.statement,
                   "CUDA_LAUNCH_BLOCKING=1: the host waits for the end of every single kernel",
                   std::move(fix));
    finding.evidence = {Evidence::published(
        "for debugging only",
        "CUDA C++ Programming Guide, Concurrent Execution between Host and Device")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace blocking_launches

extern const Rule launch_blocking_launches{.id = "launch/blocking-launches",
                                           .level = Level::warning,
                                           .cause = Cause::none,
                                           .typical = Typical::half,
                                           .summary = "CUDA_LAUNCH_BLOCKING=1 is set",
                                           .doc = blocking_launches::kDoc,
                                           .in_scripts = blocking_launches::find};

}  // namespace rooftile
