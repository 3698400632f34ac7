// Evaluation of operators that choose and reorder elements.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/evaluate_call.h"

namespace rooftile::onnx_format {
namespace {

// Elements of one axis that a slice takes.
std::vector<std::size_t> slice_indexes(std::int64_t extent, std::int64_t start, std::int64_t end,
                                       std::int64_t step) {
  std::vector<std::size_t> indexes;
  if (start < 0) start += extent;
  if (end < 0 && end > std::numeric_limits<std::int64_t>::min() + extent) end += extent;
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, extent);
    end = std::clamp<std::int64_t>(end, 0, extent);
    for (; start < end; start += std::min(step, extent)) {
      indexes.push_back(static_cast<std::size_t>(start));
    }
  } else {
    start = std::clamp<std::int64_t>(start, -1, extent - 1);
    end = std::clamp<std::int64_t>(end, -1, extent - 1);
    for (; start > end; start += std::max(step, -extent)) {
      indexes.push_back(static_cast<std::size_t>(start));
    }
  }
  return indexes;
}

// Keeps the given indexes of one axis.
Constant take(const Constant& data, std::size_t axis, const std::vector<std::size_t>& indexes) {
  Constant result{data.dims, data.elem_type, {}};
  result.dims[axis] = static_cast<std::int64_t>(indexes.size());
  std::size_t outer = 1;
  std::size_t inner = 1;
  for (std::size_t i = 0; i < data.dims.size(); ++i) {
    if (i < axis) outer *= static_cast<std::size_t>(data.dims[i]);
    if (i > axis) inner *= static_cast<std::size_t>(data.dims[i]);
  }
  for (std::size_t o = 0; o < outer; ++o) {
    for (const std::size_t index : indexes) {
      const auto at = data.elements.begin() +
                      static_cast<std::ptrdiff_t>(
                          (o * static_cast<std::size_t>(data.dims[axis]) + index) * inner);
      result.elements.insert(result.elements.end(), at, at + static_cast<std::ptrdiff_t>(inner));
    }
  }
  return result;
}

}  // namespace

std::size_t count_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
  return count;
}

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return {};
  return static_cast<std::size_t>(axis);
}

std::optional<std::int64_t> integer_of(Number number) {
  if (!is_known(number) || std::fabs(number) > 9.3e18L) return {};
  if (number >= 9223372036854775807.0L) return std::numeric_limits<std::int64_t>::max();
  if (number <= -9223372036854775808.0L) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(number);
}

std::optional<Shape> integers(const Call& call, std::size_t index, std::string_view name) {
  Shape result;
  if (const Constant* constant = call.input(index)) {
    for (const Number element : constant->elements) {
      const auto value = integer_of(element);
      if (!value) return {};
      result.push_back(*value);
    }
    return result;
  }
  const auto* found = call.attribute(name);
  if (found == nullptr) return {};
  result.assign(found->ints().begin(), found->ints().end());
  return result;
}

std::optional<Constant> gather(const Call& call) {
  const Constant* data = call.input(0);
  const Constant* indices = call.input(1);
  if (data == nullptr || indices == nullptr) return {};
  const auto axis = axis_of(call.integer("axis", 0), data->dims.size());
  if (!axis) return {};
  const Shape outer(data->dims.begin(), data->dims.begin() + static_cast<std::ptrdiff_t>(*axis));
  const Shape inner(data->dims.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, data->dims.end());
  const auto extent = data->dims[*axis];
  const std::size_t block = count_of(inner);
  Constant result{outer, data->elem_type, {}};
  result.dims.insert(result.dims.end(), indices->dims.begin(), indices->dims.end());
  result.dims.insert(result.dims.end(), inner.begin(), inner.end());
  if (count_of(outer) * indices->elements.size() * block > kMaxConstantElements) return {};
  for (std::size_t o = 0; o < count_of(outer); ++o) {
    for (const Number element : indices->elements) {
      auto index = integer_of(element);
      if (!index) return {};
      if (*index < 0) *index += extent;
      if (*index < 0 || *index >= extent) return {};
      const std::size_t at =
          (o * static_cast<std::size_t>(extent) + static_cast<std::size_t>(*index)) * block;
      for (std::size_t i = 0; i < block; ++i) result.elements.push_back(data->elements[at + i]);
    }
  }
  return result;
}

