#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace iterator_restarted_each_step {

constexpr std::string_view kDoc = R"md(
## What it finds
`next(iter(loader))` inside a training loop, with the loader made outside of it.

## Why it costs time
Each call starts the workers, prefetches several batches and throws all but the first away. With
shuffling, the epoch is never finished either.

## How to fix
Make the iterator once, `batches = iter(loader)`, and call `next(batches)`; on StopIteration make
it anew.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- After StopIteration, or under a test that the iterator is used up.

## Evidence
- PyTorch documentation, `torch.utils.data`, "Multi-process data loading": each time an iterator
  is created the workers are created.
)md";

using namespace source;

const Call* iterated_loader(const Call& call) {
  if (call.arguments.empty()) return nullptr;
  const Call* inner = call.arguments.front().value->call();
  if (inner == nullptr || inner->name != "iter" || inner->arguments.empty()) return nullptr;
  const Expr* loader = inner->arguments.front().value;
  const bool is_named = last_name(loader).find("loader") != std::string_view::npos;
  return loader->type->is(TypeKind::loader) || is_named ? inner : nullptr;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : facts.calls("next")) {
    const Call* inner = iterated_loader(*call);
    if (inner == nullptr || !is_in_step_loop(facts, *call)) continue;
    const Expr* loader = inner->arguments.front().value;
    if (loader->call() != nullptr) continue;
    const std::string name = code_text(*call->file, loader);
    Finding finding = finding_at(
        *call,
        fmt::format("`next(iter({}))` restarts the workers in every step, and all batches but "
                    "the first are thrown away",
                    name),
        {fmt::format("Make the iterator before the loop (batches = iter({})), call next(batches), "
                     "and remake it on StopIteration",
                     name),
         Exactness::changes_training});
    finding.evidence = {Evidence::published(
        "worker processes are created each time an iterator of a DataLoader is created",
        "PyTorch documentation, torch.utils.data")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace iterator_restarted_each_step

extern const Rule input_pipeline_iterator_restarted_each_step{
    .id = "input_pipeline/iterator-restarted-each-step",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Each step restarts the DataLoader for one batch",
    .doc = iterator_restarted_each_step::kDoc,
    .in_scripts = iterator_restarted_each_step::find};

}  // namespace rooftile
