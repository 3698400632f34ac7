#include "rooftile/analysis/trace/kernel_streams.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "rooftile/aten/operator.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

struct NamedWalk {
  std::string_view word;
  Walk walk;
};

// Parts of the names of PyTorch's kernels; the first that is found counts. TensorIterator takes the
// plain elementwise_kernel where an operand is not contiguous.
constexpr NamedWalk kWalks[] = {
    {"vectorized_elementwise_kernel", Walk::contiguous},
    {"unrolled_elementwise_kernel", Walk::converting},
    {"index_elementwise_kernel", Walk::gathered},
    {"scatter_gather_elementwise_kernel", Walk::gathered},
    {"indexSelect", Walk::gathered},
    {"gather_kernel", Walk::gathered},
    {"CatArrayBatchedCopy_vectorized", Walk::contiguous},
    {"CatArrayBatchedCopy_alignedK", Walk::contiguous},
    {"CatArrayBatchedCopy", Walk::concatenated},
    {"elementwise_kernel_with_index", Walk::contiguous},
    {"elementwise_kernel", Walk::strided},
};

// The name up to its template arguments.
std::string_view template_of(std::string_view kernel) { return kernel.substr(0, kernel.find('<')); }

std::optional<Walk> walk_of(std::string_view kernel) {
  const std::string_view function = template_of(kernel);
  for (const auto& [word, walk] : kWalks) {
    if (contains(function, word)) return walk;
  }
  return std::nullopt;
}

// "CatArrayBatchedCopy<bool, …", "…<at::native::(anonymous namespace)::OpaqueType<4u>, …".
std::optional<Dtype> copied_type(std::string_view kernel) {
  constexpr std::string_view kOpaque = "OpaqueType<";
  if (const std::size_t at = kernel.find(kOpaque); at != std::string_view::npos) {
    switch (kernel.substr(at + kOpaque.size(), 1).front()) {
      case '1':
        return Dtype::int8;
      case '2':
        return Dtype::fp16;
      case '4':
        return Dtype::fp32;
      case '8':
        return Dtype::int64;
      default:
        return std::nullopt;
    }
  }
  const std::size_t begin = kernel.find('<');
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = kernel.find_first_of(",>", begin);
  OpArguments first;
  first.types.emplace_back(kernel.substr(
      begin + 1, end == std::string_view::npos ? std::string_view::npos : end - begin - 1));
  return dtype_of_arguments(first);
}

bool is_list_operator(const OpArguments& arguments) {
  return !arguments.types.empty() && arguments.types.front() == "TensorList";
}

// A tensor of no axes on the GPU is broadcast; one on the host is none of the kernel's operands.
bool has_operand_of_no_axes(const OpArguments& arguments) {
  for (std::size_t i = 0; i < std::min(arguments.types.size(), arguments.dims.size()); ++i) {
    OpArguments one;
    one.types = {arguments.types[i]};
    if (arguments.dims[i].empty() && dtype_of_arguments(one)) return true;
  }
  return false;
}

// Where shapes show nothing that is broadcast, an operand has another order or is not dense.
Walk strided_walk(const Op& op, const OpArguments& arguments) {
  const Walk known = op.streams.walk;
  if (known != Walk::usual && known != Walk::contiguous && known != Walk::converting) return known;
  const auto* elementwise = std::get_if<Elementwise>(&op.body);
  const bool only_writes = elementwise != nullptr && elementwise->inputs == 0;
  return only_writes || has_operand_of_no_axes(arguments) ? Walk::strided : Walk::reordered;
}

void set_walk(Op& op, Walk walk, const OpArguments& arguments) {
  Walk& known = op.streams.walk;
  switch (walk) {
    case Walk::contiguous:
      known = std::holds_alternative<Cast>(op.body) ? Walk::contiguous : Walk::usual;
      if (const auto* layout = std::get_if<LayoutConversion>(&op.body)) {
        op.body = Elementwise{"copy", layout->elements, 1};
      }
      return;
    case Walk::converting:
      if (known == Walk::usual) known = Walk::converting;
      return;
    case Walk::strided:
      known = strided_walk(op, arguments);
      return;
    default:
      known = walk;
  }
}

