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

bool is_in_epoch(const Statement* statement) {
  for (; statement != nullptr; statement = statement->parent) {
    if (statement->loop != nullptr && statement->loop->role == LoopRole::epoch) return true;
  }
  return false;
}

bool is_in_epochs(const SourceFacts& facts, const Call& loader) {
  return std::ranges::any_of(loops_over(facts, loader), [](const Loop* loop) {
    return is_in_epoch(loop->statement->parent) ||
           (loop->function != nullptr &&
            std::ranges::any_of(loop->function->callers,
                                [](const Call* caller) { return is_in_epoch(caller->statement); }));
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
