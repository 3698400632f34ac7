#include "rooftile/analysis/source/layer_members.h"

namespace rooftile::source {

const Expr* member_of(const Expr* expr) {
  const auto parts = expr->children();
  return parts.size() == 2 && parts[0]->kind == ExprKind::text ? parts[1] : expr;
}

void add_items(const Expr& list, const Statement* statement, std::vector<Member>& members) {
  if (list.kind == ExprKind::dict) {
    for (std::size_t i = 1; i < list.children().size(); i += 2) {
      members.push_back({list.children()[i], statement});
    }
    return;
  }
  for (const Expr* item : list.children()) members.push_back({member_of(item), statement});
}

bool is_list(const Expr& expr) {
  return expr.kind == ExprKind::list || expr.kind == ExprKind::tuple || expr.kind == ExprKind::dict;
}

namespace {

// `[a] + [b, c] * 4`: the lists one after the other, the repeated one once.
void add_joined(const Expr& expr, const Statement* statement, std::vector<Member>& members) {
  const bool is_joined =
      expr.kind == ExprKind::binary && (expr.word() == "+" || expr.word() == "*");
  if (is_joined) {
    for (const Expr* part : expr.children()) add_joined(*part, statement, members);
  } else if (is_list(expr)) {
    add_items(expr, statement, members);
  }
}

}  // namespace

std::vector<Member> arguments_of(const Call& call) {
  std::vector<Member> members;
  for (const Argument& argument : call.arguments) {
    const Expr* value = argument.value;
    if (argument.unpacked && !value->children().empty()) value = value->children()[0];
    if (value->call() != nullptr && value->call()->method == "OrderedDict" &&
        !value->call()->arguments.empty()) {
      value = value->call()->arguments[0].value;
    }
    if (is_list(*value) || (argument.unpacked && value->kind == ExprKind::binary)) {
      add_joined(*value, call.statement, members);
    } else {
      members.push_back({value, call.statement});
    }
  }
  return members;
}

}  // namespace rooftile::source
