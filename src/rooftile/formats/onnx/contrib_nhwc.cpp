// Shapes of com.microsoft operators on channels-last tensors [n, spatial…, channels].
#include <algorithm>

#include "rooftile/formats/onnx/contrib_shapes.h"

namespace rooftile::onnx_format {
namespace {

using onnx::InferenceContext;

std::int64_t at_or(const std::vector<std::int64_t>& list, std::size_t index,
                   std::int64_t fallback) {
  return index < list.size() ? list[index] : fallback;
}

// One spatial output size of a window operator.
Dim window_output(InferenceContext& context, const Dim& input, std::int64_t kernel,
                  std::size_t axis, std::size_t rank) {
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> pads;
  onnx::getRepeatedAttribute(context, "strides", strides);
  onnx::getRepeatedAttribute(context, "dilations", dilations);
  onnx::getRepeatedAttribute(context, "pads", pads);
  const std::int64_t stride = at_or(strides, axis, 1);
  if (!input.has_dim_value() || stride <= 0 || kernel <= 0) return {};
  const std::string auto_pad = onnx::getAttribute(context, "auto_pad", std::string("NOTSET"));
  if (auto_pad.starts_with("SAME")) {
    return fixed_dim(onnx::checkedAdd(input.dim_value(), stride - 1) / stride);
  }
  const std::int64_t padding = onnx::checkedAdd(at_or(pads, axis, 0), at_or(pads, axis + rank, 0));
  const std::int64_t extent = onnx::checkedMultiply(kernel - 1, at_or(dilations, axis, 1));
  const std::int64_t room =
      onnx::checkedSubtract(onnx::checkedAdd(input.dim_value(), padding), extent + 1);
  return room < 0 ? Dim{} : fixed_dim(room / stride + 1);
}

void infer_windows(InferenceContext& context, const Dims& input,
                   const std::vector<std::int64_t>& kernel, const Dim& channels) {
  const std::size_t rank = input.size() - 2;
  if (kernel.size() != rank) return;
  Dims output{input[0]};
  for (std::size_t i = 0; i < rank; ++i) {
    output.push_back(window_output(context, input[i + 1], kernel[i], i, rank));
  }
  output.push_back(channels);
  set_output(context, 0, 0, output);
}

}  // namespace

// The weight is [k, spatial…, c/groups].
void infer_nhwc_conv(InferenceContext& context) {
  const auto input = input_dims(context, 0);
  const auto weight = input_dims(context, 1);
  if (!input || !weight || input->size() < 3 || weight->size() != input->size()) return;
  std::vector<std::int64_t> kernel;
  for (std::size_t i = 1; i + 1 < weight->size(); ++i) {
    if (!(*weight)[i].has_dim_value()) return;
    kernel.push_back((*weight)[i].dim_value());
  }
  infer_windows(context, *input, kernel, (*weight)[0]);
}

void infer_nhwc_pool(InferenceContext& context) {
  const auto input = input_dims(context, 0);
  std::vector<std::int64_t> kernel;
  if (!input || input->size() < 3) return;
  onnx::getRepeatedAttribute(context, "kernel_shape", kernel);
  infer_windows(context, *input, kernel, input->back());
}

}  // namespace rooftile::onnx_format
