#include "rooftile/script/reach/size_guards.h"

#include <algorithm>
#include <string>

#include "rooftile/base/text.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

// len(x), x.size(0), x.shape[0], num_boxes, n_points: how many there are.
bool counts_items(const Expr& expr) {
  if (expr.call() != nullptr) return is_one_of(expr.call()->method, {"len", "size"});
  if (expr.kind == ExprKind::subscript) {
    const Expr& shape = *expr.children().front();
    return last_name(&shape) == "shape" ||
           (shape.call() != nullptr && shape.call()->method == "size" &&
            shape.call()->arguments.empty());
  }
  const std::string name = lower(last_name(&expr));
  return name.starts_with("num_") || name.starts_with("n_") || name.starts_with("count") ||
         name.ends_with("_count") || name.ends_with("_num");
}

// `if mask.any():`, `if keep.any():`; a test for NaN asks for something rare.
bool asks_for_items(const Guard& guard) {
  const Call* call = guard.expr == nullptr || guard.negated ? nullptr : guard.expr->call();
  if (call == nullptr || call->method != "any" || call->receiver == nullptr) return false;
  const std::string name = lower(last_name(call->receiver));
  return call->arguments.empty() && contains_any(name, {"mask", "valid", "keep", "pos", "ind"}) &&
         !contains_any(name, {"nan", "inf", "bad", "invalid"});
}

// x.dim(), x.ndim, x.size(1), x.shape[-1]: what all batches have in common.
bool is_fixed_dimension(const Expr& expr) {
  if (expr.kind == ExprKind::attribute) return expr.word() == "ndim";
  const auto counts = [](const Expr* index) {
    const Expr* digits = index->kind == ExprKind::unary ? index->children()[0] : index;
    return digits->kind == ExprKind::integer && index->word() != "0";
  };
  if (expr.kind == ExprKind::subscript && expr.children().size() == 2) {
    const Expr& shape = *expr.children()[0];
    const bool is_shape = (shape.kind == ExprKind::attribute && shape.word() == "shape") ||
                          (shape.call() != nullptr && shape.call()->method == "size");
    return is_shape && counts(expr.children()[1]);
  }
  if (expr.call() == nullptr || expr.call()->receiver == nullptr) return false;
  const auto arguments = expr.call()->arguments;
  if (is_one_of(expr.call()->method, {"dim", "ndimension"})) return arguments.empty();
  return expr.call()->method == "size" && arguments.size() == 1 && counts(arguments[0].value);
}

bool compares_dimension(const Expr* expr) {
  return expr->kind == ExprKind::comparison && expr->children().size() == 2 &&
         is_fixed_dimension(*expr->children()[0]) && expr->children()[1]->kind == ExprKind::integer;
}

}  // namespace

bool is_about_emptiness(const Guard& guard) {
  const Expr* expr = guard.expr;
  if (asks_for_items(guard)) return true;
  const bool compares =
      expr != nullptr && expr->kind == ExprKind::comparison && expr->children().size() == 2 &&
      expr->children()[1]->word() == "0" &&
      (guard.negated ? expr->word() == "==" : is_one_of(expr->word(), {">", "!="}));
  if (guard.negated && !compares) return false;
  if (compares) expr = resolved(expr->children()[0]);
  if (compares && counts_items(*expr)) return true;
  const Call* call = expr == nullptr ? nullptr : expr->call();
  if (call != nullptr && call->method == "item" && call->receiver != nullptr) {
    call = resolved(call->receiver)->call();
  }
  if (call == nullptr) return false;
  return is_one_of(call->method, {"numel", "nelement"}) ||
         (compares && is_one_of(call->method, {"dim", "sum", "count_nonzero"}));
}

bool is_for_nothing(const Guard& guard) {
  const Expr* expr = guard.expr;
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->children().size() == 2 && expr->children()[1]->word() == "0";
  if (compares) {
    const bool asks_for_none = guard.negated ? is_one_of(expr->word(), {">", "!="})
                                             : is_one_of(expr->word(), {"==", "<="});
    if (!asks_for_none) return false;
    expr = expr->children()[0];
  }
  // The else of `if len(x):`
  const Call* call = expr == nullptr || (!compares && !guard.negated) ? nullptr : expr->call();
  if (call == nullptr) return false;
  if (is_one_of(call->method, {"numel", "nelement"})) return call->arguments.empty();
  return call->name == "len" && call->arguments.size() == 1;
}

bool is_about_shape(const Guard& guard) {
  const Expr* expr = guard.expr;
  if (expr == nullptr) return false;
  const bool joins = expr->kind == ExprKind::logical && is_one_of(expr->word(), {"and", "or"});
  return joins ? std::ranges::all_of(expr->children(), compares_dimension)
               : compares_dimension(expr);
}

}  // namespace rooftile::source
