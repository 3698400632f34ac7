#include <algorithm>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {
namespace precision_bce_inside_autocast_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`nn.BCELoss` or `F.binary_cross_entropy` called under CUDA autocast.

## Why it costs time
It does not: the call raises `RuntimeError: … unsafe to autocast`, because its backward may leave
the range of fp16.

## How to fix
Drop the sigmoid before it and use `nn.BCEWithLogitsLoss` or `F.binary_cross_entropy_with_logits`.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- Inside `with torch.autocast("cuda", enabled=False)`, with inputs in fp32.
- Autocast for the CPU.

## Evidence
- PyTorch documentation, torch.amp, "Prefer binary_cross_entropy_with_logits over
  binary_cross_entropy".
)md";

using namespace source;

bool is_bce(const Call& call) {
  if (call.name == "torch.nn.functional.binary_cross_entropy") return true;
  const Type& callee = *call.expr->children().front()->type;
  if (callee.made_by == nullptr) return false;
  const bool is_instance = callee.is(TypeKind::loss) || callee.is(TypeKind::module);
  return is_instance && callee.made_by->name == "torch.nn.BCELoss";
}

// The else of `if self.fp16:`, whichever way the caller came: autocast is on with the same switch.
bool is_without_switch(const Guard& guard) {
  return guard.negated &&
         contains_any(lower(last_name(guard.expr)), {"fp16", "amp", "half", "mixed"});
}

bool is_under_autocast(const SourceFacts& facts, const Call& call) {
  if (!leads_there(facts, call, is_without_switch)) return false;
  return any_way(facts, call, [&](const Way& way) {
    const auto around = autocast_around(facts, way);
    return around && around->on_gpu && !around->is_off;
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!mentions(*file, {"BCELoss", "binary_cross_entropy"}) || !trains_on_gpu(facts, *file)) {
      continue;
    }
    for (const Call* call : file->calls) {
      if (!is_bce(*call) || !is_under_autocast(facts, *call)) continue;
      Finding finding = finding_at(
          *call, "binary cross entropy of probabilities raises RuntimeError under CUDA autocast",
          {"Drop the sigmoid and use binary_cross_entropy_with_logits (nn.BCEWithLogitsLoss), "
           "which "
           "is safe in fp16",
           Exactness::exact_arithmetic});
      finding.evidence = {Evidence::published(
          "PyTorch torch.amp, Prefer binary_cross_entropy_with_logits over binary_cross_entropy")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_bce_inside_autocast_rule

extern const Rule precision_bce_inside_autocast{
    .id = "precision/bce-inside-autocast",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Binary cross entropy of probabilities runs under autocast",
    .doc = precision_bce_inside_autocast_rule::kDoc,
    .in_scripts = precision_bce_inside_autocast_rule::find};

}  // namespace rooftile
