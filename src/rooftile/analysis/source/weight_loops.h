// Python loops over the weights of a model, and what they do to each of them.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct WeightList {
  const Call* call = nullptr;   // model.parameters()
  const Expr* shown = nullptr;  // what the message names; null where nothing lists weights
};

// What the loop's iterable lists, variables followed.
WeightList lists_parameters(const Expr* iterable);
// `new = model.state_dict(); for k in average: average[k] = … new[k]`
WeightList weights_by_key(const Statement& loop);

// Whether the expression starts a kernel for a weight or gradient.
bool is_tensor_operation(const Expr& part);

struct LoopBody {
  const Statement* operation = nullptr;
  bool uses_target = false;  // some operation is about what the loop goes through
  bool is_multi_tensor = false;
};

LoopBody read_body(const Statement& loop);

}  // namespace rooftile::source
