// The walk behind lower.h, over one body.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rooftile/script/ir/lower.h"
#include "rooftile/script/ir/ssa_builder.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::script {

class LowerFunction {
 public:
  LowerFunction(const source::File& file, const PendingBody& body, const Function* outer,
                std::uint32_t index, std::vector<PendingBody>& pending);

  std::unique_ptr<const Function> run();

 private:
  using Expr = source::Expr;
  using Statement = source::Statement;
  using Block = std::span<const Statement* const>;
  struct LoopBlocks {
    BlockId head, after;
  };

  // Statements (lower_statement.cpp).
  void block(Block statements);
  void statement(const Statement& statement);
  void assignment(const Statement& statement);
  void if_statement(const Statement& statement);
  void for_loop(const Statement& statement);
  void while_loop(const Statement& statement);
  void loop_body(const Statement& statement, BlockId head, BlockId after);
  void with_statement(const Statement& statement);
  void try_statement(const Statement& statement);
  void except_handlers(Block handlers, std::vector<BlockId>& ends);
  void match_statement(const Statement& statement);
  void forget_names(const Statement& statement, std::string_view after);
  void function_definition(const Statement& statement);
  void class_definition(const Statement& statement);
  ValueId decorated(std::span<const Expr* const> decorators, ValueId made);
  void imports(const Statement& statement);
  void globals(const Statement& statement);
  void del(const Expr& target);
  void leave(const Statement& statement);
  void may_raise();

  // Expressions (lower_expression.cpp).
  ValueId value(const Expr* expr);
  ValueId made(const Expr& expr);
  ValueId name(const Expr& expr);
  ValueId lambda(const Expr& expr);
  ValueId conditional(const Expr& expr);
  ValueId logical(const Expr& expr);
  ValueId comprehension(const Expr& expr);
  ValueId clauses(std::span<const Expr* const> parts, std::size_t next, const Expr& whole);
  std::vector<ValueId> values(std::span<const Expr* const> exprs);
  ValueId all_of(Op op, std::string_view word, const Expr& expr);
  ValueId closure(const source::FunctionDef& def, std::string_view name, const Expr* lambda);
  void assign(const Expr& target, ValueId value);
  void unpack(const Expr& target, ValueId value);
  void write(std::string_view name, ValueId value);
  std::string_view in_scope(std::string_view name) const;
  std::string_view keep(std::string text);
  void open(BlockId block) { builder_.enter(block); }

  const source::File& file_;
  const PendingBody body_;
  const std::uint32_t index_;
  std::vector<PendingBody>& pending_;
  SsaBuilder builder_;
  std::vector<ExprValue> places_;
  std::vector<ValueId> stack_;                   // operands of the expressions being read
  std::unordered_set<std::string_view> shared_;  // declared global or nonlocal
  std::vector<LoopBlocks> loops_;
  std::vector<BlockId> handlers_;  // where an exception of the current statement may lead
  // Names of the comprehensions around, each with the one that it has in this function.
  std::vector<std::pair<std::string_view, std::string_view>> inner_names_;
  int comprehensions_ = 0;
};

}  // namespace rooftile::script
