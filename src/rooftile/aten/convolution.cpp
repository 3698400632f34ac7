// Convolutions and their gradients, by the argument positions of PyTorch's native_functions.yaml.
#include "rooftile/aten/handlers.h"
#include "rooftile/workload/validate.h"

namespace rooftile::aten_detail {
namespace {

constexpr int kNone = -1;

// Positions of the arguments; kNone where the operator has none.
struct Signature {
  std::string_view name;
  int input = 0, weight = 1, bias = kNone;
  int stride = kNone, padding = kNone, dilation = kNone, groups = kNone;
  int transposed = kNone, output_padding = kNone;
  int grad_output = kNone, output_mask = kNone;
  bool always_transposed = false, depthwise = false;
};

constexpr Signature kSignatures[] = {
    {.name = "convolution",
     .bias = 2,
     .stride = 3,
     .padding = 4,
     .dilation = 5,
     .groups = 8,
     .transposed = 6,
     .output_padding = 7},
    {.name = "_convolution",
     .bias = 2,
     .stride = 3,
     .padding = 4,
     .dilation = 5,
     .groups = 8,
     .transposed = 6,
     .output_padding = 7},
    {.name = "convolution_overrideable",
     .bias = 2,
     .stride = 3,
     .padding = 4,
     .dilation = 5,
     .groups = 8,
     .transposed = 6,
     .output_padding = 7},
    {.name = "conv1d", .bias = 2, .stride = 3, .padding = 4, .dilation = 5, .groups = 6},
    {.name = "conv2d", .bias = 2, .stride = 3, .padding = 4, .dilation = 5, .groups = 6},
    {.name = "conv3d", .bias = 2, .stride = 3, .padding = 4, .dilation = 5, .groups = 6},
    {.name = "conv_transpose1d",
     .bias = 2,
     .stride = 3,
     .padding = 4,
     .dilation = 7,
     .groups = 6,
     .output_padding = 5,
     .always_transposed = true},
    {.name = "conv_transpose2d",
     .bias = 2,
     .stride = 3,
     .padding = 4,
     .dilation = 7,
     .groups = 6,
     .output_padding = 5,
     .always_transposed = true},
    {.name = "conv_transpose3d",
     .bias = 2,
     .stride = 3,
     .padding = 4,
     .dilation = 7,
     .groups = 6,
     .output_padding = 5,
     .always_transposed = true},
    {.name = "cudnn_convolution", .stride = 3, .padding = 2, .dilation = 4, .groups = 5},
    {.name = "cudnn_convolution_transpose",
     .stride = 4,
     .padding = 2,
     .dilation = 5,
     .groups = 6,
     .output_padding = 3,
     .always_transposed = true},
    {.name = "cudnn_convolution_relu",
     .bias = 2,
     .stride = 3,
     .padding = 4,
     .dilation = 5,
     .groups = 6},
    {.name = "cudnn_convolution_add_relu",
     .bias = 4,
     .stride = 5,
     .padding = 6,
     .dilation = 7,
     .groups = 8},
    {.name = "miopen_convolution",
     .bias = 2,
     .stride = 4,
     .padding = 3,
     .dilation = 5,
     .groups = 6},
    {.name = "miopen_depthwise_convolution",
     .bias = 2,
     .stride = 4,
     .padding = 3,
     .dilation = 5,
     .groups = 6},
    {.name = "mkldnn_convolution",
     .bias = 2,
     .stride = 4,
     .padding = 3,
     .dilation = 5,
     .groups = 6},
    {.name = "_conv_depthwise2d",
     .bias = 3,
     .stride = 4,
     .padding = 5,
     .dilation = 6,
     .depthwise = true},
    {.name = "conv_depthwise3d",
     .bias = 3,
     .stride = 4,
     .padding = 5,
     .dilation = 6,
     .depthwise = true},
    {.name = "convolution_backward",
     .input = 1,
     .weight = 2,
     .stride = 4,
     .padding = 5,
     .dilation = 6,
     .groups = 9,
     .transposed = 7,
     .output_padding = 8,
     .grad_output = 0,
     .output_mask = 10},
    {.name = "cudnn_convolution_backward",
     .input = 0,
     .weight = 2,
     .stride = 4,
     .padding = 3,
     .dilation = 5,
     .groups = 6,
     .grad_output = 1,
     .output_mask = 10},
};

const Signature* find_signature(std::string_view name) {
  for (const Signature& signature : kSignatures) {
    if (signature.name == name) return &signature;
  }
  return nullptr;
}

// Channels last: the channels are contiguous, and nothing else is.
TensorLayout layout_of(const Tensor& input) {
  if (input.strides.empty() || input.size(1) == 1) return TensorLayout::nchw;
  if (input.strides[1] != 1) return TensorLayout::nchw;
  return input.strides.back() == 1 && input.dims.back() > 1 ? TensorLayout::nchw
                                                            : TensorLayout::nhwc;
}

std::optional<Extents> sizes_at(const Arguments& arguments, int position, std::size_t axes,
                                std::int64_t otherwise) {
  if (position == kNone) return Extents(axes, otherwise);
  return arguments.per_axis(static_cast<std::size_t>(position), axes);
}

std::optional<bool> is_transposed(const Signature& signature, const Arguments& arguments) {
  if (signature.transposed == kNone) return signature.always_transposed;
  return arguments.flag(static_cast<std::size_t>(signature.transposed));
}

std::optional<std::int64_t> groups_of(const Signature& signature, const Arguments& arguments,
                                      const Tensor& input) {
  if (signature.depthwise) return input.size(1);
  return arguments.integer(static_cast<std::size_t>(signature.groups));
}

// padding='same' adds what the kernel takes away, the odd element behind; 'valid' adds nothing.
bool read_padding_word(std::string_view word, Convolution& conv) {
  const std::size_t axes = conv.input.size();
  conv.pad_begin = conv.pad_end = Extents(axes, 0);
  if (word == "valid") return true;
  if (word != "same" || conv.dilation.size() != axes) return false;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t dilation = conv.dilation[axis], kernel = conv.kernel[axis];
    if (dilation < 1 || dilation > kMaxExtent || kernel > kMaxExtent) return false;
    const std::int64_t all = dilation * (kernel - 1);
    conv.pad_begin[axis] = all / 2;
    conv.pad_end[axis] = all - all / 2;
  }
  return true;
}

bool read_padding(const Signature& signature, const Arguments& arguments, Convolution& conv) {
  const auto sizes = sizes_at(arguments, signature.padding, conv.input.size(), 0);
  if (!sizes) {
    return signature.padding != kNone &&
           read_padding_word(arguments.value(static_cast<std::size_t>(signature.padding)), conv);
  }
  conv.pad_begin = conv.pad_end = *sizes;
  return true;
}

// Reads stride, padding, dilation and output padding; false where one is missing.
bool read_windows(const Signature& signature, const Arguments& arguments, Convolution& conv) {
  const std::size_t axes = conv.input.size();
  const auto stride = sizes_at(arguments, signature.stride, axes, 1);
  const auto dilation = sizes_at(arguments, signature.dilation, axes, 1);
  const auto output_pad =
      sizes_at(arguments, conv.transposed ? signature.output_padding : kNone, axes, 0);
  if (!stride || !dilation || !output_pad) return false;
  conv.stride = *stride;
  conv.dilation = *dilation;
  if (!read_padding(signature, arguments, conv)) return false;
  if (conv.transposed) conv.output_pad = *output_pad;
  return true;
}

// Weight [k, c / groups, kernel…], of a transposed one [c, k / groups, kernel…].
bool read_channels(const Tensor& weight, Convolution& conv) {
  if (conv.groups < 1 || conv.groups > kMaxExtent || weight.size(1) > kMaxExtent) return false;
  const std::int64_t other = weight.size(1) * conv.groups;
  conv.k = conv.transposed ? other : weight.size(0);
  return conv.c == (conv.transposed ? weight.size(0) : other);
}

std::optional<Convolution> read_convolution(const Signature& signature, const Arguments& arguments,
                                            const Tensor& input, const Tensor& weight) {
  const auto transposed = is_transposed(signature, arguments);
  const auto groups = groups_of(signature, arguments, input);
  if (!transposed || !groups || input.rank() < 3 || weight.rank() != input.rank()) {
    return std::nullopt;
  }
  Convolution conv;
  conv.n = input.size(0);
  conv.c = input.size(1);
  conv.input = Extents(input.dims.begin() + 2, input.dims.end());
  conv.kernel = Extents(weight.dims.begin() + 2, weight.dims.end());
  conv.groups = *groups;
  conv.transposed = *transposed;
  conv.layout = layout_of(input);
  if (!read_channels(weight, conv) || !read_windows(signature, arguments, conv)) {
    return std::nullopt;
  }
  conv.bias =
      signature.bias != kNone && arguments.is_tensor(static_cast<std::size_t>(signature.bias));
  return conv;
}

bool fits(const Tensor& grad_output, const Convolution& conv) {
  Extents expected{conv.n, conv.k};
  for (const std::int64_t size : output_extents(conv)) expected.push_back(size);
  return grad_output.dims == expected;
}

std::vector<Op> backward(const Signature& signature, const Arguments& arguments, const Op& layer) {
  const auto grad_output = arguments.tensor(static_cast<std::size_t>(signature.grad_output));
  const auto mask = arguments.flags(static_cast<std::size_t>(signature.output_mask));
  if (!grad_output || !mask || mask->size() < 2) return {};
  if (!fits(*grad_output, std::get<Convolution>(layer.body))) return {};
  std::vector<Op> ops;
  for (const Phase phase : {Phase::dgrad, Phase::wgrad}) {
    if (!(*mask)[phase == Phase::dgrad ? 0 : 1]) continue;
    ops.push_back(layer);
    ops.back().phase = phase;
  }
  return ops;
}

}  // namespace

Answer convolution_op(std::string_view name, const Arguments& arguments) {
  const Signature* signature = find_signature(name);
  if (!signature) return std::nullopt;
  const auto input = arguments.tensor(static_cast<std::size_t>(signature->input));
  const auto weight = arguments.tensor(static_cast<std::size_t>(signature->weight));
  if (!input || !weight || input->dtype != weight->dtype) return std::vector<Op>{};
  const auto conv = read_convolution(*signature, arguments, *input, *weight);
  if (!conv) return std::vector<Op>{};
  auto ops = valid(*conv, Dtypes(input->dtype));
  if (ops.empty() || signature->grad_output == kNone) return ops;
  return backward(*signature, arguments, ops.front());
}

}  // namespace rooftile::aten_detail
