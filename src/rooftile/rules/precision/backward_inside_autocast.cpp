#include <fmt/format.h>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_backward_inside_autocast_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`backward()` inside a `with autocast` block or a function under autocast.

## Why it costs time
Backward operations already run in the dtype of their forward. Under autocast, custom backward
functions and gradient hooks are cast a second time, and the weight cache stays alive longer.

## How to fix
End the block after the loss is computed.

## How the saving is estimated
Not from the source alone. With a trace (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Autocast is off by a literal.
- Autocast for the CPU only.

## Evidence
- PyTorch documentation, `torch.autocast`: "Backward passes under autocast are not recommended.
  Backward ops run in the same type that autocast used for corresponding forward ops."
)md";

using namespace source;

std::optional<Autocast> region_around(const SourceFacts& facts, const Call& call) {
  for (const Way& way : ways_to(facts, call)) {
    const auto around = autocast_around(facts, way);
    if (!around || !around->on_gpu || around->is_off) continue;
    // Code that measures or checks a model may be called under autocast on purpose.
    const bool is_here = around->call != nullptr && around->call->function == call.function;
    if (is_here || way.trains()) return around;
  }
  return std::nullopt;
}

bool is_backward_of_loss(const Call& call) {
  if (call.receiver == nullptr || call.target != nullptr) return false;
  const Type& type = call.receiver_type();
  return type.is(TypeKind::tensor) || type.is(TypeKind::unknown);
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : facts.method_calls("backward")) {
    if (!is_backward_of_loss(*call) || !trains_on_gpu(facts, *call->file)) continue;
    const auto around = region_around(facts, *call);
    if (!around) continue;
    Finding finding =
        finding_at(*call, fmt::format("{}.backward() runs under autocast", receiver_text(*call)),
                   {"Move backward out of the autocast block: end the block after the loss",
                    Exactness::exact_arithmetic});
    if (around->call != nullptr) {
      finding.evidence.push_back(
          Evidence::found(fmt::format("autocast at {}", place_text(*around->call, *call->file))));
    }
    finding.evidence.push_back(Evidence::published(
        "\"Backward passes under autocast are not recommended\"", "PyTorch torch.autocast"));
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace precision_backward_inside_autocast_rule

extern const Rule precision_backward_inside_autocast{
    .id = "precision/backward-inside-autocast",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Backward runs inside the autocast region",
    .doc = precision_backward_inside_autocast_rule::kDoc,
    .in_scripts = precision_backward_inside_autocast_rule::find};

}  // namespace rooftile
