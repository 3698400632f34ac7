#include <fmt/format.h>

#include "rooftile/analysis/source/environment.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace blocking_launches {

constexpr std::string_view kDoc = R"md(
## What it finds
In a script: `CUDA_LAUNCH_BLOCKING` set to 1 by a program that trains on a GPU.

In a trace: nearly every launch call returns after its kernel has ended, kernels of 100 µs and more among them.

## Why it costs time
The host waits after each kernel. Nothing is queued, so the time of every launch adds to the step.

## How to fix
Remove the line; set the variable in the shell for a debugging run. A trace that was recorded so is to be recorded
again: its idle time is not that of a run without it, and what launches cost is not judged.

## How the saving is estimated
Nothing is estimated: what host and GPU do at the same time without the variable the trace does not show.

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

std::vector<TraceCase> judge(const TraceSummary& trace) {
  if (!trace.launches_block) return {};
  Finding finding = about_trace(trace,
                                "every launch call returns after its kernel has ended: the host "
                                "and the GPU never work at the "
                                "same time, as under CUDA_LAUNCH_BLOCKING=1 or in a debugger",
                                {"Unset CUDA_LAUNCH_BLOCKING and record again: the idle time of "
                                 "this recording is not that of "
                                 "a run without it",
                                 Exactness::bit_exact},
                                std::nullopt);
  finding.evidence = {
      Evidence::measured(count_text(trace, trace.launches, "launch call")),
      Evidence::published(
          "for debugging only",
          "CUDA C++ Programming Guide, Concurrent Execution between Host and Device")};
  std::vector<TraceCase> cases;
  cases.push_back({"", std::move(finding)});
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace blocking_launches

extern const Rule launch_blocking_launches{.id = "launch/blocking-launches",
                                           .level = Level::warning,
                                           .cause = Cause::none,
                                           .typical = Typical::half,
                                           .summary = "CUDA_LAUNCH_BLOCKING=1 is set",
                                           .doc = blocking_launches::kDoc,
                                           .in_any_trace = blocking_launches::check,
                                           .in_scripts = blocking_launches::find};

}  // namespace rooftile
