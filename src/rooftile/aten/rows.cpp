// Normalization, softmax, pooling and embedding, by the argument positions of PyTorch's
// native_functions.yaml.
#include "rooftile/aten/handlers.h"

namespace rooftile::aten_detail {
namespace {

constexpr int kNone = -1;

std::size_t index(int position) { return static_cast<std::size_t>(position); }

Phase phase_of(bool backward) { return backward ? Phase::dgrad : Phase::forward; }

// What tells the size of a group that shares statistics: the normalized shape, the number of
// groups, or the rank alone.
struct NormSignature {
  std::string_view name;
  NormKind kind;
  int input = 0;
  int shape = kNone;  // the normalized shape as a list, or a weight of that shape
  int weight = kNone;
  int groups = kNone;
  bool backward = false;
};

constexpr NormSignature kNorms[] = {
    {.name = "layer_norm", .kind = NormKind::layer, .shape = 1, .weight = 2},
    {.name = "native_layer_norm", .kind = NormKind::layer, .shape = 1, .weight = 2},
    {.name = "native_layer_norm_backward",
     .kind = NormKind::layer,
     .input = 1,
     .shape = 2,
     .weight = 5,
     .backward = true},
    {.name = "rms_norm", .kind = NormKind::rms, .shape = 1, .weight = 2},
    {.name = "_fused_rms_norm", .kind = NormKind::rms, .shape = 1, .weight = 2},
    {.name = "_fused_rms_norm_backward",
     .kind = NormKind::rms,
     .input = 1,
     .shape = 2,
     .weight = 4,
     .backward = true},
    {.name = "batch_norm", .kind = NormKind::batch},
    {.name = "native_batch_norm", .kind = NormKind::batch},
    {.name = "_native_batch_norm_legit", .kind = NormKind::batch},
    {.name = "_native_batch_norm_legit_functional", .kind = NormKind::batch},
    {.name = "_batch_norm_with_update_functional", .kind = NormKind::batch},
    {.name = "_batch_norm_impl_index", .kind = NormKind::batch},
    {.name = "_batch_norm_with_update", .kind = NormKind::batch},
    {.name = "cudnn_batch_norm", .kind = NormKind::batch},
    {.name = "miopen_batch_norm", .kind = NormKind::batch},
    {.name = "native_batch_norm_backward", .kind = NormKind::batch, .input = 1, .backward = true},
    {.name = "cudnn_batch_norm_backward", .kind = NormKind::batch, .backward = true},
    {.name = "miopen_batch_norm_backward", .kind = NormKind::batch, .backward = true},
    {.name = "group_norm", .kind = NormKind::group, .groups = 1},
    {.name = "native_group_norm", .kind = NormKind::group, .groups = 6},
    {.name = "native_group_norm_backward",
     .kind = NormKind::group,
     .input = 1,
     .groups = 8,
     .backward = true},
    {.name = "instance_norm", .kind = NormKind::instance},
};

std::optional<std::int64_t> normalized_elements(const NormSignature& signature,
                                                const Arguments& arguments, const Tensor& input) {
  auto shape = arguments.integers(index(signature.shape));
  if (!shape) {
    const auto weight = arguments.tensor(index(signature.weight));
    if (!weight) return std::nullopt;
    shape = weight->dims;
  }
  if (shape->empty() || shape->size() > input.rank()) return std::nullopt;
  std::int64_t elements = 1;
  for (std::size_t back = 1; back <= shape->size(); ++back) {
    const std::int64_t size = input.dims[input.rank() - back];
    if (size != (*shape)[shape->size() - back]) return std::nullopt;
    elements *= size;
  }
  return elements;
}

// Elements that share statistics; for a batch norm the channels instead.
std::optional<std::int64_t> columns(const NormSignature& signature, const Arguments& arguments,
                                    const Tensor& input) {
  if (signature.shape != kNone) return normalized_elements(signature, arguments, input);
  if (input.rank() < 2) return std::nullopt;
  const std::int64_t channels = input.size(1);
  const std::int64_t positions = input.elements() / input.size(0) / channels;
  if (signature.kind == NormKind::batch) return channels;
  if (signature.kind == NormKind::instance) return positions;
  const auto groups = arguments.integer(index(signature.groups));
  if (!groups || *groups < 1 || channels % *groups != 0) return std::nullopt;
  return channels / *groups * positions;
}

std::vector<Op> read_norm(const NormSignature& signature, const Arguments& arguments) {
  const auto input = arguments.tensor(index(signature.input));
  if (!input) return {};
  const auto cols = columns(signature, arguments, *input);
  if (!cols) return {};
  std::vector<Op> ops = valid(Normalization{signature.kind, input->elements() / *cols, *cols},
                              Dtypes(input->dtype), phase_of(signature.backward));
  // With statistics that are known a batch norm is one pass.
  constexpr std::size_t kTraining = 5;
  const bool one_pass = signature.kind == NormKind::batch && !signature.backward &&
                        arguments.flag(kTraining) == false;
  for (Op& op : ops) op.streams.walk = one_pass ? Walk::contiguous : Walk::usual;
  return ops;
}

struct SoftmaxSignature {
  std::string_view name;
  int input, dim;
  bool backward;
};

constexpr SoftmaxSignature kSoftmaxes[] = {
    {"softmax", 0, 1, false},
    {"_softmax", 0, 1, false},
    {"_safe_softmax", 0, 1, false},
    {"log_softmax", 0, 1, false},
    {"_log_softmax", 0, 1, false},
    {"_softmax_backward_data", 1, 2, true},
    {"_log_softmax_backward_data", 1, 2, true},
};

std::vector<Op> read_softmax(const SoftmaxSignature& signature, const Arguments& arguments) {
  const auto input = arguments.tensor(index(signature.input));
  auto dim = arguments.integer(index(signature.dim));
  if (!input || !dim) return {};
  const auto rank = static_cast<std::int64_t>(input->rank());
  if (*dim < -rank || *dim >= rank) return {};
  const std::int64_t cols = input->dims[static_cast<std::size_t>(*dim < 0 ? *dim + rank : *dim)];
  return valid(Softmax{input->elements() / cols, cols}, Dtypes(input->dtype),
               phase_of(signature.backward));
}

struct PoolSignature {
  std::string_view name;
  PoolKind kind;
  std::size_t axes;
  int kernel = 1, stride = 2, padding = 3, dilation = kNone, ceil = kNone;
  bool backward = false;  // the gradient of the result stands before the input
};

constexpr PoolSignature kPools[] = {
    {"max_pool1d", PoolKind::max, 1, 1, 2, 3, 4, 5},
    {"max_pool2d", PoolKind::max, 2, 1, 2, 3, 4, 5},
    {"max_pool3d", PoolKind::max, 3, 1, 2, 3, 4, 5},
    {"max_pool2d_with_indices", PoolKind::max, 2, 1, 2, 3, 4, 5},
    {"max_pool3d_with_indices", PoolKind::max, 3, 1, 2, 3, 4, 5},
    {"avg_pool1d", PoolKind::average, 1, 1, 2, 3, kNone, 4},
    {"avg_pool2d", PoolKind::average, 2, 1, 2, 3, kNone, 4},
    {"avg_pool3d", PoolKind::average, 3, 1, 2, 3, kNone, 4},
    {"max_pool2d_with_indices_backward", PoolKind::max, 2, 2, 3, 4, 5, 6, true},
    {"max_pool3d_with_indices_backward", PoolKind::max, 3, 2, 3, 4, 5, 6, true},
    {"avg_pool2d_backward", PoolKind::average, 2, 2, 3, 4, kNone, 5, true},
    {"avg_pool3d_backward", PoolKind::average, 3, 2, 3, 4, kNone, 5, true},
};

struct Windows {
  Extents kernel, stride, padding, dilation;
  bool ceil = false;
};

std::optional<Windows> read_windows(const PoolSignature& signature, const Arguments& arguments) {
  const auto kernel = arguments.per_axis(index(signature.kernel), signature.axes);
  auto stride = arguments.per_axis(index(signature.stride), signature.axes);
  const auto padding = arguments.per_axis(index(signature.padding), signature.axes);
  const auto dilation = signature.dilation == kNone
                            ? Extents(signature.axes, 1)
                            : arguments.per_axis(index(signature.dilation), signature.axes);
  const auto ceil = arguments.flag(index(signature.ceil));
  const auto given = arguments.integers(index(signature.stride));
  if (kernel && given && given->empty()) stride = kernel;  // PyTorch's default
  if (!kernel || !stride || !padding || !dilation || !ceil) return std::nullopt;
  return Windows{*kernel, *stride, *padding, *dilation, *ceil};
}

// Sizes of the result as PyTorch's pooling_output_shape has them; 0 where nothing fits.
std::int64_t pooled_size(const Windows& windows, std::size_t axis, std::int64_t input) {
  constexpr std::int64_t kMost = 1'000'000'000;
  for (const std::int64_t size : {windows.kernel[axis], windows.stride[axis],
                                  windows.dilation[axis], windows.padding[axis] + 1, input}) {
    if (size < 1 || size > kMost) return 0;
  }
  const std::int64_t stride = windows.stride[axis], padding = windows.padding[axis];
  const std::int64_t reach = windows.dilation[axis] * (windows.kernel[axis] - 1);
  const std::int64_t room = input + 2 * padding - reach - 1;
  if (room < 0) return 0;
  std::int64_t output = (room + (windows.ceil ? stride - 1 : 0)) / stride + 1;
  if (windows.ceil && (output - 1) * stride >= input + padding) --output;
  return output;
}

// [n, c, spatial…] or without n.
std::vector<Op> read_pool(const PoolSignature& signature, const Arguments& arguments) {
  const auto input = arguments.tensor(signature.backward ? 1 : 0);
  const auto windows = read_windows(signature, arguments);
  if (!input || !windows || input->rank() < signature.axes + 1 ||
      input->rank() > signature.axes + 2) {
    return {};
  }
  Pooling pool;
  pool.fn = signature.kind;
  pool.n = input->rank() == signature.axes + 2 ? input->size(0) : 1;
  pool.c = input->size(input->rank() - signature.axes - 1);
  pool.kernel = windows->kernel;
  for (std::size_t axis = 0; axis < signature.axes; ++axis) {
    pool.input.push_back(input->size(input->rank() - signature.axes + axis));
    pool.output.push_back(pooled_size(*windows, axis, pool.input.back()));
  }
  return valid(pool, Dtypes(input->dtype), phase_of(signature.backward));
}

// adaptive_avg_pool2d(input, output size): kernels are equal only where the sizes divide.
std::vector<Op> read_adaptive_pool(const Arguments& arguments) {
  const auto input = arguments.tensor(0);
  const auto output = arguments.per_axis(1, 2);
  if (!input || !output || input->rank() != 4) return {};
  Pooling pool;
  pool.fn = PoolKind::average;
  pool.n = input->size(0);
  pool.c = input->size(1);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t in = input->size(axis + 2), out = (*output)[axis];
    if (out < 1 || in % out != 0) return {};
    pool.input.push_back(in);
    pool.output.push_back(out);
    pool.kernel.push_back(in / out);
  }
  return valid(pool, Dtypes(input->dtype));
}

std::vector<Op> lookups(const Arguments& arguments) {
  const auto table = arguments.tensor(0), indices = arguments.tensor(1);
  if (!table || !indices || table->rank() != 2) return {};
  return valid(Embedding{table->size(0), table->size(1), indices->elements()},
               Dtypes(table->dtype));
}

// embedding_dense_backward(gradient [..., width], indices, rows of the table, …).
std::vector<Op> lookup_gradient(const Arguments& arguments) {
  const auto gradient = arguments.tensor(0), indices = arguments.tensor(1);
  const auto vocab = arguments.integer(2);
  if (!gradient || !indices || !vocab) return {};
  const Embedding embedding{*vocab, gradient->dims.back(), indices->elements()};
  if (gradient->elements() / embedding.width != embedding.lookups) return {};
  return valid(embedding, Dtypes(gradient->dtype), Phase::wgrad);
}

// embedding_bag(table, indices, where bags begin, …, whether the last entry is the end of the last
// bag): indices of two axes have a bag in each row.
std::vector<Op> bags(const Arguments& arguments) {
  constexpr std::size_t kIncludesEnd = 7;
  const auto table = arguments.tensor(0), indices = arguments.tensor(1),
             begins = arguments.tensor(2);
  if (!table || !indices || table->rank() != 2) return {};
  std::int64_t count = indices->rank() == 2 ? indices->size(0) : 0;
  if (begins) count = begins->elements() - (arguments.flag(kIncludesEnd) == true ? 1 : 0);
  if (count < 1) return {};
  return valid(Embedding{table->size(0), table->size(1), indices->elements(), count},
               Dtypes(table->dtype));
}

// _embedding_bag_backward(gradient [bags, width], indices, where bags begin, bag of each, sizes of
// bags, maxima, rows of the table, …); the dense one lacks the begins.
std::vector<Op> bag_gradient(const Arguments& arguments, std::size_t rows_at) {
  const auto gradient = arguments.tensor(0), indices = arguments.tensor(1);
  const auto vocab = arguments.integer(rows_at);
  if (!gradient || !indices || !vocab || gradient->rank() != 2) return {};
  return valid(Embedding{*vocab, gradient->size(1), indices->elements(), gradient->size(0)},
               Dtypes(gradient->dtype), Phase::wgrad);
}

}  // namespace

