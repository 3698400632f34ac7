#include <fmt/format.h>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace mask_indexing {

constexpr std::string_view kDoc = R"md(
## What it finds
Reading `x[mask]` in the hot path, with a mask that a comparison computes on the GPU.

## Why it costs time
The size of the result depends on the values of the mask: the host waits for the GPU to learn it.

## How to fix
`torch.where(mask, x, 0)`, or `(x * mask).sum() / mask.sum()` for a masked mean. Assignments
become `masked_fill_` or `torch.where`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Few elements are selected and much work follows on them: then the smaller result pays.
- `x[mask] = constant` is run as masked_fill and waits for nothing.

## Evidence
- PyTorch documentation, `torch.nonzero`: indexing with a mask runs it inside.
)md";

using namespace source;

// A comparison of GPU tensors, or a name for one.
bool is_mask(const Expr* index) {
  const Expr* made = resolved(index);
  return made != nullptr && made->kind == ExprKind::comparison && is_gpu_value(made);
}

bool is_stored_to(const Expr& part, const Statement& statement) {
  return statement.kind == StatementKind::assignment && statement.target == &part;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Statement* statement : file->statements) {
      const Expr* masked = nullptr;
      for_own_expressions(*statement, [&](const Expr* expr) {
        visit(expr, [&](const Expr& part) {
          const bool is_subscript = part.kind == ExprKind::subscript && part.children().size() == 2;
          if (is_subscript && !is_stored_to(part, *statement) && is_mask(part.children()[1])) {
            masked = &part;
          }
          return masked == nullptr;
        });
      });
      if (masked == nullptr || !is_hot(facts, *statement)) continue;
      Finding finding = finding_at(
          *file, masked->range.begin, "step",
          fmt::format("`{}` selects by a mask: the host waits for the GPU to learn how many",
                      code_text(*file, masked)),
          {"Use torch.where, or multiply by the mask, which keep the size fixed",
           Exactness::exact_arithmetic});
      finding.evidence = {Evidence::published("on CUDA it waits for the device",
                                              "PyTorch documentation, torch.nonzero")};
      add_step(facts, *statement, finding);
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace mask_indexing

extern const Rule launch_mask_indexing{
    .id = "launch/mask-indexing",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Boolean mask indexing forces a sync in every step",
    .doc = mask_indexing::kDoc,
    .in_scripts = mask_indexing::find};

}  // namespace rooftile
