#include "rooftile/analysis/trace/collective_shape.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

// What a collective moved: as its kernel says, else as the operator that launched it.
std::uint32_t collective_of(const Timeline& timeline, const Links& links, std::uint32_t row) {
  const std::uint32_t shape = timeline.launches[timeline.gpu.details[row]].collective;
  if (shape != 0) return shape;
  const HostOps& ops = timeline.ops;
  for (std::uint32_t op = links.gpu_op[row]; op != kNone; op = links.op_parent[op]) {
    if (ops.collective[op] != 0) return ops.collective[op];
  }
  return 0;
}

// "c10d::alltoall_base_", "nccl:all_to_all" -> what follows; empty for other names.
std::string_view collective_name(std::string_view op) {
  for (const std::string_view prefix : {"c10d::", "nccl:"}) {
    if (op.starts_with(prefix)) return op.substr(prefix.size());
  }
  return {};
}

std::int64_t elements_in(const std::vector<std::int64_t>& dims) {
  std::int64_t elements = dims.empty() ? 0 : 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) return 0;
  }
  return elements;
}

// "c10::Half", "float", "long int" -> "Half", "Float", "Long"; empty for what is no tensor.
std::string tensor_dtype(std::string_view type) {
  constexpr std::string_view kPrefix = "c10::";
  if (type.starts_with(kPrefix)) return std::string(type.substr(kPrefix.size()));
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPlain{
      {{"float", "Float"},
       {"double", "Double"},
       {"int", "Int"},
       {"long int", "Long"},
       {"unsigned char", "Byte"},
       {"signed char", "Char"}}};
  const auto found =
      std::ranges::find(kPlain, type, &std::pair<std::string_view, std::string_view>::first);
  return found == kPlain.end() ? "" : std::string(found->second);
}

// What old traces say, without arguments of collectives: the name, the first tensor of the range
// "nccl:all_reduce", and the size of the group, which record_param_comms gets last.
CollectiveShape shape_of_operators(const Timeline& timeline, const Links& links,
                                   std::uint32_t row) {
  constexpr std::size_t kParameters = 8;  // tensors, number, group, rank, name, sizes ×2, ranks
  CollectiveShape shape;
  for (std::uint32_t op = links.gpu_op[row]; op != kNone; op = links.op_parent[op]) {
    const std::string_view name = timeline.strings[timeline.ops.name[op]];
    const OpArguments& given = timeline.arguments[timeline.ops.arguments[op]];
    if (shape.name.empty()) shape.name = collective_name(name);
    const bool has_tensor =
        name.starts_with("nccl:") && !given.dims.empty() && !given.types.empty();
    const std::string dtype = has_tensor ? tensor_dtype(given.types.front()) : "";
    if (!dtype.empty() && shape.in_elements == 0) {
      shape.in_elements = elements_in(given.dims.front());
      shape.dtype = dtype;
    }
    if (name == "record_param_comms" && given.values.size() == kParameters) {
      shape.group_size = parse_integer(given.values.back()).value_or(0);
    }
  }
  return shape;
}

}  // namespace

CollectiveShape collective_shape(const Timeline& timeline, const Links& links, std::uint32_t row) {
  const std::uint32_t recorded = collective_of(timeline, links, row);
  return recorded != 0 ? timeline.collectives[recorded] : shape_of_operators(timeline, links, row);
}

}  // namespace rooftile::trace
