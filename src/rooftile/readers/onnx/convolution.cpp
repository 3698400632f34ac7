// Convolutions: Conv, ConvTranspose, and their integer, quantised and channels-last forms.
#include <algorithm>

#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

Extents attribute_or(const Node& node, std::string_view name, std::size_t axes,
                     std::int64_t fallback) {
  Extents list = ints_attribute(node, name);
  list.resize(axes, fallback);
  return list;
}

// Whether arithmetic on the sizes stays within 64 bits; what is not is refused by validation.
bool is_sane(const Convolution& conv) {
  constexpr std::int64_t kLargest = 1'000'000'000;
  const auto sane = [](const Extents& list) {
    return std::all_of(list.begin(), list.end(),
                       [](std::int64_t size) { return size >= 0 && size <= kLargest; });
  };
  return sane(conv.input) && sane(conv.kernel) && sane(conv.stride) && sane(conv.dilation) &&
         sane(conv.output_pad);
}

// Padding of one axis that gives the inferred output size.
void pad_to_output(Convolution& conv, std::size_t axis, std::int64_t output, bool extra_first) {
  const std::int64_t extent = (conv.kernel[axis] - 1) * conv.dilation[axis] + 1;
  const std::int64_t stride = conv.stride[axis];
  std::int64_t total = 0;
  if (conv.transposed) {
    total = stride * (conv.input[axis] - 1) + conv.output_pad[axis] + extent - output;
    if (total < 0) {
      conv.output_pad[axis] -= total;
      total = 0;
    }
  } else {
    total = std::max<std::int64_t>((output - 1) * stride + extent - conv.input[axis], 0);
  }
  const std::int64_t larger = total - total / 2;
  conv.pad_begin[axis] = extra_first ? larger : total / 2;
  conv.pad_end[axis] = total - conv.pad_begin[axis];
}

void set_padding(const Node& node, const Extents& output, Convolution& conv) {
  const std::size_t axes = conv.input.size();
  const Extents pads = ints_attribute(node, "pads");
  conv.pad_begin.assign(axes, 0);
  conv.pad_end.assign(axes, 0);
  for (std::size_t i = 0; i < axes && pads.size() == 2 * axes; ++i) {
    conv.pad_begin[i] = pads[i];
    conv.pad_end[i] = pads[axes + i];
  }
  const std::string mode = string_attribute(node, "auto_pad", "NOTSET");
  const bool derived =
      mode.starts_with("SAME") || (conv.transposed && has_attribute(node, "output_shape"));
  for (std::size_t i = 0; derived && i < axes && i < output.size(); ++i) {
    pad_to_output(conv, i, output[i], mode == "SAME_LOWER");
  }
}

// Empty lists stand for their defaults.
void simplify(Convolution& conv) {
  const auto clear = [](Extents& list, std::int64_t fallback) {
    if (std::all_of(list.begin(), list.end(), [=](std::int64_t x) { return x == fallback; })) {
      list.clear();
    }
  };
  clear(conv.stride, 1);
  clear(conv.dilation, 1);
  clear(conv.pad_begin, 0);
  clear(conv.pad_end, 0);
  clear(conv.output_pad, 0);
}

struct ConvShapes {
  Shape input, weight, output;
};

std::optional<ConvShapes> conv_shapes(const Conversion& c, const Node& node, std::size_t weight) {
  const auto in = c.input_shape(node, 0);
  const auto w = c.input_shape(node, weight);
  const auto out = c.output_shape(node, 0);
  if (!in || !w || !out || in->size() < 3 || w->size() != in->size() || out->size() != in->size()) {
    return {};
  }
  return ConvShapes{*in, *w, *out};
}

// Fills what all forms share; spatial sizes are given.
Outcome add_conv(Conversion& c, const Node& node, Convolution conv, const Extents& output,
                 std::size_t weight_index, std::size_t bias_index) {
  const std::size_t axes = conv.input.size();
  if (axes > 3) return Outcome::unsupported;
  conv.stride = attribute_or(node, "strides", axes, 1);
  conv.dilation = attribute_or(node, "dilations", axes, 1);
  if (conv.transposed) conv.output_pad = attribute_or(node, "output_padding", axes, 0);
  if (is_sane(conv)) set_padding(node, output, conv);
  // ConvInteger has zero points where Conv has its bias.
  conv.bias = node.op != "ConvInteger" && c.input(node, bias_index) != nullptr;
  simplify(conv);
  const Dtypes dtypes = c.matrix_dtypes(node, 0, weight_index);
  // Integer kernels read packed channels; runtimes keep the tensors between them in that order.
  if (dtypes.input == Dtype::int8 && c.runs_quantized()) conv.layout = TensorLayout::nhwc;
  c.add(node, conv, dtypes);
  return Outcome::done;
}