// Sums over outer axes that take several neighbours at once.
bool is_vectorized_sum(std::string_view kernel) {
  return contains(kernel, "reduce_kernel<128, 4") || contains(kernel, "reduce_kernel<256, 2");
}

void set_type(Op& op, Dtype dtype) {
  op.streams.bytes = static_cast<std::int64_t>(to_double(op.streams.bytes) * size_in_bytes(dtype) /
                                               size_in_bytes(op.dtypes.input));
  op.dtypes = Dtypes(dtype);
}

// Elements of a launch of "…_elementwise_kernel<128, 4, …": threads times elements of each.
std::optional<std::int64_t> launched_elements(const KernelUse& kernel) {
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31U;
  const std::size_t at = kernel.name.find("elementwise_kernel<128, ");
  if (at == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(kernel.name).substr(at);
  const std::string_view each = rest.substr(rest.find(' ') + 1, 1);
  const auto count = parse_integer(each);
  const std::int64_t blocks = kernel.launch.grid[0];
  if (!count || *count < 1 || blocks < 1 || blocks > kMostBlocks) return std::nullopt;
  return blocks * 128 * *count;
}

// Indexing whose index tensors were not recorded: as large as its launch. An index serves a row:
// elements of eight bytes came and went at the bandwidth of DRAM without one for each of them.
std::optional<Op> indexing_of(const OpUse& use) {
  const auto dtype = dtype_of_arguments(use.arguments);
  if (!dtype || use.kernels.empty()) return std::nullopt;
  const KernelUse& kernel = use.kernels.front();
  const auto elements = launched_elements(kernel);
  if (!elements || !contains(kernel.name, "index_elementwise_kernel")) return std::nullopt;
  const auto bytes = static_cast<std::int64_t>(to_double(*elements) * 2 * size_in_bytes(*dtype));
  Op op;
  op.name = use.name;
  op.body = Other{use.name, 0, bytes};
  op.dtypes = Dtypes(*dtype);
  op.streams = {Walk::gathered, bytes, *elements};
  return op;
}

// Of a loss whose sum is an operator of its own: the differences alone, which it writes.
bool set_differences(Op& op, const OpUse& use) {
  const auto* sum = std::get_if<Reduction>(&op.body);
  const bool is_elementwise = std::ranges::all_of(use.kernels, [](const KernelUse& kernel) {
    return contains(template_of(kernel.name), "elementwise_kernel");
  });
  if (sum == nullptr || !is_elementwise || sum->outputs >= sum->elements) return false;
  if (op.streams.bytes != 0) {
    const double written = to_double(sum->elements - sum->outputs) * size_in_bytes(op.dtypes.input);
    op.streams.bytes = static_cast<std::int64_t>(to_double(op.streams.bytes) + written);
  }
  op.body = Elementwise{sum->fn, sum->elements, 1};
  return true;
}

}  // namespace

std::optional<Op> with_kernel(std::optional<Op> known, const OpUse& use) {
  if (!known) return indexing_of(use);
  if (is_matrix_op(*known) || use.kernels.empty()) return known;
  Op op = *std::move(known);
  const KernelUse& kernel = use.kernels.front();
  const auto walk = walk_of(kernel.name);
  if (is_list_operator(use.arguments)) {
    const bool is_copied = contains(template_of(kernel.name), "CatArrayBatchedCopy");
    const auto dtype = is_copied ? copied_type(kernel.name) : kernel.facts.dtype;
    if (!dtype) return std::nullopt;
    set_type(op, *dtype);
  }
  const bool is_elementwise =
      set_differences(op, use) || std::holds_alternative<Elementwise>(op.body) ||
      std::holds_alternative<LayoutConversion>(op.body) || std::holds_alternative<Cast>(op.body);
  if (walk && is_elementwise) set_walk(op, *walk, use.arguments);
  const bool is_sum = std::holds_alternative<Reduction>(op.body);
  if (is_sum && is_vectorized_sum(kernel.name)) op.streams.walk = Walk::contiguous;
  return op;
}

}  // namespace rooftile::trace
