// The walk behind lower.h: recursive, to a limited depth.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/readers/python/lower.h"

namespace rooftile::source {

class Lowering {
 public:
  Lowering(const python::SyntaxTree& tree, File& file, FactsMemory& memory);

  void run();

 private:
  using Id = std::uint32_t;
  using Kind = python::SyntaxKind;
  using Field = python::SyntaxField;

  // Nested deeper than this, expressions become `other` and blocks empty: generated tables and
  // hostile input, not training code.
  static constexpr int kMaxDepth = 120;

  const python::SyntaxNode& node(Id id) const { return tree_.nodes[id]; }
  Kind kind(Id id) const { return tree_.nodes[id].kind; }
  std::string_view text(Id id) const;
  // The first child with the field, or 0 (the root is nobody's child).
  Id child(Id id, Field field) const;
  Id child(Id id, Kind kind) const;
  // Calls action(id) for each child that is not a comment.
  template <class Action>
  void each_child(Id id, const Action& action) const;

  // Statements.
  std::span<const Statement* const> block(Id id, const Statement* parent);
  void statement(Id id, std::vector<Statement*>& out);
  void simple(Id id, std::vector<Statement*>& out);
  Statement* add(StatementKind kind, Id id, std::vector<Statement*>& out);
  Statement* make_statement(StatementKind kind, Id id);
  void expression_statement(Id id, std::vector<Statement*>& out);
  void assignment(Id id, std::vector<Statement*>& out);
  void if_statement(Id id, std::vector<Statement*>& out);
  void loop_statement(Id id, std::vector<Statement*>& out);
  void with_statement(Id id, std::vector<Statement*>& out);
  void with_item(Id id, std::vector<WithItem>& items);
  void error(Id id, std::vector<Statement*>& out);
  void try_statement(Id id, std::vector<Statement*>& out);
  void match_statement(Id id, std::vector<Statement*>& out);
  void function(Id id, Id outer, std::vector<Statement*>& out);
  void class_definition(Id id, Id outer, std::vector<Statement*>& out);
  std::span<const Expr* const> decorators(Id id);
  void decorated(Id id, std::vector<Statement*>& out);
  std::span<const Parameter> parameters(Id id);
  Parameter parameter(Id id);
  void import(Id id, std::vector<Statement*>& out);
  void import_from(Id id, std::vector<Statement*>& out);
  void bind_import(std::string_view local, std::string_view full, std::vector<ImportedName>& names);
  std::string imported_module(Id id) const;
  std::span<const Statement* const> finish(const std::vector<Statement*>& statements,
                                           const Statement* parent);
  Id expression_child(Id id) const;
  std::string qualified(std::string_view name) const;

  // Expressions.
  Expr* expression(Id id);
  Expr* make(ExprKind kind, Id id);
  void fill(Expr* expr, Id id);
  void take_children(Expr* expr, Id id);
  void set_children(Expr* expr, std::size_t mark);
  void push(Id id, Expr* parent);
  void call(Expr* expr, Id id);
  void argument(Id id, Expr* expr, std::vector<Argument>& arguments);
  void string(Expr* expr, Id id);
  void concatenated(Expr* expr, Id id);
  void attribute(Expr* expr, Id id);
  void subscript(Expr* expr, Id id);
  void operation(Expr* expr, Id id);
  void comparison(Expr* expr, Id id);
  void dictionary(Expr* expr, Id id);
  void comprehension(Expr* expr, Id id);
  void lambda(Expr* expr, Id id);
  ByteRange range(Id id) const { return {node(id).begin, node(id).end}; }

  const python::SyntaxTree& tree_;
  File& file_;
  FactsMemory& memory_;
  Arena& arena_;
  Statement* statement_ = nullptr;  // whose expressions are being read
  FunctionDef* function_ = nullptr;
  ClassDef* class_def_ = nullptr;  // whose body is being read, directly
  int depth_ = 0;
  std::vector<const Expr*> children_;  // of the expressions being read, a stack
};

template <class Action>
void Lowering::each_child(Id id, const Action& action) const {
  const Id end = tree_.nodes[id].after;
  for (Id child = id + 1; child < end; child = tree_.nodes[child].after) {
    const Kind kind = tree_.nodes[child].kind;
    if (kind != Kind::comment && kind != Kind::continuation) action(child);
  }
}

}  // namespace rooftile::source