Outcome convert_channels_first(Conversion& c, const Node& node, std::size_t weight,
                               std::size_t bias) {
  const auto shapes = conv_shapes(c, node, weight);
  if (!shapes) return Outcome::unknown_shape;
  Convolution conv;
  conv.n = shapes->input[0];
  conv.c = shapes->input[1];
  conv.k = shapes->weight[0];
  conv.groups = int_attribute(node, "group", 1);
  conv.input.assign(shapes->input.begin() + 2, shapes->input.end());
  conv.kernel.assign(shapes->weight.begin() + 2, shapes->weight.end());
  return add_conv(c, node, conv, Extents(shapes->output.begin() + 2, shapes->output.end()), weight,
                  bias);
}

}  // namespace

Outcome convert_conv(Conversion& c, const Node& node) {
  return convert_channels_first(c, node, 1, 2);
}

// QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, B)
Outcome convert_qlinear_conv(Conversion& c, const Node& node) {
  if (int_attribute(node, "channels_last", 0) != 0) return Outcome::unsupported;
  return convert_channels_first(c, node, 3, 8);
}

// The weight is [c, k/groups, kernel…].
Outcome convert_conv_transpose(Conversion& c, const Node& node) {
  const auto shapes = conv_shapes(c, node, 1);
  if (!shapes) return Outcome::unknown_shape;
  Convolution conv;
  conv.transposed = true;
  conv.n = shapes->input[0];
  conv.c = shapes->input[1];
  conv.groups = int_attribute(node, "group", 1);
  conv.k = shapes->output[1];
  conv.input.assign(shapes->input.begin() + 2, shapes->input.end());
  conv.kernel.assign(shapes->weight.begin() + 2, shapes->weight.end());
  return add_conv(c, node, conv, Extents(shapes->output.begin() + 2, shapes->output.end()), 1, 2);
}

// Input [n, spatial…, c], weight [k, spatial…, c/groups].
Outcome convert_nhwc_conv(Conversion& c, const Node& node) {
  const auto shapes = conv_shapes(c, node, 1);
  if (!shapes) return Outcome::unknown_shape;
  Convolution conv;
  conv.layout = TensorLayout::nhwc;
  conv.n = shapes->input[0];
  conv.c = shapes->input.back();
  conv.k = shapes->weight[0];
  conv.groups = int_attribute(node, "group", 1);
  conv.input.assign(shapes->input.begin() + 1, shapes->input.end() - 1);
  conv.kernel.assign(shapes->weight.begin() + 1, shapes->weight.end() - 1);
  return add_conv(c, node, conv, Extents(shapes->output.begin() + 1, shapes->output.end() - 1), 1,
                  2);
}

// DeformConv(x, w, offset, bias, mask): a kernel gathers what each output position reads into
// columns [c·kernel, n·output], a product takes them together.
Outcome convert_deform_conv(Conversion& c, const Node& node) {
  const auto shapes = conv_shapes(c, node, 1);
  const std::int64_t groups = int_attribute(node, "group", 1);
  if (!shapes || groups < 1) return Outcome::unknown_shape;
  Gemm gemm;
  gemm.batch = groups;
  gemm.n = shapes->weight[0] / groups;
  gemm.k = product(shapes->weight, 1, shapes->weight.size());
  gemm.m = bounded_product(shapes->output[0], product(shapes->output, 2, shapes->output.size()));
  gemm.bias = c.input(node, 3) != nullptr;
  gemm.weight_is_parameter = c.is_constant(node, 1);
  const Dtype dtype = c.dtype(c.input(node, 0));
  const double columns = to_double(gemm.m) * to_double(gemm.k) * to_double(groups);
  const double moved = c.bytes(c.input(node, 0)) + c.bytes(c.input(node, 2)) +
                       c.bytes(c.input(node, 4)) + storage(columns, dtype).value();
  if (!(moved < 1e18)) return Outcome::unknown_shape;
  Op& gather =
      c.add(node, Other{"deform_columns", 0, static_cast<std::int64_t>(moved)}, Dtypes(dtype));
  const std::string between = gather.name + "/columns";
  gather.outputs = {between};
  c.add(node, gemm, c.matrix_dtypes(node, 0, 1)).inputs = {between};
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