Answer row_op(std::string_view name, const Arguments& arguments) {
  for (const NormSignature& signature : kNorms) {
    if (signature.name == name) return read_norm(signature, arguments);
  }
  for (const SoftmaxSignature& signature : kSoftmaxes) {
    if (signature.name == name) return read_softmax(signature, arguments);
  }
  return std::nullopt;
}

Answer pooling_op(std::string_view name, const Arguments& arguments) {
  for (const PoolSignature& signature : kPools) {
    if (signature.name == name) return read_pool(signature, arguments);
  }
  if (name == "adaptive_avg_pool2d" || name == "_adaptive_avg_pool2d") {
    return read_adaptive_pool(arguments);
  }
  return std::nullopt;
}

Answer embedding_op(std::string_view name, const Arguments& arguments) {
  if (name == "embedding") return lookups(arguments);
  if (name == "embedding_dense_backward") return lookup_gradient(arguments);
  if (name == "embedding_bag" || name == "_embedding_bag" ||
      name == "_embedding_bag_forward_only") {
    return bags(arguments);
  }
  if (name == "_embedding_bag_backward") return bag_gradient(arguments, 6);
  if (name == "_embedding_bag_dense_backward") return bag_gradient(arguments, 5);
  return std::nullopt;
}

}  // namespace rooftile::aten_detail
