#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {

namespace training_loop_zeroed_gradients_in_trace {
std::vector<Finding> check(std::span<const TraceSummary> ranks);
}

namespace training_loop_zeroed_gradients_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a script: `zero_grad(set_to_none=False)`, or a loop over the parameters with `p.grad.zero_()`, in a
  training loop on the GPU.
- In a trace: a visible share of the step spent in filling gradients with zeros in `zero_grad`, on the GPU or in
  waiting for the launches. Where `zero_grad` was not recorded, the kernels of `AccumulateGrad`, which adds only where
  a gradient exists already.

## Why it costs time
Every gradient is written once, and the backward pass then reads and adds to it instead of just
writing it. By hand it is also one kernel for each tensor: for many small parameters the launches cost as much.

## How to fix
`optimizer.zero_grad(set_to_none=True)`, the default since PyTorch 2.0.

## How the saving is estimated
From a trace: the kernel and fill time inside the ranges called `zero_grad`, less what may have run beside other
work, and the GPU's idle time that launching them causes; at the low end half of that. Where the backward pass adds
no more often than zeros are written, what its additions take counts too. From a script alone
nothing is estimated.

## When not to
- Code that reads `.grad` without a test for None sees None where no backward pass came before.
- Optimizers skip parameters without a gradient; with zeros they still decay them.

## Evidence
- PyTorch Performance Tuning Guide, "Use parameter.grad = None instead of model.zero_grad() or
  optimizer.zero_grad()".
- PyTorch `torch/profiler/_pattern_matcher.py`, GradNotSetToNonePattern.
)md";

using namespace source;

// Code that reads .grad without a test for None would fail on dropped gradients.
bool reads_gradients(const File& file) {
  const std::string_view text = file.text;
  bool reads = false;
  for (std::size_t at = text.find(".grad"); at != std::string_view::npos;
       at = text.find(".grad", at + 1)) {
    const char next = at + 5 < text.size() ? text[at + 5] : ' ';
    if (std::isalnum(static_cast<unsigned char>(next)) != 0 || next == '_' || next == '(') continue;
    const std::string_view rest = text.substr(at + 5, 16);
    const bool is_zeroing = rest.starts_with(".zero_") || rest.starts_with(".data.zero_") ||
                            rest.starts_with(".detach_") || rest.starts_with(" = None");
    const bool is_test = rest.starts_with(" is not None") || rest.starts_with(" is None") ||
                         rest.starts_with(" != None") || rest.starts_with(":");
    reads = reads || (!is_zeroing && !is_test);
  }
  return reads && text.find("grad is not None") == std::string_view::npos &&
         text.find("grad is None") == std::string_view::npos;
}

bool is_in_training(const SourceFacts& facts, const Statement& statement) {
  return any_way(facts, statement,
                 [](const Way& way) { return way.trains() && !way.is_off_by_default; });
}

Finding with_evidence(Finding finding) {
  finding.evidence = {
      Evidence::published("PyTorch performance tuning guide, Use parameter.grad = "
                          "None instead of model.zero_grad()"),
      Evidence::published("set_to_none is the default since 2.0",
                          "PyTorch documentation, torch.optim.Optimizer.zero_grad")};
  return finding;
}

void check_arguments(const SourceFacts& facts, std::vector<Finding>& findings) {
  for (const Call* call : facts.method_calls("zero_grad")) {
    const Argument* argument = call->argument("set_to_none", 0);
    if (argument == nullptr || argument->unpacked) continue;
    const Value asked = facts.argument(*call, "set_to_none", 0);
    // An own zero_grad(models) has another first parameter.
    const bool is_own = call->target != nullptr && argument->name.empty();
    if (asked.kind != ValueKind::boolean || asked.boolean || is_own) continue;
    if (!trains_on_gpu(facts, *call->file) || reads_gradients(*call->file)) continue;
    if (!is_in_training(facts, *call->statement)) continue;
    Fix fix{"Write set_to_none=True: backward then writes the first gradient in place of adding it",
            Exactness::bit_exact};
    add_edit(replace_argument(*call, *argument, "True"), fix);
    findings.push_back(with_evidence(finding_at(
        *call,
        fmt::format(
            "{}.zero_grad fills every gradient with zeros, and backward reads them again to "
            "add to them",
            receiver_text(*call)),
        std::move(fix))));
  }
}

bool lists_weights(const Expr* iterable) {
  return any_inside(iterable, [&](const Expr& part) {
    const std::string_view name = last_name(&part);
    return name == "params" || name.ends_with("parameters") || name.ends_with("_params");
  });
}

// `if p.grad is not None`, `if p.requires_grad`; a test of values picks the odd gradient.
bool asks_for_gradient(const Expr* condition) {
  bool reads = false, asks = false;
  visit(condition, [&](const Expr& part) {
    reads = reads || (part.call() != nullptr && part.call()->name != "hasattr");
    asks = asks || part.kind == ExprKind::none ||
           is_one_of(last_name(&part), {"grad", "requires_grad", "hasattr"});
    return true;
  });
  return asks && !reads;
}

// `for p in model.parameters(): p.grad.zero_()`, with or without an if around it.
void check_loops(const SourceFacts& facts, const File& file, std::vector<Finding>& findings) {
  for (const Call* call : file.calls) {
    const bool zeroes = call->method == "zero_" && uses_name(call->receiver, {"grad"});
    if (!zeroes) continue;
    const Statement* loop = call->statement->parent;
    while (loop != nullptr && loop->kind == StatementKind::if_ && asks_for_gradient(loop->value)) {
      loop = loop->parent;
    }
    const bool is_loop = loop != nullptr && loop->kind == StatementKind::for_;
    if (!is_loop || !lists_weights(loop->value)) continue;
    if (!is_in_training(facts, *call->statement) || reads_gradients(file)) continue;
    findings.push_back(with_evidence(finding_at(
        *call, "a Python loop writes zeros into every gradient: one kernel for each tensor",
        {"Replace the loop by optimizer.zero_grad(), which drops the gradients",
         Exactness::bit_exact})));
  }
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  check_arguments(facts, findings);
  for (const auto& file : facts.files) {
    if (trains_on_gpu(facts, *file)) check_loops(facts, *file, findings);
  }
  return findings;
}

}  // namespace training_loop_zeroed_gradients_rule

extern const Rule training_loop_zeroed_gradients{
    .id = "training_loop/zeroed-gradients",
    .former_id = "training_loop/zero-grad-fills",
    .level = Level::info,
    .level_in_traces = Level::warning,
    .cause = Cause::none,
    .summary = "Gradients are filled with zeros instead of set to None",
    .doc = training_loop_zeroed_gradients_rule::kDoc,
    .in_any_trace = training_loop_zeroed_gradients_in_trace::check,
    .in_scripts = training_loop_zeroed_gradients_rule::find};

}  // namespace rooftile
