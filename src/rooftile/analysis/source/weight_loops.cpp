#include "rooftile/analysis/source/weight_loops.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {

namespace {

bool is_listing(const Expr& part) {
  if (part.call() == nullptr || part.call()->receiver == nullptr) return false;
  return is_one_of(part.call()->method, {"parameters", "named_parameters", "state_dict"});
}

// Lists by their name, where the source does not show what is in them: target_params,
// group["params"].
bool is_named_list(const Expr& part) {
  const bool is_item = part.kind == ExprKind::subscript &&
                       part.children().back()->kind == ExprKind::text &&
                       part.children().back()->word() == "params";
  const std::string_view name = last_name(&part);
  return is_item || is_one_of(name, {"params", "parameters", "weights", "grads", "gradients"}) ||
         ends_with_any(name, {"_params", "_parameters"});
}

}  // namespace

// What the loop's iterable lists, variables followed.
WeightList lists_parameters(const Expr* iterable) {
  WeightList found;
  visit(iterable, [&](const Expr& part) {
    if (found.shown != nullptr || last_name(&part) == "param_groups") return false;
    const bool is_object = part.type->is(TypeKind::optimizer) || part.type->is(TypeKind::module);
    if (is_object) return false;
    visit(resolved(&part), [&](const Expr& inner) {
      if (found.call == nullptr && is_listing(inner)) {
        found = {inner.call(), inner.call()->receiver};
      }
      return found.call == nullptr;
    });
    if (found.shown == nullptr && is_named_list(part)) found.shown = &part;
    return found.shown == nullptr;
  });
  return found;
}

// `new = model.state_dict(); for k in average: average[k] = … new[k]`
WeightList weights_by_key(const Statement& loop) {
  const Expr& first =
      loop.target->kind == ExprKind::tuple ? *loop.target->children().front() : *loop.target;
  if (first.kind != ExprKind::name) return {};
  WeightList found;
  for_statements(loop.body, [&](const Statement& statement) {
    const bool stores = statement.kind == StatementKind::assignment &&
                        statement.target->kind == ExprKind::subscript;
    // average[k].copy_(…)
    const Call* call =
        statement.kind == StatementKind::expression ? statement.value->call() : nullptr;
    const bool changes = call != nullptr && call->receiver != nullptr &&
                         call->receiver->kind == ExprKind::subscript && call->method.ends_with("_");
    if ((!stores && !changes) || found.shown != nullptr) return;
    visit(statement.value, [&](const Expr& part) {
      const bool is_item = part.kind == ExprKind::subscript &&
                           part.children().back()->kind == ExprKind::name &&
                           part.children().back()->word() == first.word();
      const Expr* whole = is_item ? resolved(part.children()[0]) : nullptr;
      const bool is_listed = whole != nullptr && whole->call() != nullptr && is_listing(*whole);
      if (is_listed) found = {whole->call(), whole->call()->receiver};
      return found.shown == nullptr;
    });
  });
  return found;
}

namespace {

// Reductions and tests of what is_weight(expr) says is a gradient or weight: (p.grad ** 2).sum(),
// torch.isnan(p.grad).
template <class IsWeight>
bool reduces_tensor(const Call& call, const IsWeight& is_weight) {
  const bool reduces =
      is_one_of(call.method, {"sum", "mean", "abs", "max", "pow", "square", "isnan", "isinf",
                              "isfinite", "std", "var", "ne", "eq"});
  return reduces &&
         (is_weight(call.receiver) ||
          std::any_of(call.arguments.begin(), call.arguments.end(),
                      [&](const Argument& argument) { return is_weight(argument.value); }));
}

}  // namespace

bool is_tensor_operation(const Expr& part) {
  if (part.kind == ExprKind::binary) {
    return is_one_of(part.word(), {"*", "+", "-"});
  }
  if (part.call() == nullptr) return false;
  if (is_one_of(part.call()->method,
                {"mul_", "add_", "sub_", "div_", "copy_", "lerp_", "clamp_", "addcmul_", "addcdiv_",
                 "norm", "all_reduce", "normal_", "pow_", "sign_", "clip_", "nan_to_num"})) {
    return true;
  }
  return reduces_tensor(*part.call(), [](const Expr* expr) {
    return uses_name(expr, {"grad", "data"});
  });
}

