#include "rooftile/analysis/source/value_places.h"

#include <algorithm>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile::source {

using script::SourceStep;

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

bool is_written_out(const SourceFacts& facts, const Expr& value) {
  return std::ranges::all_of(script::origins(facts, value), [](const Expr* origin) {
    switch (origin->kind) {
      case ExprKind::boolean:
      case ExprKind::integer:
      case ExprKind::real:
      case ExprKind::text:
      case ExprKind::none:
        return true;
      default:
        return false;
    }
  });
}

bool comes_from_numpy(const Expr* expr) {
  return any_inside(expr, [&](const Expr& part) {
    return part.full_name().starts_with("numpy.") ||
           (part.kind == ExprKind::name && part.word() == "np") ||
           (part.call() != nullptr && is_one_of(part.call()->method, {"cpu", "numpy"}));
  });
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
  if (expr->kind != ExprKind::attribute) return false;
  const Expr& object = *expr->children()[0];
  return object.kind == ExprKind::name && object.word() == "self" &&
         object.type->is(TypeKind::module);
}

// `pool=False`: a switch, whatever a caller seems to pass for it.
bool is_switch(const Expr& expr) {
  const FunctionDef* function = expr.statement->function;
  if (expr.kind != ExprKind::name || expr.binding() != nullptr || function == nullptr) return false;
  const auto parameter = std::ranges::find(function->parameters, expr.word(), &Parameter::name);
  return parameter != function->parameters.end() && parameter->default_value != nullptr &&
         parameter->default_value->kind == ExprKind::boolean;
}

// In a function that may train: no method of a module, whose other ways lead to generation, and no
// evaluation, which a decorator keeps from recording.
bool trains_itself(const Expr& part) {
  const FunctionDef* function = part.statement->function;
  if (function == nullptr) return true;
  const bool is_of_module = function->class_def != nullptr && function->class_def->is_module;
  return !is_of_module && function->decorators.empty();
}

// Computed from a tensor of the GPU, also one that a caller passes.
bool comes_from_gpu(const SourceFacts& facts, const Expr& expr) {
  if (!is_unplaced_tensor(expr)) return false;
  const FunctionDef* function = expr.statement->function;
  return script::find_source(facts, expr, [&](const Expr& part) {
    if (&part != &expr && is_surely_host(*part.type)) return SourceStep::stop;
    // (loss != loss).any(), pred.detach() > 0: no graph, but where the loss is.
    const bool is_passed = part.statement->function != function;
    const bool is_there =
        (is_gpu_value(&part) && (is_passed || trains_itself(part))) || is_part_of_module(&part);
    return is_there ? SourceStep::found : SourceStep::go_on;
  });
}

// norm = clip_grad_norm_(…): it is where the gradients are.
bool is_gradient_norm(const SourceFacts& facts, const Expr& expr) {
  const Call* made = expr.type->is(TypeKind::tensor) ? script::origin(facts, expr).call() : nullptr;
  return made != nullptr && made->name == "torch.nn.utils.clip_grad_norm_";
}

}  // namespace

bool was_on_gpu(const SourceFacts& facts, const Expr& value) {
  return script::find_source(facts, value, [](const Expr& part) {
    const bool was =
        part.type->on_gpu() || (part.call() != nullptr && part.call()->method == "cpu");
    return was ? SourceStep::found : SourceStep::go_on;
  });
}

bool is_taken_from_gpu(const SourceFacts& facts, const Expr& value) {
  if (!value.type->is(TypeKind::unknown)) return false;
  return script::find_source(facts, value, [&](const Expr& part) {
    if (is_gpu_value(&part) || comes_from_gpu(facts, part)) return SourceStep::found;
    switch (part.kind) {
      case ExprKind::name:
      case ExprKind::tuple:
      case ExprKind::list:
      case ExprKind::comprehension:
      case ExprKind::binary:
      case ExprKind::unary:
        return is_surely_host(*part.type) && !part.type->is(TypeKind::container)
                   ? SourceStep::stop
                   : SourceStep::go_on;
      case ExprKind::call: {
        const FunctionDef* target = part.call()->target;
        const bool is_own = target != nullptr && target->name != "__init__" &&
                            part.call()->name != "torch.nn.Module.__call__";
        return is_own ? SourceStep::go_on : SourceStep::stop;
      }
      default:
        return SourceStep::stop;
    }
  });
}

bool may_wait(const SourceFacts& facts, const Expr* expr) {
  if (expr == nullptr || is_switch(*expr)) return false;
  const bool may_be = is_gpu_value(expr) || is_gradient_norm(facts, *expr) ||
                      is_part_of_module(expr) || comes_from_gpu(facts, *expr);
  return may_be && !is_written_out(facts, *expr);
}

}  // namespace rooftile::source
