#include "rooftile/analysis/source/gradient_switches.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile::source {
namespace {

bool is_in_function_of(const Call& call, const Loop& loop) {
  return call.file == loop.file && call.function == loop.function;
}

// `for p in model.features.parameters():` leaves the rest of the model as it is, and so does what
// is done to some of what a loop goes through: `if isinstance(m, nn.BatchNorm2d):`.
bool goes_through_part(const Statement* outer) {
  bool has_condition = false;
  while (outer != nullptr && outer->loop == nullptr) {
    has_condition = has_condition || outer->kind == StatementKind::if_;
    outer = outer->parent;
  }
  if (outer == nullptr) return false;
  if (has_condition) return true;
  const Call* call = outer->value->call();
  const Expr* owner = call == nullptr ? nullptr : call->receiver;
  const bool is_attribute =
      owner != nullptr && owner->kind == ExprKind::attribute && owner->word() != "module";
  return is_attribute && owner->children()[0]->word() != "self" &&
         is_one_of(call->method, {"parameters", "named_parameters"});
}

// `for p in model.parameters(): p.requires_grad = False` before the loop.
bool freezes_parameters(const Loop& loop) {
  const std::span<const Statement* const> body =
      loop.function != nullptr ? loop.function->body : loop.file->body;
  return any_statement(body, [&](const Statement& statement) {
    return freezes_parameter(statement) && statement.range.begin < loop.statement->range.begin &&
           !goes_through_part(&statement);
  });
}

// Inputs are made volatile in the loop or before it; a script does more than this one loop.
bool may_feed(const Call& call, const Loop& loop) {
  const ByteRange at = loop.statement->range;
  if (call.expr->range.begin >= at.end) return false;
  return loop.function != nullptr || call.expr->range.begin >= at.begin ||
         call.argument("volatile") != nullptr;
}

// Before PyTorch 0.4: Variable(x, volatile=True), or a function of the project that can do it.
bool makes_volatile(const Call& call) {
  if (call.argument("volatile") != nullptr) return true;
  return call.target != nullptr &&
         std::any_of(call.target->calls.begin(), call.target->calls.end(),
                     [](const Call* inner) { return inner->argument("volatile") != nullptr; });
}

// `torch.set_grad_enabled(False)` as a statement: for all that comes after, wherever it is.
bool is_switched_for_good(const Call& call) {
  const bool is_statement =
      call.statement->kind == StatementKind::expression && call.statement->value == call.expr;
  return is_statement && !call.arguments.empty() && call.arguments.front().value->word() == "False";
}

// Entered or applied by hand, in the loop's file: `stack.enter_context(torch.no_grad())`.
bool is_switched_by_hand(const Loop& loop) {
  return has_any_text(*loop.file, {"no_grad().__enter__(", "enter_context(torch.no_grad(",
                                   "torch.no_grad()(", "torch.inference_mode()("});
}

}  // namespace

bool switches_gradients_off(const SourceFacts& facts, const Loop& loop) {
  for (const Call* call : facts.method_calls("set_grad_enabled")) {
    const bool is_near = is_in_function_of(*call, loop) || call->function == nullptr;
    if (call->file == loop.file && is_near) return true;
    if (!is_switched_for_good(*call)) continue;
    const auto programs = facts.programs_of(*loop.file);
    const bool is_in_program = std::ranges::any_of(
        programs, [&](const Program* program) { return program->has(*call->file); });
    if (is_in_program) return true;
  }
  if (any_way(facts, *loop.statement, [](const Way& way) { return way.gradients_off; }))
    return true;
  const bool is_volatile =
      std::any_of(loop.file->calls.begin(), loop.file->calls.end(), [&](const Call* call) {
        return is_in_function_of(*call, loop) && may_feed(*call, loop) && makes_volatile(*call);
      });
  return is_volatile || freezes_parameters(loop) || is_switched_by_hand(loop);
}

}  // namespace rooftile::source
