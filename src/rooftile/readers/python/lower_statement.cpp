// Statements of lowering.h.
#include "rooftile/readers/python/lowering.h"

namespace rooftile::source {
namespace {

using Kind = python::SyntaxKind;

StatementKind simple_kind(Kind kind) {
  switch (kind) {
    case Kind::return_statement:
      return StatementKind::return_;
    case Kind::assert_statement:
      return StatementKind::assert_;
    case Kind::raise_statement:
      return StatementKind::raise_;
    case Kind::delete_statement:
      return StatementKind::delete_;
    case Kind::print_statement:
      return StatementKind::print;
    case Kind::pass_statement:
      return StatementKind::pass;
    case Kind::break_statement:
      return StatementKind::break_;
    case Kind::continue_statement:
      return StatementKind::continue_;
    case Kind::global_statement:
    case Kind::nonlocal_statement:
      return StatementKind::global_;
    default:
      return StatementKind::other;
  }
}

bool has_value(StatementKind kind) {
  return kind == StatementKind::return_ || kind == StatementKind::assert_ ||
         kind == StatementKind::raise_ || kind == StatementKind::delete_ ||
         kind == StatementKind::print;
}

}  // namespace

Statement* Lowering::make_statement(StatementKind kind, Id id) {
  Statement* statement = memory_.statements.make<Statement>();
  statement->kind = kind;
  statement->range = range(id);
  statement->function = function_;
  statement->file = &file_;
  file_.statements.push_back(statement);
  statement_ = statement;
  return statement;
}

Statement* Lowering::add(StatementKind kind, Id id, std::vector<Statement*>& out) {
  out.push_back(make_statement(kind, id));
  return out.back();
}

std::span<const Statement* const> Lowering::finish(const std::vector<Statement*>& statements,
                                                   const Statement* parent) {
  const std::vector<const Statement*> fixed(statements.begin(), statements.end());
  const auto kept = arena_.copy(std::span<const Statement* const>(fixed));
  for (std::uint32_t i = 0; i < statements.size(); ++i) {
    statements[i]->block = kept;
    statements[i]->index = i;
    statements[i]->parent = parent;
  }
  return kept;
}

std::span<const Statement* const> Lowering::block(Id id, const Statement* parent) {
  if (depth_ >= kMaxDepth) {
    ++file_.too_deep;
    return {};
  }
  ++depth_;
  std::vector<Statement*> statements;
  each_child(id, [&](Id child) { statement(child, statements); });
  --depth_;
  return finish(statements, parent);
}

void Lowering::statement(Id id, std::vector<Statement*>& out) {
  switch (kind(id)) {
    case Kind::expression_statement:
      return expression_statement(id, out);
    case Kind::if_statement:
      return if_statement(id, out);
    case Kind::for_statement:
    case Kind::while_statement:
      return loop_statement(id, out);
    case Kind::with_statement:
      return with_statement(id, out);
    case Kind::try_statement:
      return try_statement(id, out);
    case Kind::match_statement:
      return match_statement(id, out);
    case Kind::function_definition:
      return function(id, id, out);
    case Kind::class_definition:
      return class_definition(id, id, out);
    case Kind::decorated_definition:
      return decorated(id, out);
    case Kind::import_statement:
      return import(id, out);
    case Kind::import_from_statement:
    case Kind::future_import_statement:
      return import_from(id, out);
    case Kind::token:
      return;
    case Kind::error:
      return error(id, out);
    default:
      return simple(id, out);
  }
}

// Statements and calls inside of what could not be read are still there.
void Lowering::error(Id id, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::other, id, out);
  if (depth_ >= kMaxDepth) return;
  ++depth_;
  std::vector<Statement*> inside;
  each_child(id, [&](Id child) {
    if (kind(child) == Kind::call || kind(child) == Kind::assignment) {
      statement_ = statement;
      Statement* made = add(StatementKind::expression, child, inside);
      made->value = expression(child);
    } else if (kind(child) >= Kind::import_statement && kind(child) < Kind::block) {
      this->statement(child, inside);
    }
  });
  --depth_;
  statement->body = finish(inside, statement);
}

void Lowering::simple(Id id, std::vector<Statement*>& out) {
  Statement* statement = add(simple_kind(kind(id)), id, out);
  if (!has_value(statement->kind)) return;
  std::vector<Id> values;
  each_child(id, [&](Id child) {
    if (kind(child) != Kind::token) values.push_back(child);
  });
  if (values.empty()) return;
  if (values.size() == 1 || statement->kind != StatementKind::print) {
    statement->value = expression(values[0]);
    return;
  }
  Expr* tuple = make(ExprKind::tuple, id);
  const std::size_t mark = children_.size();
  for (const Id value : values) push(value, tuple);
  set_children(tuple, mark);
  statement->value = tuple;
}

void Lowering::expression_statement(Id id, std::vector<Statement*>& out) {
  const Id inner = expression_child(id);
  if (inner == 0) return;
  if (kind(inner) == Kind::assignment || kind(inner) == Kind::augmented_assignment) {
    return assignment(inner, out);
  }
  Statement* statement = add(StatementKind::expression, id, out);
  statement->value = expression(inner);
}

