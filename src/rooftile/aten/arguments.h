// Arguments of an ATen operator, read by position. For this folder only.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/workload/op.h"
#include "rooftile/workload/timeline.h"

namespace rooftile::aten_detail {

struct Tensor {
  Extents dims;
  Extents strides;  // empty = not recorded
  Dtype dtype = Dtype::fp32;

  std::int64_t size(std::size_t axis) const { return dims[axis]; }
  std::size_t rank() const { return dims.size(); }
  std::int64_t elements() const;  // at most kMaxElements, see tensor()
};

// Dtype of "c10::BFloat16", "float", "long int" …; of PyTorch's number for it: "15".
std::optional<Dtype> parse_type(std::string_view type);
std::optional<Dtype> parse_type_number(std::string_view number);

class Arguments {
 public:
  explicit Arguments(const OpArguments& arguments) : arguments_(arguments) {}

  std::size_t count() const { return arguments_.dims.size(); }
  // A tensor with at least one axis and no size below 1 or too large to count.
  std::optional<Tensor> tensor(std::size_t position) const;
  // An argument that is a tensor of any rank: an optional one that was given.
  bool is_tensor(std::size_t position) const;
  // "3", "[3, 3]" and "" are 3, {3, 3} and nothing; a single number of a list counts for all axes.
  std::optional<std::int64_t> integer(std::size_t position) const;
  std::optional<Extents> integers(std::size_t position) const;
  std::optional<Extents> per_axis(std::size_t position, std::size_t axes) const;
  std::optional<bool> flag(std::size_t position) const;
  std::optional<std::vector<bool>> flags(std::size_t position) const;
  // Sizes of the tensors of a list; none for one that is None or a single number.
  std::vector<Extents> entries(std::size_t position) const;
  // Those with at least one element and axis.
  std::vector<Extents> list(std::size_t position) const;
  // Their type, where it was recorded: "TensorList<c10::BFloat16>".
  std::optional<Dtype> list_type(std::size_t position) const;
  // Whether values were recorded and this one is None.
  bool is_absent(std::size_t position) const;
  bool has_value(std::size_t position) const { return !value(position).empty(); }
  std::string_view value(std::size_t position) const;
  const OpArguments& recorded() const { return arguments_; }

 private:
  const OpArguments& arguments_;
};

// The operation, if its dims are valid.
std::vector<Op> valid(Body body, const Dtypes& dtypes, Phase phase = Phase::forward);

}  // namespace rooftile::aten_detail
