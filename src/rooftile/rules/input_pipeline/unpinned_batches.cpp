#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/script_rule.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unpinned_batches {

constexpr std::string_view kDoc = R"md(
## What it finds
A `DataLoader` without `pin_memory=True` whose batches a training or evaluation loop, or
Lightning, copies to a GPU.

## Why it costs time
The driver first copies pageable memory to a pinned buffer: the copy takes longer, and the host
waits for it even with `non_blocking=True`.

## How to fix
`pin_memory=True`; then copy with `.to(device, non_blocking=True)`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- The dataset lives on the GPU already.
- `pin_memory` is computed from `torch.cuda.is_available()`, or an option that is on by default.
- Frameworks that move the batches on their own.
- Host memory is short: pinned memory cannot be swapped out. Say so in a comment on the line.

## Evidence
- PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation".
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()".
)md";

using namespace source;

bool is_explained(const Call& loader) {
  const std::string_view text = loader.file->text;
  const std::size_t at = text.find("pin_memory", loader.open_paren);
  if (at == std::string_view::npos || at > loader.close_paren) return false;
  const std::size_t end = std::min(text.find('\n', at), text.size());
  return text.substr(at, end - at).find('#') != std::string_view::npos;
}

bool is_unpinned(const SourceFacts& facts, const Call& loader) {
  const bool is_graph = loader.name.starts_with("torch_geometric.");
  const Value pinned = facts.argument(loader, "pin_memory", is_graph ? -1 : 7);
  if (loader.argument("pin_memory_device") != nullptr || loader.unknown_arguments) return false;
  if (is_set_by_default(facts, pinned)) return false;
  return pinned.absent() || (pinned.is_false() && !is_explained(loader));
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* loader : training_loaders(facts)) {
    if (!is_unpinned(facts, *loader) || is_taken_over(facts, *loader->file)) continue;
    if (has_gpu_samples(facts, *loader) || !moves_batches(facts, *loader)) continue;
    Fix fix{
        "Set pin_memory=True, and copy with non_blocking=True: the copy then runs beside the "
        "kernels",
        Exactness::bit_exact};
    const Argument* given = loader->argument("pin_memory", 7);
    if (given == nullptr) {
      add_edit(add_argument(*loader, "pin_memory", "True"), fix);
    } else if (given->value->kind == ExprKind::boolean) {
      add_edit(replace_argument(*loader, *given, "True"), fix);
    }
    fix.safe = !fix.edits.empty();
    Finding finding = finding_at(
        *loader, "pin_memory is off: each batch is copied to the GPU through pageable memory",
        std::move(fix));
    finding.evidence = {
        "PyTorch performance tuning guide, Enable asynchronous data loading and augmentation"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> check(const RuleInput& input) { return check_scripts(input, find); }

}  // namespace unpinned_batches

extern const Rule input_pipeline_unpinned_batches{
    .id = "input_pipeline/unpinned-batches",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "batches are copied to the GPU from pageable memory",
    .doc = unpinned_batches::kDoc,
    .check = unpinned_batches::check};

}  // namespace rooftile