std::optional<Constant> concat(const Call& call) {
  const auto shape = call.output_shape();
  const Constant* first = call.input(0);
  if (first == nullptr || first->dims.empty()) return {};
  const auto axis = axis_of(call.integer("axis", 0), first->dims.size());
  if (!axis) return {};
  Constant result{first->dims, first->elem_type, {}};
  result.dims[*axis] = 0;
  std::size_t outer = 1;
  for (std::size_t i = 0; i < *axis; ++i) outer *= static_cast<std::size_t>(first->dims[i]);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Constant* input = call.input(i);
    if (input == nullptr || input->dims.size() != first->dims.size()) return {};
    result.dims[*axis] += input->dims[*axis];
  }
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const auto& elements = call.input(i)->elements;
      const std::size_t block = elements.size() / outer;
      const auto at = elements.begin() + static_cast<std::ptrdiff_t>(o * block);
      result.elements.insert(result.elements.end(), at, at + static_cast<std::ptrdiff_t>(block));
    }
  }
  if (shape && *shape != result.dims) return {};
  if (result.elements.size() != count_of(result.dims)) return {};
  return result;
}

std::optional<Constant> slice(const Call& call) {
  const Constant* data = call.input(0);
  const auto starts = integers(call, 1, "starts");
  const auto ends = integers(call, 2, "ends");
  if (data == nullptr || !starts || !ends || starts->size() != ends->size()) return {};
  Shape axes(starts->size());
  std::iota(axes.begin(), axes.end(), 0);
  if (const auto given = integers(call, 3, "axes")) axes = *given;
  Shape steps(starts->size(), 1);
  if (const auto given = integers(call, 4, "steps")) steps = *given;
  if (axes.size() != starts->size() || steps.size() != starts->size()) return {};
  Constant result = *data;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_of(axes[i], result.dims.size());
    if (!axis || steps[i] == 0) return {};
    result =
        take(result, *axis, slice_indexes(result.dims[*axis], (*starts)[i], (*ends)[i], steps[i]));
  }
  return result;
}

std::optional<Constant> transpose(const Call& call) {
  const Constant* data = call.input(0);
  if (data == nullptr) return {};
  const std::size_t rank = data->dims.size();
  Shape perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (const auto* found = call.attribute("perm"))
    perm.assign(found->ints().begin(), found->ints().end());
  if (perm.size() != rank) return {};
  std::vector<std::size_t> strides(rank, 1);
  for (std::size_t i = rank; i-- > 1;)
    strides[i - 1] = strides[i] * static_cast<std::size_t>(data->dims[i]);
  Constant result{{}, data->elem_type, {}};
  for (const std::int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return {};
    result.dims.push_back(data->dims[static_cast<std::size_t>(axis)]);
  }
  const std::size_t count = data->elements.size();
  if (count_of(result.dims) != count) return {};
  for (std::size_t flat = 0; flat < count; ++flat) {
    std::size_t rest = flat;
    std::size_t from = 0;
    for (std::size_t i = rank; i-- > 0;) {
      const auto extent = static_cast<std::size_t>(result.dims[i]);
      from += rest % extent * strides[static_cast<std::size_t>(perm[i])];
      rest /= extent;
    }
    if (from >= count) return {};
    result.elements.push_back(data->elements[from]);
  }
  return result;
}

std::optional<Constant> split(const Call& call) {
  const Constant* data = call.input(0);
  const auto shape = call.output_shape();
  if (data == nullptr || !shape || data->dims.size() != 1 || shape->size() != 1) return {};
  std::size_t start = 0;
  if (const auto sizes = integers(call, 1, "split")) {
    for (int i = 0; i < call.output && i < static_cast<int>(sizes->size()); ++i) {
      start += static_cast<std::size_t>(
          std::max<std::int64_t>((*sizes)[static_cast<std::size_t>(i)], 0));
    }
  } else {
    start = static_cast<std::size_t>(call.output * (*shape)[0]);
  }
  const auto length = static_cast<std::size_t>((*shape)[0]);
  if (start + length > data->elements.size()) return {};
  const auto at = data->elements.begin() + static_cast<std::ptrdiff_t>(start);
  return Constant{*shape, data->elem_type, {at, at + static_cast<std::ptrdiff_t>(length)}};
}

std::optional<Constant> tile(const Call& call) {
  const Constant* data = call.input(0);
  const auto shape = call.output_shape();
  if (data == nullptr || !shape || shape->size() != 1 || data->elements.empty()) return {};
  Constant result{*shape, data->elem_type, {}};
  for (std::size_t i = 0; i < count_of(*shape); ++i) {
    result.elements.push_back(data->elements[i % data->elements.size()]);
  }
  return result;
}

}  // namespace rooftile::onnx_format
