// Arguments of ATen operators by name: graphs name them and leave out defaults, recordings list all
// of them in order.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/workload/timeline.h"

namespace rooftile {

// One argument or result, spelled as recordings do (see OpArguments). Of a list of tensors the type
// names that of its elements: "TensorList<c10::Half>".
struct AtenValue {
  std::vector<std::int64_t> dims, strides;
  std::string type, value;
  bool is_weight = false;  // a parameter, a buffer, or a view of one

  bool operator==(const AtenValue&) const = default;
};

using NamedValues = std::vector<std::pair<std::string, AtenValue>>;

// Arguments by position, with the defaults of those that are left out. `target` is an operator with
// its overload, "conv2d.default". Operators and names that PyTorch's list (schemas.inc) lacks
// keep the order given.
std::vector<AtenValue> in_order(std::string_view target, const NamedValues& given);

OpArguments as_recorded(const std::vector<AtenValue>& values);

}  // namespace rooftile
