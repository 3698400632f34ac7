// Functions of training scripts that only compute element by element, as activations written out.
#pragma once

#include <optional>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// What a library has as one function.
enum class KnownActivation { none, gelu, gelu_tanh, hardswish, mish };

struct PointwiseFunction {
  int operations = 0;  // each a kernel of its own when it runs eagerly
  const Statement* result = nullptr;
  KnownActivation known = KnownActivation::none;
};

// Empty where the function branches, or calls anything on its tensors that does not compute element
// by element.
std::optional<PointwiseFunction> pointwise_function(const FunctionDef& function);

}  // namespace rooftile::source
