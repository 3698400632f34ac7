#include <fmt/format.h>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace partial_last_batch {

constexpr std::string_view kDoc = R"md(
## What it finds
A training `DataLoader` without `drop_last=True` in a program that compiles its model or sets
`cudnn.benchmark`.

## Why it costs time
A new size is compiled for, or measured by cuDNN, once more in each epoch that meets it first.

## How to fix
`drop_last=True` for training.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Data sets that are small, or whose size is a multiple of the batch size.

## Evidence
- PyTorch documentation, `torch.backends.cudnn.benchmark`; `torch.compile`, "Dynamic shapes".
)md";

using namespace source;

bool is_tuned_by_shape(const SourceFacts& facts, const File& file) {
  for (const Program* program : training_programs_of(facts, file)) {
    if (!calls_in(facts, *program, {"torch.compile"}).empty()) return true;
    for (const Statement* one : facts.assignments("torch.backends.cudnn.benchmark")) {
      if (program->has(*one->file) && facts.value(one->value).is_true()) return true;
    }
  }
  return false;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* loader : training_loaders(facts)) {
    const Value dropped = facts.argument(*loader, "drop_last", 8);
    if (!dropped.absent() && !dropped.is_false()) continue;
    if (loader->unknown_arguments || !is_for_training(facts, *loader)) continue;
    if (!is_tuned_by_shape(facts, *loader->file)) continue;
    Fix fix{"Set drop_last=True, so that all batches have one size", Exactness::changes_training};
    if (dropped.absent()) add_edit(add_argument(*loader, "drop_last", "True"), fix);
    Finding finding = finding_at(
        *loader, "the last batch of each epoch may be smaller: kernels are chosen again for it",
        std::move(fix));
    finding.evidence = {
        Evidence::published("PyTorch documentation, torch.backends.cudnn.benchmark")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace partial_last_batch

extern const Rule input_pipeline_partial_last_batch{
    .id = "input_pipeline/partial-last-batch",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Last batch of an epoch has another size",
    .doc = partial_last_batch::kDoc,
    .in_scripts = partial_last_batch::find};

}  // namespace rooftile
