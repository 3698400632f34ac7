// `a, b = value` of inference.h.
#include <vector>

#include "rooftile/readers/python/inference.h"

namespace rooftile::source {

namespace {

// The tuples of so many items that a function returns.
void add_returned(std::span<const Statement* const> block, std::size_t count,
                  std::vector<const Expr*>& tuples) {
  for (const Statement* statement : block) {
    if (statement->function_def != nullptr || statement->class_def != nullptr) continue;
    const bool is_tuple =
        statement->kind == StatementKind::return_ && statement->value != nullptr &&
        statement->value->kind == ExprKind::tuple && statement->value->children().size() == count;
    if (is_tuple) tuples.push_back(statement->value);
    add_returned(statement->body, count, tuples);
    add_returned(statement->otherwise, count, tuples);
  }
}

}  // namespace

// What the parts of `a, b = value` are; empty where that is not seen.
std::vector<const Type*> Inference::unpacked_items(const Type& type, const Expr* value,
                                                   std::size_t count) {
  const bool is_written = type.items != nullptr && type.items->kind != ExprKind::dict &&
                          type.items->children().size() == count;
  std::vector<const Expr*> tuples;
  if (is_written) tuples.push_back(type.items);
  const FunctionDef* function =
      value != nullptr && value->call() != nullptr ? value->call()->target : nullptr;
  if (function != nullptr && !is_written) add_returned(function->body, count, tuples);
  std::vector<const Type*> items;
  for (const Expr* tuple : tuples) {
    items.resize(count, nullptr);
    for (std::size_t i = 0; i < count; ++i) items[i] = join(items[i], tuple->children()[i]->type);
  }
  return items;
}

namespace {

// `loss, scores = criterion(outputs, target)` with a criterion that is not seen: the rest may be
// numbers.
bool is_unseen_loss(const Call* call) {
  if (call == nullptr || call->target != nullptr) return false;
  const Type& callee = *call->expr->children().front()->type;
  return callee.is(TypeKind::loss) && callee.class_def == nullptr;
}

// Whether what a return statement lists tells more of a part than the whole does: also of a
// function that returns one thing in one branch and several in another, and of a forward that
// returns sizes and names beside its tensors.
bool tells_more(const Type* item, const Type& whole) {
  if (whole.is(TypeKind::container) || whole.is(TypeKind::unknown)) return true;
  return whole.is(TypeKind::tensor) && item != nullptr &&
         (item->is(TypeKind::number) || item->is(TypeKind::text) || item->is(TypeKind::array));
}

}  // namespace

void Inference::bind_sequence(const Expr* target, const Type* type, const Expr* value,
                              const Statement* statement) {
  const Call* call = value == nullptr ? nullptr : value->call();
  const bool prepared = call != nullptr && call->method == "prepare";
  const bool pairwise = value != nullptr &&
                        (value->kind == ExprKind::tuple || value->kind == ExprKind::list) &&
                        value->children().size() == target->children().size();
  std::vector<const Type*> items;
  if (!pairwise) items = unpacked_items(*type, value, target->children().size());
  for (std::size_t i = 0; i < target->children().size(); ++i) {
    const Expr* part = target->children()[i];
    const Type* each = type->element;
    if (type->is(TypeKind::tensor)) each = type;
    if (prepared && i < call->arguments.size()) {
      each = with_residence(*call->arguments[i].value->type, Residence::gpu);
    }
    if (pairwise) each = value->children()[i]->type;
    if (!items.empty() && tells_more(items[i], *type)) each = items[i];
    if (i > 0 && items.empty() && is_unseen_loss(call)) each = &unknown_type();
    bind(part, each == nullptr ? &unknown_type() : each, pairwise ? value->children()[i] : nullptr,
         statement);
  }
}

}  // namespace rooftile::source
