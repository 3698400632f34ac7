// What the inference functions of contrib operators share.
#pragma once

#include <optional>
#include <vector>

#include "onnx/defs/shape_inference.h"

namespace rooftile::onnx_format {

using Dim = onnx::TensorShapeProto_Dimension;
using Dims = std::vector<Dim>;

Dim fixed_dim(std::int64_t value);
Dim unknown_dim();

// Nothing when the input is missing or its rank is unknown.
std::optional<Dims> input_dims(onnx::InferenceContext& context, std::size_t index);

// The quotient, unknown when the size is unknown or divides with a remainder.
Dim divided(const Dim& dim, std::int64_t divisor);

// Sets an output that the node asks for; the element type is that of input `type_from`.
void set_output(onnx::InferenceContext& context, std::size_t index, std::size_t type_from,
                const Dims& dims);
void set_output_type(onnx::InferenceContext& context, std::size_t index, int elem_type);

// Output `index` has the type and shape of input `from`.
void copy_input(onnx::InferenceContext& context, std::size_t from, std::size_t index);

// The shape of a NumPy matmul of the two dims; throws InferenceError when they do not fit.
std::optional<Dims> matmul_dims(Dims a, Dims b);

// Inference functions, by group.
void infer_attention(onnx::InferenceContext& context);
void infer_quantised_attention(onnx::InferenceContext& context);
void infer_multi_head_attention(onnx::InferenceContext& context);
void infer_group_query_attention(onnx::InferenceContext& context);
void infer_embed_layer_norm(onnx::InferenceContext& context);
void infer_skip_layer_norm(onnx::InferenceContext& context);
void infer_nhwc_conv(onnx::InferenceContext& context);
void infer_nhwc_pool(onnx::InferenceContext& context);

}  // namespace rooftile::onnx_format
