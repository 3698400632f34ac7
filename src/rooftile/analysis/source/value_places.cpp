#include "rooftile/analysis/source/value_places.h"

#include <algorithm>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {

bool is_surely_host(const Type& type) {
  switch (type.kind) {
    case TypeKind::tensor:
      return type.residence == Residence::host && !type.requires_grad;
    case TypeKind::unknown:
      return false;
    default:
      return true;
  }
}

bool comes_from_numpy(const Expr* expr) {
  bool found = false;
  visit(expr, [&](const Expr& part) {
    found = found || part.full_name().starts_with("numpy.") ||
            (part.kind == ExprKind::name && part.word() == "np") ||
            (part.call() != nullptr && is_one_of(part.call()->method, {"cpu", "numpy"}));
    return !found;
  });
  return found;
}

bool is_unplaced_tensor(const Expr& expr) {
  return expr.type->is(TypeKind::tensor) && expr.type->residence == Residence::unknown &&
         !expr.type->guessed;
}

namespace {

// self.x of a module: a parameter or buffer, which is where the module is.
bool is_part_of_module(const Expr* expr) {
  if (!is_unplaced_tensor(*expr)) return false;
  while (!expr->children().empty() &&
         (expr->kind == ExprKind::subscript || last_name(expr) == "data")) {
    expr = expr->children()[0];
  }
  if (expr->kind != ExprKind::attribute || expr->children().empty()) return false;
  const Expr& object = *expr->children()[0];
  return object.kind == ExprKind::name && object.word() == "self" &&
         object.type->is(TypeKind::module);
}

bool is_switch(const Expr& expr, int depth = 0);

// A parameter for which each caller passes True or False, or a switch of its own.
bool is_passed_as_switch(const FunctionDef& function, std::string_view parameter, int depth) {
  constexpr int kMaxDepth = 3;
  return depth < kMaxDepth && !function.callers.empty() &&
         std::ranges::all_of(function.callers, [&](const Call* caller) {
           const Argument* given = passed_argument(*caller, function, parameter);
           return given != nullptr && given->value != nullptr &&
                  (given->value->kind == ExprKind::boolean || is_switch(*given->value, depth + 1));
         });
}

// `pool=False`: a switch, whatever a caller seems to pass for it.
bool is_switch(const Expr& expr, int depth) {
  const FunctionDef* function = expr.statement == nullptr ? nullptr : expr.statement->function;
  if (expr.kind != ExprKind::name || expr.binding() != nullptr || function == nullptr) return false;
  const auto parameter = std::ranges::find(function->parameters, expr.word(), &Parameter::name);
  if (parameter == function->parameters.end()) return false;
  const bool is_by_default =
      parameter->default_value != nullptr && parameter->default_value->kind == ExprKind::boolean;
  return is_by_default || is_passed_as_switch(*function, parameter->name, depth);
}

// A parameter for which one caller passes a tensor on a GPU, and others may pass one elsewhere.
bool is_passed_from_gpu(const Expr& expr) {
  const FunctionDef* function = expr.statement == nullptr ? nullptr : expr.statement->function;
  const bool is_parameter = expr.kind == ExprKind::name && expr.binding() == nullptr;
  if (!is_parameter || function == nullptr) return false;
  return std::ranges::any_of(function->callers, [&](const Call* call) {
    const Argument* given = passed_argument(*call, *function, expr.word());
    return given != nullptr && !given->unpacked && is_gpu_value(given->value);
  });
}

// In a function that may train: no method of a module, whose other ways lead to generation, and no
// evaluation, which a decorator keeps from recording.
bool trains_itself(const Expr& part) {
  const FunctionDef* function = part.statement == nullptr ? nullptr : part.statement->function;
  if (function == nullptr) return true;
  const bool is_of_module = function->class_def != nullptr && function->class_def->is_module;
  return !is_of_module && function->decorators.empty();
}

bool comes_from_gpu(const Expr* expr, int& names_left);

// Of a variable that several branches set: whether what one of them gives comes from a GPU.
bool is_set_from_gpu(const Expr& name, int& names_left) {
  const Statement* at = name.statement;
  const FunctionDef* function = at == nullptr ? nullptr : at->function;
  if (function == nullptr || name.binding() != nullptr) return false;
  bool found = false;
  for_statements(function->body, [&](const Statement& set) {
    const bool sets = set.kind == StatementKind::assignment && set.word == "=" &&
                      set.target->kind == ExprKind::name && set.target->word() == name.word() &&
                      set.range.end < at->range.begin && set.value != nullptr;
    if (found || !sets || names_left <= 0) return;
    --names_left;
    found = comes_from_gpu(set.value, names_left);
  });
  return found;
}

// Computed from a tensor that a caller passes from a GPU, also by way of a few names.
bool comes_from_gpu(const Expr* expr, int& names_left) {
  if (expr == nullptr || !is_unplaced_tensor(*expr)) return false;
  bool found = false;
  visit(expr, [&](const Expr& part) {
    if (found || part.kind == ExprKind::lambda) return false;
    if (&part != expr && is_surely_host(*part.type)) return false;
    // (loss != loss).any(), pred.detach() > 0: no graph, but where the loss is.
    found = (is_gpu_value(&part) && trains_itself(part)) ||
            (is_unplaced_tensor(part) && is_passed_from_gpu(part)) || is_part_of_module(&part);
    const Statement* set = part.kind == ExprKind::name ? part.binding() : nullptr;
    const bool is_set = set != nullptr && set->kind == StatementKind::assignment &&
                        set->word == "=" && set->function == part.statement->function;
    if (!found && is_set && names_left > 0) {
      --names_left;
      found = comes_from_gpu(set->value, names_left);
    }
    if (!found && part.kind == ExprKind::name && is_unplaced_tensor(part)) {
      found = is_set_from_gpu(part, names_left);
    }
    return !found;
  });
  return found;
}

bool comes_from_gpu(const Expr* expr) {
  int names_left = 8;
  return comes_from_gpu(expr, names_left);
}

// norm = clip_grad_norm_(…): it is where the gradients are.
bool is_gradient_norm(const Expr* expr) {
  const Expr* made = expr->type->is(TypeKind::tensor) ? resolved(expr) : nullptr;
  return made != nullptr && made->call() != nullptr &&
         made->call()->name == "torch.nn.utils.clip_grad_norm_";
}

}  // namespace

bool was_on_gpu(const Expr& value) {
  const Expr* from = &value;
  for (int hops = 0; hops < 4 && from != nullptr; ++hops) {
    const Expr* found = find_inside(from, [](const Expr& part) {
      return part.type->on_gpu() || (part.call() != nullptr && part.call()->method == "cpu");
    });
    if (found != nullptr) return true;
    while (from->kind != ExprKind::name && !from->children().empty()) from = from->children()[0];
    const Statement* set = from->kind == ExprKind::name ? from->binding() : nullptr;
    from = set != nullptr && set->kind == StatementKind::assignment ? set->value : nullptr;
  }
  return false;
}

bool may_wait(const Expr* expr) {
  return expr != nullptr && expr->type != nullptr && !is_switch(*expr) &&
         (is_gpu_value(expr) || is_gradient_norm(expr) || is_part_of_module(expr) ||
          comes_from_gpu(expr));
}

}  // namespace rooftile::source