// a = b = c is two assignments of one value.
void Lowering::assignment(Id id, std::vector<Statement*>& out) {
  std::vector<Id> targets;
  Id value = id;
  bool augmented = false;
  while (value != 0 &&
         (kind(value) == Kind::assignment || kind(value) == Kind::augmented_assignment)) {
    augmented = kind(value) == Kind::augmented_assignment;
    if (const Id left = child(value, Field::left)) targets.push_back(left);
    value = child(value, Field::right);
  }
  const Expr* shared = nullptr;
  for (std::size_t i = targets.size(); i > 0; --i) {
    Statement* statement = add(StatementKind::assignment, id, out);
    statement->word = "=";
    if (augmented) {
      if (const Id sign = child(id, Field::operator_)) statement->word = text(sign);
    }
    if (shared == nullptr && value != 0) shared = expression(value);
    statement->value = shared;
    statement->target = expression(targets[i - 1]);
  }
}

void Lowering::if_statement(Id id, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::if_, id, out);
  if (const Id condition = child(id, Field::condition)) statement->value = expression(condition);
  if (const Id body = child(id, Field::consequence)) statement->body = block(body, statement);
  std::vector<Id> clauses;
  each_child(id, [&](Id part) {
    if (kind(part) == Kind::elif_clause || kind(part) == Kind::else_clause) clauses.push_back(part);
  });
  // From the last clause to the first, each becomes the alternative of the one before it.
  std::vector<Statement*> chain{statement};
  const int outer_depth = depth_;
  for (const Id clause : clauses) {
    if (++depth_ >= kMaxDepth) {
      ++file_.too_deep;
      break;
    }
    if (kind(clause) == Kind::else_clause) {
      if (const Id body = child(clause, Field::body)) {
        chain.back()->otherwise = block(body, chain.back());
      }
      break;
    }
    Statement* nested = make_statement(StatementKind::if_, clause);
    if (const Id test = child(clause, Field::condition)) nested->value = expression(test);
    if (const Id body = child(clause, Field::consequence)) nested->body = block(body, nested);
    chain.back()->otherwise = finish({nested}, chain.back());
    chain.push_back(nested);
  }
  depth_ = outer_depth;
}

void Lowering::loop_statement(Id id, std::vector<Statement*>& out) {
  const bool is_for = kind(id) == Kind::for_statement;
  Statement* statement = add(is_for ? StatementKind::for_ : StatementKind::while_, id, out);
  Loop& loop = memory_.loops.emplace_back();
  loop.statement = statement;
  loop.function = function_;
  loop.file = &file_;
  statement->loop = &loop;
  file_.loops.push_back(&loop);
  const Id value = child(id, is_for ? Field::right : Field::condition);
  if (value != 0) statement->value = expression(value);
  if (const Id left = is_for ? child(id, Field::left) : 0) statement->target = expression(left);
  if (const Id body = child(id, Field::body)) statement->body = block(body, statement);
  if (const Id clause = child(id, Kind::else_clause)) {
    if (const Id body = child(clause, Field::body)) statement->otherwise = block(body, statement);
  }
}

void Lowering::with_statement(Id id, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::with_, id, out);
  std::vector<WithItem> items;
  if (const Id clause = child(id, Kind::with_clause)) {
    each_child(clause, [&](Id item) {
      if (kind(item) == Kind::with_item) with_item(item, items);
    });
  }
  statement->items = arena_.copy(std::span<const WithItem>(items));
  if (const Id body = child(id, Field::body)) statement->body = block(body, statement);
}

void Lowering::with_item(Id id, std::vector<WithItem>& items) {
  Id value = child(id, Field::value);
  if (value == 0) return;
  WithItem item;
  if (kind(value) == Kind::as_pattern) {
    if (const Id target = child(value, Field::alias)) {
      const Id inner = expression_child(target);
      if (inner != 0) item.target = expression(inner);
    }
    value = expression_child(value);
    if (value == 0) return;
  }
  // (a(), b()) is read as one tuple by the grammar.
  item.context = expression(value);
  if (item.context->kind != ExprKind::tuple) {
    items.push_back(item);
    return;
  }
  for (const Expr* each : item.context->children()) items.push_back({each, nullptr});
}

void Lowering::try_statement(Id id, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::try_, id, out);
  if (const Id body = child(id, Field::body)) statement->body = block(body, statement);
  std::vector<Statement*> handlers;
  each_child(id, [&](Id part) {
    std::string_view word;
    if (kind(part) == Kind::except_clause) word = "except";
    if (kind(part) == Kind::except_group_clause) word = "except*";
    if (kind(part) == Kind::else_clause) word = "else";
    if (kind(part) == Kind::finally_clause) word = "finally";
    if (word.empty()) return;
    Statement* handler = add(StatementKind::handler, part, handlers);
    handler->word = word;
    if (const Id body = child(part, Kind::block)) handler->body = block(body, handler);
  });
  statement->otherwise = finish(handlers, statement);
}

void Lowering::match_statement(Id id, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::match_, id, out);
  if (const Id subject = child(id, Field::subject)) statement->value = expression(subject);
  const Id body = child(id, Kind::block);
  std::vector<Statement*> cases;
  each_child(body == 0 ? id : body, [&](Id part) {
    if (kind(part) != Kind::case_clause) return;
    Statement* each = add(StatementKind::case_, part, cases);
    if (const Id inside = child(part, Kind::block)) each->body = block(inside, each);
  });
  statement->body = finish(cases, statement);
}

}  // namespace rooftile::source
