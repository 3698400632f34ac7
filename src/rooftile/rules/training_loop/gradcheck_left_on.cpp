#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {
namespace training_loop_gradcheck_left_on_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.autograd.gradcheck` or `gradgradcheck` in a program with a training loop.

## Why it costs time
It evaluates the function twice for every element of its inputs, in float64.

## How to fix
Move it into a test.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Tests, and files that define operators and check them when run.
- A flag that is off by default is around it.

## Evidence
- PyTorch performance tuning guide, "Disable debugging APIs".
)md";

using namespace source;

// Under the main guard of a file that does not train: it tests the operators of the file.
bool is_self_test(const SourceFacts& facts, const Call& call) {
  const bool trains = std::ranges::any_of(call.file->loops, [](const Loop* loop) {
    return loop->role == LoopRole::training_step || loop->role == LoopRole::epoch;
  });
  return !trains && !leads_there(facts, call, [](const Guard& guard) {
    return guard.kind == GuardKind::main && !guard.negated;
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call :
       training_calls(facts, {"torch.autograd.gradcheck", "torch.autograd.gradgradcheck",
                              "torch.autograd.gradcheck.gradcheck",
                              "torch.autograd.gradcheck.gradgradcheck"})) {
    const auto programs = training_programs_of(facts, *call->file);
    const bool has_loop = std::any_of(programs.begin(), programs.end(), [](const Program* program) {
      return !program->training_loops.empty();
    });
    if (!has_loop || is_self_test(facts, *call)) continue;
    Finding finding = finding_at(
        *call,
        fmt::format("{} runs in the training program: two evaluations for every input element, in "
                    "float64",
                    call->method),
        {"Move it into a test", Exactness::bit_exact});
    finding.evidence = {
        Evidence::published("PyTorch performance tuning guide, Disable debugging APIs")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace training_loop_gradcheck_left_on_rule

extern const Rule training_loop_gradcheck_left_on{
    .id = "training_loop/gradcheck-left-on",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Training program runs gradcheck",
    .doc = training_loop_gradcheck_left_on_rule::kDoc,
    .in_scripts = training_loop_gradcheck_left_on_rule::find};

}  // namespace rooftile
