#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/running_totals.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {
namespace training_loop_tensor_indexed_in_python_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In the training step, a Python loop of at least ten passes that indexes a GPU tensor by its counter
and only does element-wise work on it.

## Why it costs time
Each index and each operation is a kernel of its own, of a few microseconds, with a launch of about
as many.

## How to fix
Write the operation over the whole tensor: slices, masks, `torch.where`, `scatter_`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Each pass needs the result of the one before: recurrent and autoregressive work.
- The loop runs rarely.

## Evidence
- PyTorch performance tuning guide: fuse pointwise operations, avoid unnecessary CPU-GPU
  synchronization.
)md";

using namespace source;

constexpr std::int64_t kMany = 10;  // passes

// `range(x.size(0))`, `range(len(x))`, or a literal range of many passes.
bool is_long_range(const SourceFacts& facts, const Expr* iterable) {
  const Call* call = iterable->call();
  if (call == nullptr || call->method != "range" || call->arguments.empty()) return false;
  const Expr* end =
      call->arguments.size() == 1 ? call->arguments.front().value : call->arguments[1].value;
  const Value value = facts.value(end);
  if (value.kind == ValueKind::integer) return value.integer >= kMany;
  return (end->call() != nullptr &&
          (end->call()->method == "size" || end->call()->method == "len")) ||
         (end->kind == ExprKind::subscript && uses_name(end, {"shape"}));
}

// x[i] of a tensor on the GPU.
const Expr* indexed_tensor(const Expr* expr, std::string_view counter) {
  const Expr* found = nullptr;
  visit(expr, [&](const Expr& part) {
    if (found != nullptr || part.kind != ExprKind::subscript) return true;
    const Expr* object = part.children().front();
    const bool is_gpu = object->type->on_gpu() &&
                        (object->type->is(TypeKind::tensor) || object->type->is(TypeKind::unknown));
    const Expr* index = part.children()[1];
    if (is_gpu && index->kind == ExprKind::name && index->word() == counter) found = object;
    return true;
  });
  return found;
}

// Only element-wise work: arithmetic, and no call of a module or own function.
bool is_element_wise(const Statement& loop) {
  bool only = true;
  for_statements(loop.body, [&](const Statement& statement) {
    const bool is_simple =
        statement.kind == StatementKind::assignment || statement.kind == StatementKind::expression;
    only = only && is_simple;
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        if (part.call() != nullptr &&
            (part.call()->target != nullptr || part.call()->name.ends_with(".__call__"))) {
          only = false;
        }
        return true;
      });
    });
    // A pass that reads what another one wrote cannot be taken out of the loop.
    if (uses_variable(statement.value, root_name(statement.target))) only = false;
  });
  return only;
}

const Expr* tensor_taken_apart(const Statement& loop, std::string_view counter) {
  const Expr* tensor = nullptr;
  for_statements(loop.body, [&](const Statement& statement) {
    for_own_expressions(statement, [&](const Expr* expr) {
      if (tensor == nullptr) tensor = indexed_tensor(expr, counter);
    });
  });
  return tensor;
}

bool is_hot_loop(const SourceFacts& facts, const Statement& loop) {
  return any_way(facts, loop, [](const Way& way) { return way.in_each_training_step(); });
}

std::optional<Finding> judge(const SourceFacts& facts, const File& file, const Statement& loop) {
  if (loop.kind != StatementKind::for_ || !is_long_range(facts, loop.value)) return std::nullopt;
  const std::string_view counter = last_name(loop.target);
  if (counter.empty() || !is_element_wise(loop)) return std::nullopt;
  const Expr* tensor = tensor_taken_apart(loop, counter);
  if (tensor == nullptr || !is_hot_loop(facts, loop)) return std::nullopt;
  const std::string name = code_text(file, tensor);
  Finding finding = finding_at(
      loop,
      fmt::format("a Python loop takes {}[{}] one by one: a kernel launch for each element", name,
                  counter),
      {fmt::format("Write it as one operation over the whole of {}", name),
       Exactness::exact_arithmetic});
  finding.evidence = {
      Evidence::to_check("settle it with a trace: rooftile check train.py trace.json.gz")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Statement* loop : file->statements) {
      if (auto finding = judge(facts, *file, *loop)) findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace training_loop_tensor_indexed_in_python_rule

extern const Rule training_loop_tensor_indexed_in_python{
    .id = "training_loop/tensor-indexed-in-python",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Python loop indexes a GPU tensor element by element",
    .doc = training_loop_tensor_indexed_in_python_rule::kDoc,
    .in_scripts = training_loop_tensor_indexed_in_python_rule::find};

}  // namespace rooftile
