#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace training_loop_anomaly_detection_on_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.autograd.set_detect_anomaly(True)` or `torch.autograd.detect_anomaly()` in a program that
trains on a GPU, without a debug flag around it.

## Why it costs time
Each backward function checks its results for NaN, which makes the host wait for the GPU, and each
forward operation records a Python stack.

## How to fix
Remove it, or guard it by an option that is off by default.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- A flag that is off by default is around it.
- Tests.

## Evidence
- PyTorch performance tuning guide, "Disable debugging APIs".
)md";

using namespace source;

// `with detect_anomaly():` around code that neither runs backward nor stands in or around a loop
// that trains: one pass to look at.
bool surrounds_no_training(const Call& call) {
  const Statement* around = call.statement;
  if (around->kind != StatementKind::with_) return false;
  const auto runs_backward = [](const Call& inner) {
    return inner.method == "backward" || inner.method == "manual_backward" ||
           inner.name == "torch.autograd.grad";
  };
  return std::ranges::none_of(calls_inside(*around), [&](const Call* inner) {
    if (runs_backward(*inner)) return true;
    // What is not seen may train.
    if (inner->target == nullptr) return is_one_of(inner->method, {"fit", "train", "step"});
    return any_call_below(*inner->target, kMaxCallDepth, runs_backward);
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call :
       training_calls(facts, {"torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly",
                              "torch.autograd.anomaly_mode.set_detect_anomaly",
                              "torch.autograd.anomaly_mode.detect_anomaly"})) {
    const bool is_switch = call->method == "set_detect_anomaly";
    if (is_switch && !facts.argument(*call, "mode", 0).is_true()) continue;
    const bool is_alone = call->statement->value == call->expr;
    // A context manager that nothing enters does nothing.
    const bool is_left = is_alone && call->statement->kind == StatementKind::expression;
    if (!is_switch && (is_left || surrounds_no_training(*call))) continue;
    Fix fix{"Remove it once the NaN is found, or put it behind a debug flag", Exactness::bit_exact};
    if (is_switch && is_alone) add_edit(remove_statement(*call->statement), fix);
    Finding finding = finding_at(
        *call,
        "anomaly detection stays on for the whole training: every backward is checked for NaN and "
        "every forward records its stack",
        std::move(fix));
    finding.evidence = {
        Evidence::published("PyTorch performance tuning guide, Disable debugging APIs"),
        Evidence::published("slows execution",
                            "PyTorch documentation, torch.autograd.detect_anomaly")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace training_loop_anomaly_detection_on_rule

extern const Rule training_loop_anomaly_detection_on{
    .id = "training_loop/anomaly-detection-on",
    .level = Level::warning,
    .cause = Cause::none,
    .typical = Typical::half,
    .summary = "Anomaly detection is enabled during training",
    .doc = training_loop_anomaly_detection_on_rule::kDoc,
    .in_scripts = training_loop_anomaly_detection_on_rule::find};

}  // namespace rooftile
