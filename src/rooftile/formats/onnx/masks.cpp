#include "rooftile/formats/onnx/masks.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "rooftile/base/text.h"

namespace rooftile::onnx_format {
namespace {

bool compares(std::string_view op) {
  constexpr std::array<std::string_view, 4> kNames{"Less", "LessOrEqual", "Greater",
                                                   "GreaterOrEqual"};
  return is_one_of(op, kNames);
}

// Operators that turn one form of a mask into another.
bool passes_mask_on(std::string_view op) {
  constexpr std::array<std::string_view, 14> kNames{
      "And", "Or",     "Not",     "Equal",   "Where",     "Cast",     "Mul",
      "Sub", "Expand", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Slice"};
  return is_one_of(op, kNames);
}

// Positions along one of the last two axes: [.., 1, keys] or [.., queries, 1].
bool lies_along(const std::optional<Shape>& shape, std::size_t from_last) {
  if (!shape || shape->size() < 2) return false;
  const std::size_t rank = shape->size();
  return (*shape)[rank - 1 - from_last] > 1 && (*shape)[rank - 2 + from_last] == 1;
}

}  // namespace

bool may_compute_mask(std::string_view op) {
  return op == "Trilu" || compares(op) || passes_mask_on(op);
}

bool hides_later_keys(const onnx::NodeProto& node, const std::vector<MaskInput>& inputs) {
  const std::string& op = node.op_type();
  if (op == "Trilu") return true;
  if (compares(op) && inputs.size() == 2) {
    return (lies_along(inputs[0].shape, 0) && lies_along(inputs[1].shape, 1)) ||
           (lies_along(inputs[0].shape, 1) && lies_along(inputs[1].shape, 0));
  }
  return passes_mask_on(op) && std::ranges::any_of(inputs, [](const MaskInput& input) {
           return input.value != nullptr && input.value->hides_later_keys;
         });
}

bool is_folded_triangle(const onnx::TensorProto& tensor) {
  constexpr std::array<std::string_view, 3> kCalls{"le", "tril", "triu"};
  std::string_view name = tensor.name();
  const std::size_t digits = name.find_last_not_of("0123456789");
  if (digits != std::string_view::npos && name[digits] == '_') name = name.substr(0, digits);
  const int rank = tensor.dims_size();
  return is_one_of(name, kCalls) && rank >= 2 && tensor.dims(rank - 1) > 1 &&
         tensor.dims(rank - 2) > 1;
}

}  // namespace rooftile::onnx_format
