#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace workers_restarted_each_epoch {

constexpr std::string_view kDoc = R"md(
## What it finds
A `DataLoader` with workers that an epoch loop iterates, without `persistent_workers=True`.

## Why it costs time
Every epoch starts the processes again and imports the libraries in each; the first batch comes
seconds later.

## How to fix
`persistent_workers=True`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Few long epochs.
- Datasets that must be created anew in each epoch.

## Evidence
- PyTorch documentation, `torch.utils.data.DataLoader`, persistent_workers.
)md";

using namespace source;

bool is_in_epochs(const SourceFacts& facts, const Call& loader) {
  const auto loops = loops_over(facts, loader);
  return std::any_of(loops.begin(), loops.end(), [&](const Loop* loop) {
    for (const Statement* outer = loop->statement->parent; outer != nullptr;
         outer = outer->parent) {
      if (outer->loop != nullptr && outer->loop->role == LoopRole::epoch) return true;
    }
    const FunctionDef* function = loop->function;
    return function != nullptr &&
           std::any_of(function->callers.begin(), function->callers.end(), [](const Call* caller) {
             for (const Statement* outer = caller->statement; outer != nullptr;
                  outer = outer->parent) {
               if (outer->loop != nullptr && outer->loop->role == LoopRole::epoch) return true;
             }
             return false;
           });
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* loader : training_loaders(facts)) {
    const Value workers = facts.argument(*loader, "num_workers", 5);
    const bool has_workers = workers.kind == ValueKind::integer && workers.integer > 0;
    const Value kept = facts.argument(*loader, "persistent_workers");
    if (!has_workers || !(kept.absent() || kept.is_false()) || loader->unknown_arguments) continue;
    if (!is_in_epochs(facts, *loader)) continue;
    Fix fix{"Set persistent_workers=True: the workers then live through all epochs",
            Exactness::exact_arithmetic};
    if (kept.absent()) add_edit(add_argument(*loader, "persistent_workers", "True"), fix);
    Finding finding = finding_at(
        *loader, fmt::format("{} workers restart in each epoch", workers.integer), std::move(fix));
    finding.evidence = {Evidence::published(
        "PyTorch documentation, torch.utils.data.DataLoader, persistent_workers")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace workers_restarted_each_epoch

extern const Rule input_pipeline_workers_restarted_each_epoch{
    .id = "input_pipeline/workers-restarted-each-epoch",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "DataLoader workers restart in every epoch",
    .doc = workers_restarted_each_epoch::kDoc,
    .in_scripts = workers_restarted_each_epoch::find};

}  // namespace rooftile
