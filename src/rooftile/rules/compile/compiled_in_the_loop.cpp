#include <fmt/format.h>

#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {
namespace compiled_in_the_loop {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.compile(...)` called inside the step loop or the epoch loop of the training.

## Why it costs time
Each call makes a new wrapper with caches of its own. At best the compilation is found in a cache on
disk; at worst it runs again, which takes a minute or more.

## How to fix
Compile once before the loops.

## How the saving is estimated
Not from the source alone; the wall time of the first step after each call shows it.

## When not to
- Under a condition that holds once, such as a warm-up phase.

## Evidence
- PyTorch documentation, `torch.compile`: compiled results are cached per wrapped function.
)md";

using namespace source;

// The loop around the call, in its own function, that repeats it; null under a condition.
const Loop* loop_around(const Call& call) {
  for (const Statement* at = call.statement; at != nullptr; at = at->parent) {
    if (at != call.statement &&
        (at->kind == StatementKind::if_ || at->kind == StatementKind::handler ||
         at->function_def != nullptr)) {
      return nullptr;
    }
    if (at->loop == nullptr) continue;
    const bool is_training =
        at->loop->role == LoopRole::training_step || at->loop->role == LoopRole::epoch;
    if (is_training) return at->loop;
  }
  return nullptr;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : compile_calls(facts)) {
    if (!trains_on_gpu(facts, *call->file) || !is_reached_by_default(facts, *call)) continue;
    const Loop* loop = loop_around(*call);
    const bool is_called = loop == nullptr && in_each_training_step(facts, *call);
    if (loop == nullptr && !is_called) continue;
    const bool is_epoch = loop != nullptr && loop->role == LoopRole::epoch;
    Finding finding = finding_at(
        *call,
        fmt::format("torch.compile is called again on every {}", is_epoch ? "epoch" : "step"),
        {"Compile once, before the training loops", Exactness::bit_exact});
    finding.evidence = {
        loop != nullptr
            ? Evidence::found(fmt::format("loop at {}", place_text(*loop->statement, *call->file)))
            : Evidence::found("its function is called on every step"),
        Evidence::published("caches belong to the wrapped function",
                            "PyTorch documentation, torch.compile")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace compiled_in_the_loop

extern const Rule compile_compiled_in_the_loop{
    .id = "compile/compiled-in-the-loop",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "torch.compile called on every step or epoch",
    .doc = compiled_in_the_loop::kDoc,
    .in_scripts = compiled_in_the_loop::find};

}  // namespace rooftile
