#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace training_loop_graph_kept_after_backward_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`backward(retain_graph=True)` with no second backward or `autograd.grad` after it in the iteration.

## Why it costs time
The activations of the step are alive while the next forward makes new ones, so the peak of memory
is nearly twice as high, and the batch smaller than it could be.

## How to fix
Remove the argument. If PyTorch then says that it goes backward a second time, a tensor is carried
from step to step: detach it there.

## How the saving is estimated
Memory, not time: nothing is estimated.

## When not to
- Several losses share a forward, each with its own backward; only the last one needs no graph.
- A hidden state is carried over steps on purpose.

## Evidence
- PyTorch documentation, `torch.Tensor.backward`, argument retain_graph.
)md";

using namespace source;

const Argument* keeps_graph(const SourceFacts& facts, const Call& call) {
  for (const std::string_view name : {"retain_graph", "retain_variables"}) {
    const Argument* argument = call.argument(name);
    if (argument != nullptr && facts.argument(call, name).is_true()) return argument;
  }
  return nullptr;
}

bool goes_backward(const Call& call) {
  return call.method == "backward" || call.name == "torch.autograd.grad" || call.method == "grad";
}

// Another backward or gradient of the pass that may need the graph.
bool has_later_backward(const Iteration& iteration, std::size_t at) {
  for (std::size_t j = at + 1; j < iteration.calls.size(); ++j) {
    if (!goes_backward(*iteration.calls[j].call)) continue;
    if (!exclude_each_other(iteration.calls[j], iteration.calls[at])) return true;
  }
  return false;
}

// In a loop inside the pass the same call runs again.
bool is_repeated(const Call& call, const Loop& loop) {
  for (const Statement* outer = call.statement; outer != nullptr; outer = outer->parent) {
    if (outer == loop.statement) return false;
    if (outer->kind == StatementKind::for_ || outer->kind == StatementKind::while_) return true;
  }
  return false;
}

// Tensors with a graph that come from before the loop, or are carried from pass to pass.
bool carries_graph(const Loop& loop) {
  bool carries = false;
  for_statements(loop.statement->body, [&](const Statement& statement) {
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        if (part.kind != ExprKind::name) return true;
        for (const std::string_view name : {"hidden", "hx", "hc", "state", "states", "memory",
                                            "mems", "hiddens", "carry", "h", "c", "h0", "c0"}) {
          if (part.word() == name) carries = true;
        }
        const bool has_graph = part.type->is(TypeKind::tensor) && part.type->requires_grad &&
                               part.binding() != nullptr;
        if (has_graph && !is_within(*part.binding(), *loop.statement)) carries = true;
        return true;
      });
    });
  });
  return carries;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const Iteration& iteration : training_iterations(facts)) {
    if (iteration.loop == nullptr || !trains_on_gpu(facts, *iteration.file)) continue;
    for (std::size_t i = 0; i < iteration.calls.size(); ++i) {
      const Call& call = *iteration.calls[i].call;
      const Argument* argument = call.method == "backward" ? keeps_graph(facts, call) : nullptr;
      if (argument == nullptr || has_later_backward(iteration, i)) continue;
      if (is_repeated(call, *iteration.loop) || carries_graph(*iteration.loop)) continue;
      if (!seen.insert(&call).second) continue;
      Fix fix{fmt::format("Remove {}=True", argument->name), Exactness::bit_exact};
      add_edit(remove_argument(call, *argument), fix);
      Finding finding = finding_at(
          call,
          fmt::format("{}.backward keeps its graph, but no later backward of the step uses it: the "
                      "activations stay in memory until the next forward has made its own",
                      receiver_text(call)),
          std::move(fix));
      finding.evidence = {
          Evidence::found("no other backward or autograd.grad after it in the loop's body"),
          Evidence::published("retain_graph is not needed in nearly all cases",
                              "PyTorch documentation, Tensor.backward")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace training_loop_graph_kept_after_backward_rule

extern const Rule training_loop_graph_kept_after_backward{
    .id = "training_loop/graph-kept-after-backward",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Backward keeps a graph that nothing uses again (retain_graph)",
    .doc = training_loop_graph_kept_after_backward_rule::kDoc,
    .in_scripts = training_loop_graph_kept_after_backward_rule::find};

}  // namespace rooftile
