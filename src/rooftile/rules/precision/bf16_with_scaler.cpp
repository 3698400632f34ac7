#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_bf16_with_scaler_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
An enabled `GradScaler` in a program whose autocast regions are all bf16.

## Why it costs time
bf16 has the exponents of fp32, so nothing underflows. Each step still multiplies, unscales and
checks all gradients, and `scaler.step` makes the host wait for the result of the check.

## How to fix
`GradScaler(enabled=False)`, which turns its methods into plain calls, or remove it.

## How the saving is estimated
Not from the source alone. With a trace (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- `enabled` depends on the dtype: `GradScaler(enabled=dtype == "float16")` is right.
- The dtype is chosen at run time between fp16 and bf16.

## Evidence
- PyTorch documentation, torch.amp, "Gradient Scaling".
- nanoGPT, `train.py`: `GradScaler(enabled=(dtype == 'float16'))`.
)md";

using namespace source;

// The one autocast that the finding names, where all of the program's are surely bf16.
const Call* only_bf16(const SourceFacts& facts, const Program& program) {
  const Call* found = nullptr;
  for (const Autocast& autocast : autocasts_in(facts, program)) {
    if (!autocast.on_gpu || autocast.is_off) continue;
    if (autocast.dtype != AutocastDtype::bf16) return nullptr;
    if (found == nullptr) found = autocast.call;
  }
  return found;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const Program* program : training_programs(facts)) {
    const Call* autocast = only_bf16(facts, *program);
    if (autocast == nullptr) continue;
    for (const Scaler& scaler : scalers_in(facts, *program)) {
      if (scaler.is_off || scaler.may_be_off || !seen.insert(scaler.call).second) continue;
      if (!is_reached_by_default(facts, *scaler.call)) continue;
      Fix fix{"Pass enabled=False, or take the scaler out: bf16 has the range of fp32",
              Exactness::exact_arithmetic};
      add_edit(add_argument(*scaler.call, "enabled", "False"), fix);
      Finding finding = finding_at(
          *scaler.call,
          "the scaler is on, but autocast runs in bf16: each step unscales all gradients and waits "
          "for a test for infinities",
          std::move(fix));
      finding.evidence = {
          Evidence::found(
              fmt::format("autocast in bf16 at {}", place_text(*autocast, *scaler.call->file))),
          Evidence::published("against underflow of fp16", "PyTorch torch.amp, Gradient Scaling")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

std::vector<Finding> find_for(const SourceFacts& facts, const Device* gpu) {
  // Without bf16 the region is to run in fp16, and the scaler is right.
  const bool has_bf16 = gpu == nullptr || gpu->has_tensor_cores(Dtype::bf16);
  return has_bf16 ? find(facts) : std::vector<Finding>{};
}

}  // namespace precision_bf16_with_scaler_rule

extern const Rule precision_bf16_with_scaler{
    .id = "precision/bf16-with-scaler",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "GradScaler is enabled although training runs in bf16",
    .doc = precision_bf16_with_scaler_rule::kDoc,
    .in_scripts = precision_bf16_with_scaler_rule::find_for};

}  // namespace rooftile
