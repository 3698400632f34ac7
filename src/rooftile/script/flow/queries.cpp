#include "rooftile/script/flow/queries.h"

#include <unordered_set>
#include <vector>

#include "rooftile/script/flow/flow.h"

namespace rooftile::script {

const source::Expr& written(const source::SourceFacts& facts, const source::Expr& expr) {
  const auto place = graphs_of(facts).place(expr);
  if (!place) return expr;
  const Function& function = *place->function;
  ValueId value = place->value;
  while (function.values[value].op == Op::name) value = function.values[value].operands[0];
  const source::Expr* found = function.values[value].expr;
  return found == nullptr ? expr : *found;
}

bool is_made_of(const source::SourceFacts& facts, const source::Expr& value,
                std::string_view variable) {
  const auto place = graphs_of(facts).place(value);
  if (!place) return false;
  const Function& function = *place->function;
  std::vector<ValueId> open{place->value};
  std::unordered_set<ValueId> seen{place->value};
  while (!open.empty()) {
    const Instruction& made = function.values[open.back()];
    open.pop_back();
    if (made.op == Op::name && made.word == variable) return true;
    for (const ValueId operand : made.operands) {
      if (seen.insert(operand).second) open.push_back(operand);
    }
  }
  return false;
}

}  // namespace rooftile::script
