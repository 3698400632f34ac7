// From statements to control-flow graphs in SSA form (Braun et al., "Simple and Efficient
// Construction of Static Single Assignment Form", CC 2013): a block asks its predecessors for a
// variable when it is read, phis of one value disappear at the end.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rooftile/script/ir/function.h"

namespace rooftile::script {

struct ValuePlace {
  const Function* function = nullptr;
  ValueId value = kNone;
};

// A body that was met in another one.
struct PendingBody {
  FunctionKind kind = FunctionKind::module;
  std::string_view name;
  std::uint32_t outer = 0;  // place among the unit's bodies
  const source::FunctionDef* def = nullptr;
  const source::ClassDef* class_def = nullptr;
  const source::Expr* lambda = nullptr;
};

// The functions of a file: each is lowered when it is asked for first, after those around it.
class Unit {
 public:
  explicit Unit(const source::File& file);

  const Function& module() { return *lowered(0); }
  // Null for what is not in this file.
  const Function* body(const source::FunctionDef& def);
  const Function* body(const source::ClassDef& def);
  // The value of an expression; nothing for those that do not run, as annotations of variables.
  std::optional<ValuePlace> place(const source::Expr& expr);
  // All of them, the outer ones first.
  std::vector<const Function*> all();

 private:
  const Function* lowered(std::uint32_t index);
  const Function* body_around(const source::Statement* statement);
  const Function* body_of(const source::Expr& expr);

  const source::File& file_;
  std::vector<PendingBody> bodies_;
  std::vector<std::unique_ptr<const Function>> functions_;  // of the bodies; null until needed
  std::unordered_map<const void*, std::uint32_t> places_;   // by FunctionDef or ClassDef
};

}  // namespace rooftile::script