namespace {

// `if "fc1.weight" in name:`, `if name == "head.bias":`: one tensor of all.
bool is_for_one_tensor(const Statement& statement, const Statement& loop) {
  for (const Statement* at = statement.parent; at != nullptr && at != &loop; at = at->parent) {
    const Expr* condition = at->kind == StatementKind::if_ ? at->value : nullptr;
    const bool compares = condition != nullptr && condition->kind == ExprKind::comparison &&
                          is_one_of(condition->word(), {"in", "=="});
    if (!compares || condition->children().size() != 2) continue;
    for (const Expr* side : condition->children()) {
      const std::string_view text = side->kind == ExprKind::text ? side->word() : "";
      const std::size_t dot = text.find('.');
      const bool is_full = dot != std::string_view::npos && dot > 0 && dot + 1 < text.size();
      if (is_full || (!text.empty() && condition->word() == "==")) return true;
    }
  }
  return false;
}

// What `average.clone()` was computed by: average = a * x + b * y.
const Expr* computed(const Expr* value) {
  const bool copies = value != nullptr && value->call() != nullptr &&
                      value->call()->receiver != nullptr &&
                      is_one_of(value->call()->method, {"clone", "detach"});
  return resolved(copies ? value->call()->receiver : value);
}

// `ema.update(name, weight.data)`: a function of the project that works on the weight it is given.
bool works_on_argument(const Expr& part) {
  if (part.call() == nullptr || part.call()->target == nullptr) return false;
  const FunctionDef& function = *part.call()->target;
  const Parameter* weight = nullptr;
  for (const Parameter& parameter : function.parameters) {
    const Argument* given = passed_argument(*part.call(), function, parameter.name);
    const Type* type = given == nullptr ? nullptr : given->value->type;
    const bool is_weight = type != nullptr && type->is(TypeKind::tensor) &&
                           (type->requires_grad || uses_name(given->value, {"data", "grad"}));
    if (is_weight && weight == nullptr) weight = &parameter;
  }
  // `delta = shadow - x; shadow -= rate * delta`
  const auto is_of_weight = [&](const Expr* value) {
    return any_inside(value, [&](const Expr& inner) {
      return inner.kind == ExprKind::name &&
             (inner.word() == weight->name || uses_variable(resolved(&inner), weight->name));
    });
  };
  // One call deep: the function itself, not what it calls.
  return weight != nullptr && std::ranges::any_of(function.body, [&](const Statement* statement) {
           const bool stores = statement->kind == StatementKind::assignment &&
                               statement->target->kind == ExprKind::subscript;
           const bool works = statement->kind == StatementKind::expression;
           const Expr* value = computed(statement->value);
           if ((!stores && !works) || !is_of_weight(value)) return false;
           return any_inside(value, [&](const Expr& inner) {
             return is_tensor_operation(inner) && (stores || inner.kind != ExprKind::binary);
           });
         });
}

// `average.data = self.update_average(average.data, weight.data)`: an own function that gives a sum
// or product, or torch.lerp, for the weight that is stored.
bool makes_weight(const Expr& part) {
  if (part.call() == nullptr) return false;
  if (part.call()->method == "lerp") return true;
  const FunctionDef* function = part.call()->target;
  if (function == nullptr || part.call()->name == "torch.nn.Module.__call__") return false;
  return std::ranges::any_of(function->body, [](const Statement* statement) {
    return statement->kind == StatementKind::return_ && statement->value != nullptr &&
           statement->value->kind == ExprKind::binary && is_tensor_operation(*statement->value);
  });
}

// The variable, or one that was picked by it in the loop: `p = params[i]`.
bool uses_or_picks(const Expr* own, std::string_view name, const Statement& loop) {
  bool found = false;
  visit(own, [&](const Expr& part) {
    if (found || part.kind != ExprKind::name) return !found;
    const Statement* set = part.binding();
    const bool is_picked = set != nullptr && set->value != nullptr && set != &loop &&
                           set->value->kind == ExprKind::subscript && is_within(*set, loop) &&
                           uses_variable(set->value, name);
    found = part.word() == name || is_picked;
    return !found;
  });
  return found;
}

bool uses_names_of(const Expr& target, const Statement& statement, const Statement& loop) {
  return any_inside(&target, [&](const Expr& name) {
    if (name.kind != ExprKind::name) return false;
    bool found = false;
    for_own_expressions(statement, [&](const Expr* own) {
      found = found || uses_variable(own, name.word()) || uses_or_picks(own, name.word(), loop);
    });
    return found;
  });
}

// Whether the variable is a weight that the loop goes through, not its name or number:
// `for name, weight in model.named_parameters():`.
bool is_weight_of(const Expr& variable, const Statement& loop) {
  const Expr* target = loop.target;
  if (variable.kind != ExprKind::name) return false;
  const Call* over = loop.value->call();
  if (target->kind == ExprKind::name) {
    const bool is_key = over == nullptr || is_one_of(over->method, {"state_dict", "keys"});
    return !is_key && target->word() == variable.word();
  }
  const bool is_zip = over != nullptr && over->method == "zip";
  bool found = false;
  for (std::size_t i = is_zip ? 0 : 1; i < target->children().size(); ++i) {
    found = found || uses_variable(target->children()[i], variable.word());
  }
  return found;
}

// `p.grad /= n`, `weight *= decay`
bool changes_in_place(const Statement& statement, const Statement& loop) {
  return statement.kind == StatementKind::assignment &&
         is_one_of(statement.word, {"/=", "*=", "+=", "-="}) &&
         (is_one_of(last_name(statement.target), {"grad", "data"}) ||
          is_weight_of(*statement.target, loop));
}

// `average[name] = new.clone()` with `new = a * weight.data + b * average[name]` above.
bool stores_computed(const Expr& part, const Statement& statement) {
  if (&part != statement.value || statement.kind != StatementKind::assignment) return false;
  const bool is_item = statement.target->kind == ExprKind::subscript;
  const Expr* made = is_item ? computed(&part) : &part;
  return made != &part && made->kind == ExprKind::binary && is_tensor_operation(*made) &&
         uses_name(made, {"data", "grad"});
}

// `torch.isnan(weight).any()`, `loss += weight.abs().sum()`
bool reduces_weight_of(const Expr& part, const Statement& loop) {
  if (part.call() == nullptr) return false;
  return reduces_tensor(*part.call(), [&](const Expr* expr) {
    const Expr* inner = expr;
    while (inner != nullptr && inner->call() != nullptr) inner = inner->call()->receiver;
    return inner != nullptr && is_weight_of(*inner, loop);
  });
}

// A sum or product counts where it is assigned to data of a tensor, or adds up a norm.
bool works_on_weight(const Expr& part, const Statement& statement, const Statement& loop) {
  if (stores_computed(part, statement) || reduces_weight_of(part, loop)) return true;
  const bool stores = statement.kind == StatementKind::assignment &&
                      (uses_name(statement.target, {"data", "grad"}) ||
                       statement.target->kind == ExprKind::subscript);
  const bool counts = part.kind != ExprKind::binary || stores;
  return (counts && is_tensor_operation(part)) || works_on_argument(part) ||
         (stores && makes_weight(part));
}

void read_part(const Expr& part, const Statement& statement, const Statement& loop,
               LoopBody& body) {
  const bool works = works_on_weight(part, statement, loop) || changes_in_place(statement, loop);
  if (works && !is_for_one_tensor(statement, loop)) {
    if (body.operation == nullptr) body.operation = &statement;
    body.uses_target = body.uses_target || uses_names_of(*loop.target, statement, loop);
  }
  if (last_name(&part).starts_with("_foreach")) body.is_multi_tensor = true;
}

}  // namespace

LoopBody read_body(const Statement& loop) {
  LoopBody body;
  for_statements(loop.body, [&](const Statement& statement) {
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        read_part(part, statement, loop, body);
        return true;
      });
    });
  });
  return body;
}

}  // namespace rooftile::source
