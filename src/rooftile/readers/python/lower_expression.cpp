// Expressions of lowering.h.
#include <algorithm>
#include <iterator>

#include "rooftile/readers/python/derive.h"
#include "rooftile/readers/python/lowering.h"

namespace rooftile::source {
namespace {

using Kind = python::SyntaxKind;

struct KindOfSyntax {
  Kind syntax;
  ExprKind kind;
};

constexpr KindOfSyntax kKinds[] = {
    {Kind::identifier, ExprKind::name},
    {Kind::dotted_name, ExprKind::name},
    {Kind::attribute, ExprKind::attribute},
    {Kind::call, ExprKind::call},
    {Kind::subscript, ExprKind::subscript},
    {Kind::slice, ExprKind::slice},
    {Kind::string, ExprKind::text},
    {Kind::concatenated_string, ExprKind::text},
    {Kind::integer, ExprKind::integer},
    {Kind::float_, ExprKind::real},
    {Kind::true_, ExprKind::boolean},
    {Kind::false_, ExprKind::boolean},
    {Kind::none, ExprKind::none},
    {Kind::ellipsis, ExprKind::ellipsis},
    {Kind::list, ExprKind::list},
    {Kind::list_pattern, ExprKind::list},
    {Kind::tuple, ExprKind::tuple},
    {Kind::expression_list, ExprKind::tuple},
    {Kind::pattern_list, ExprKind::tuple},
    {Kind::tuple_pattern, ExprKind::tuple},
    {Kind::set, ExprKind::set},
    {Kind::dictionary, ExprKind::dict},
    {Kind::unary_operator, ExprKind::unary},
    {Kind::binary_operator, ExprKind::binary},
    {Kind::comparison_operator, ExprKind::comparison},
    {Kind::boolean_operator, ExprKind::logical},
    {Kind::not_operator, ExprKind::logical},
    {Kind::conditional_expression, ExprKind::conditional},
    {Kind::lambda, ExprKind::lambda},
    {Kind::list_comprehension, ExprKind::comprehension},
    {Kind::dictionary_comprehension, ExprKind::comprehension},
    {Kind::set_comprehension, ExprKind::comprehension},
    {Kind::generator_expression, ExprKind::comprehension},
    {Kind::list_splat, ExprKind::starred},
    {Kind::dictionary_splat, ExprKind::starred},
    {Kind::list_splat_pattern, ExprKind::starred},
    {Kind::dictionary_splat_pattern, ExprKind::starred},
    {Kind::parenthesized_list_splat, ExprKind::starred},
    {Kind::await, ExprKind::await},
    {Kind::yield, ExprKind::yield},
    {Kind::named_expression, ExprKind::walrus},
};

ExprKind expr_kind(Kind kind) {
  const auto found = std::ranges::find(kKinds, kind, &KindOfSyntax::syntax);
  return found == std::end(kKinds) ? ExprKind::other : found->kind;
}

}  // namespace

Expr* Lowering::make(ExprKind kind, Id id) {
  Expr* expr = memory_.expressions.make<Expr>();
  expr->kind = kind;
  expr->range = range(id);
  expr->statement = statement_;
  expr->type = &unknown_type();
  return expr;
}

Expr* Lowering::expression(Id id) {
  while (kind(id) == Kind::parenthesized_expression || kind(id) == Kind::type) {
    const Id inner = expression_child(id);
    if (inner == 0) break;
    id = inner;
  }
  Expr* expr = make(expr_kind(kind(id)), id);
  if (depth_ >= kMaxDepth) {
    ++file_.too_deep;
    expr->kind = ExprKind::other;
    return expr;
  }
  ++depth_;
  fill(expr, id);
  --depth_;
  return expr;
}

void Lowering::fill(Expr* expr, Id id) {
  switch (expr->kind) {
    case ExprKind::name:
    case ExprKind::integer:
    case ExprKind::real:
    case ExprKind::boolean:
      expr->set_word(text(id));
      return;
    case ExprKind::attribute:
      return attribute(expr, id);
    case ExprKind::call:
      return call(expr, id);
    case ExprKind::subscript:
      return subscript(expr, id);
    case ExprKind::text:
      kind(id) == Kind::string ? string(expr, id) : concatenated(expr, id);
      if (may_name(*expr)) file_.dotted_texts.push_back(expr->word());
      return;
    case ExprKind::dict:
      return dictionary(expr, id);
    case ExprKind::unary:
    case ExprKind::binary:
    case ExprKind::logical:
      return operation(expr, id);
    case ExprKind::comparison:
      return comparison(expr, id);
    case ExprKind::comprehension:
      return comprehension(expr, id);
    case ExprKind::lambda:
      return lambda(expr, id);
    case ExprKind::conditional:
      take_children(expr, id);
      if (expr->children().size() == 3) return;
      expr->kind = ExprKind::other;  // not read as a whole
      return expr->set_children({});
    case ExprKind::starred:
      expr->set_word(text(id).starts_with("**") ? "**" : "*");
      return take_children(expr, id);
    case ExprKind::none:
    case ExprKind::ellipsis:
    case ExprKind::other:
      return;
    default:
      return take_children(expr, id);
  }
}

void Lowering::push(Id id, Expr* parent) {
  Expr* expr = expression(id);
  expr->parent = parent;
  children_.push_back(expr);
}

void Lowering::set_children(Expr* expr, std::size_t mark) {
  const auto own = std::span<const Expr* const>(children_).subspan(mark);
  expr->set_children(own.size() == 1 ? own : arena_.copy(own));
  children_.resize(mark);
}

void Lowering::take_children(Expr* expr, Id id) {
  const std::size_t mark = children_.size();
  each_child(id, [&](Id child) {
    if (kind(child) != Kind::token) push(child, expr);
  });
  set_children(expr, mark);
}

void Lowering::attribute(Expr* expr, Id id) {
  const std::size_t mark = children_.size();
  if (const Id object = child(id, Field::object)) push(object, expr);
  if (const Id name = child(id, Field::attribute)) expr->set_word(text(name));
  set_children(expr, mark);
}

void Lowering::subscript(Expr* expr, Id id) {
  take_children(expr, id);  // the object comes first, and nothing else is named
}

void Lowering::operation(Expr* expr, Id id) {
  const std::size_t mark = children_.size();
  if (kind(id) == Kind::not_operator) expr->set_word("not");
  each_child(id, [&](Id child) {
    if (kind(child) == Kind::token) {
      expr->set_word(text(child));
    } else {
      push(child, expr);
    }
  });
  set_children(expr, mark);
}

void Lowering::comparison(Expr* expr, Id id) {
  const std::size_t mark = children_.size();
  each_child(id, [&](Id child) {
    if (node(child).field == Field::operator_) {
      if (expr->word().empty()) expr->set_word(text(child));
    } else {
      push(child, expr);
    }
  });
  set_children(expr, mark);
}

void Lowering::dictionary(Expr* expr, Id id) {
  const std::size_t mark = children_.size();
  each_child(id, [&](Id child) {
    if (kind(child) == Kind::pair) {
      const Id key = this->child(child, Field::key);
      const Id value = this->child(child, Field::value);
      if (key == 0 || value == 0) return;
      push(key, expr);
      push(value, expr);
    } else if (kind(child) == Kind::dictionary_splat) {
      Expr* key = make(ExprKind::other, child);
      key->parent = expr;
      key->set_word("**");
      children_.push_back(key);
      push(child, expr);
    }
  });
  set_children(expr, mark);
}

void Lowering::comprehension(Expr* expr, Id id) {
  const std::size_t mark = children_.size();
  each_child(id, [&](Id child) {
    if (kind(child) == Kind::token) return;
    if (kind(child) == Kind::for_in_clause) {
      Expr* clause = make(ExprKind::for_clause, child);
      clause->parent = expr;
      take_children(clause, child);
      children_.push_back(clause);
    } else if (kind(child) == Kind::pair || kind(child) == Kind::if_clause) {
      each_child(child, [&](Id part) {
        if (kind(part) != Kind::token) push(part, expr);
      });
    } else {
      push(child, expr);
    }
  });
  set_children(expr, mark);
}

void Lowering::lambda(Expr* expr, Id id) {
  FunctionDef& def = memory_.functions.emplace_back();
  def.statement = statement_;
  def.outer = function_;
  def.file = &file_;
  def.returns = &unknown_type();
  if (const Id list = child(id, Field::parameters)) def.parameters = parameters(list);
  expr->set_function(&def);
  const std::size_t mark = children_.size();
  if (const Id body = child(id, Field::body)) push(body, expr);
  set_children(expr, mark);
}

void Lowering::string(Expr* expr, Id id) {
  const std::size_t mark = children_.size();
  std::uint32_t begin = node(id).begin;
  std::uint32_t end = node(id).end;
  each_child(id, [&](Id child) {
    if (kind(child) == Kind::string_start) begin = node(child).end;
    if (kind(child) == Kind::string_end) end = node(child).begin;
    if (kind(child) != Kind::interpolation) return;
    expr->kind = ExprKind::format;
    if (const Id inner = expression_child(child)) push(inner, expr);
  });
  if (begin <= end) expr->set_word(std::string_view(file_.text).substr(begin, end - begin));
  set_children(expr, mark);
}

// "a" "b": an f-string if one of them is.
void Lowering::concatenated(Expr* expr, Id id) {
  const std::size_t mark = children_.size();
  std::string joined;
  each_child(id, [&](Id child) {
    if (kind(child) != Kind::string) return;
    Expr part;
    string(&part, child);
    joined += part.word();
    if (part.kind == ExprKind::format) expr->kind = ExprKind::format;
    for (const Expr* inner : part.children()) {
      const_cast<Expr*>(inner)->parent = expr;
      children_.push_back(inner);
    }
  });
  expr->set_word(arena_.copy(std::string_view(joined)));
  set_children(expr, mark);
}

void Lowering::call(Expr* expr, Id id) {
  Call* call = memory_.calls.make<Call>();
  expr->set_call(call);
  call->expr = expr;
  call->statement = statement_;
  call->function = function_;
  call->file = &file_;
  file_.calls.push_back(call);
  const std::size_t mark = children_.size();
  const Id callee = child(id, Field::function);
  if (callee != 0) {
    push(callee, expr);
    const Expr* written = children_.back();
    call->method = written->kind == ExprKind::name || written->kind == ExprKind::attribute
                       ? written->word()
                       : std::string_view();
    if (written->kind == ExprKind::attribute && !written->children().empty()) {
      call->receiver = written->children()[0];
    }
  }
  std::vector<Argument> arguments;
  if (const Id list = child(id, Field::arguments)) {
    call->open_paren = node(list).begin;
    call->close_paren = node(list).end - 1;
    if (kind(list) == Kind::argument_list) {
      each_child(list, [&](Id child) { argument(child, expr, arguments); });
    } else {
      argument(list, expr, arguments);  // f(x for x in y)
    }
  }
  call->arguments = arena_.copy(std::span<const Argument>(arguments));
  set_children(expr, mark);
}

void Lowering::argument(Id id, Expr* expr, std::vector<Argument>& arguments) {
  if (kind(id) == Kind::token || kind(id) == Kind::error) return;
  Argument argument;
  argument.range = range(id);
  Id value = id;
  if (kind(id) == Kind::keyword_argument) {
    const Id name = child(id, Field::name);
    value = child(id, Field::value);
    if (name == 0 || value == 0) return;
    argument.name = text(name);
  } else if (kind(id) == Kind::list_splat || kind(id) == Kind::dictionary_splat) {
    argument.unpacked = true;
    const_cast<Call*>(expr->call())->unknown_arguments = true;
  } else {
    argument.position = static_cast<std::uint32_t>(arguments.size());
  }
  push(value, expr);
  argument.value = children_.back();
  arguments.push_back(argument);
}

}  // namespace rooftile::source
