// From statements to control-flow graphs in SSA form (Braun et al., "Simple and Efficient
// Construction of Static Single Assignment Form", CC 2013): a block asks its predecessors for a
// variable when it is read, phis of one value disappear at the end.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rooftile/script/ir/function.h"

namespace rooftile::script {

struct ValuePlace {
  const Function* function = nullptr;
  ValueId value = kNone;
};

// The body of a function or module, and the functions, lambdas and class bodies inside, the outer
// ones first.
struct Unit {
  std::vector<std::unique_ptr<const Function>> functions;
  std::vector<std::pair<const source::Expr*, ValuePlace>> places;  // of each expression, sorted

  std::optional<ValuePlace> place(const source::Expr& expr) const;
};

// Of a file: its module body with what stands in it.
std::unique_ptr<const Unit> lower(const source::File& file);

}  // namespace rooftile::script
