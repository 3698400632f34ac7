#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_deprecated_amp_api_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.cuda.amp.autocast`, `torch.cuda.amp.GradScaler` and `apex.amp.initialize` in a program that
trains on a GPU.

## Why it costs time
It does not cost time. The old names print a warning, and apex knows neither bf16 autocast nor
current optimizers.

## How to fix
`torch.autocast("cuda", …)` and `torch.amp.GradScaler("cuda", …)`: the arguments stay the same.

## How the saving is estimated
Nothing is saved.

## When not to
- The program must run on PyTorch before 1.10 (`torch.autocast`) or 2.3 (`torch.amp.GradScaler`). It is
  not reported where requirements.txt, setup.py, pyproject.toml, environment.yml or the readme says so.

## Evidence
- PyTorch documentation, torch.amp: "torch.cuda.amp.autocast(args...) is deprecated".
- NVIDIA apex documentation, `apex.amp`.
)md";

using namespace source;

constexpr TorchVersion kAutocast{1, 10}, kGradScaler{2, 3};  // torch.autocast, torch.amp.GradScaler

bool is_old_autocast(std::string_view name) {
  return name == "torch.cuda.amp.autocast" || name == "torch.cuda.amp.autocast_mode.autocast";
}

// torch.autocast takes the device first and `enabled` third, so a positional argument cannot stay.
Fix autocast_fix(const Call& call) {
  Fix fix{"Write torch.autocast(\"cuda\", ...) with the same keyword arguments",
          Exactness::bit_exact};
  const bool has_positional =
      std::any_of(call.arguments.begin(), call.arguments.end(),
                  [](const Argument& one) { return one.name.empty() || one.unpacked; });
  if (has_positional || !binds_torch(*call.file)) return fix;
  const std::string_view rest = call.arguments.empty() ? "" : ", ";
  add_edit(replace(*call.file, {call.expr->range.begin, call.open_paren + 1},
                   fmt::format("torch.autocast(\"cuda\"{}", rest)),
           fix);
  fix.safe = !fix.edits.empty();
  return fix;
}

Fix scaler_fix(const Call& call) {
  Fix fix{
      "Write torch.amp.GradScaler(\"cuda\", ...) with the same arguments (PyTorch 2.3 and later)",
      Exactness::bit_exact};
  if (!binds_torch(*call.file)) return fix;
  const std::string_view rest = call.arguments.empty() ? "" : ", ";
  add_edit(replace(*call.file, {call.expr->range.begin, call.open_paren + 1},
                   fmt::format("torch.amp.GradScaler(\"cuda\"{}", rest)),
           fix);
  return fix;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call :
       facts.calls({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast",
                    "torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler",
                    "apex.amp.initialize"})) {
    if (!trains_on_gpu(facts, *call->file)) continue;
    const bool is_apex = call->name.starts_with("apex.");
    const TorchVersion since = is_old_autocast(call->name) ? kAutocast : kGradScaler;
    if (!is_apex && facts.runs_before(since)) continue;
    Fix fix = is_old_autocast(call->name) ? autocast_fix(*call) : scaler_fix(*call);
    if (is_apex) {
      fix = {"Use torch.autocast and torch.amp.GradScaler; apex.amp is no longer developed",
             Exactness::changes_numerics};
    }
    Finding finding =
        finding_at(*call,
                   fmt::format("{} is deprecated{}", call->name,
                               is_apex ? "" : ": PyTorch 2.4 and later warn about it"),
                   std::move(fix));
    finding.evidence = {
        is_apex ? Evidence::published("deprecated", "NVIDIA apex documentation, apex.amp")
                : Evidence::published("PyTorch documentation, torch.amp, deprecation notes")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace precision_deprecated_amp_api_rule

extern const Rule precision_deprecated_amp_api{
    .id = "precision/deprecated-amp-api",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Deprecated mixed-precision API",
    .doc = precision_deprecated_amp_api_rule::kDoc,
    .in_scripts = precision_deprecated_amp_api_rule::find};

}  // namespace rooftile
