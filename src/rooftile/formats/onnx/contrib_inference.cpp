// The table of com.microsoft operators and their type and shape inference.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "onnx/defs/schema.h"
#include "rooftile/formats/onnx/contrib_shapes.h"
#include "rooftile/formats/onnx/schemas.h"

namespace rooftile::onnx_format {
namespace {

using onnx::InferenceContext;
using onnx::TensorProto;

void same_as_first(InferenceContext& context) { copy_input(context, 0, 0); }

// [batch, seq, 2·n] or [n, 2·channels…]: the gated half.
void half_of_last(InferenceContext& context) {
  auto dims = input_dims(context, 0);
  if (!dims || dims->empty()) return;
  dims->back() = divided(dims->back(), 2);
  set_output(context, 0, 0, *dims);
}

void broadcast_inputs(InferenceContext& context, std::size_t a, std::size_t b) {
  const auto left = input_dims(context, a);
  const auto right = input_dims(context, b);
  if (!left || !right) return;
  const Dims& longer = left->size() >= right->size() ? *left : *right;
  const Dims& shorter = left->size() >= right->size() ? *right : *left;
  Dims result = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    Dim& dim = result[lead + i];
    if (dim.has_dim_value() && dim.dim_value() == 1) dim = shorter[i];
  }
  set_output(context, 0, a, result);
}

// QLinearAdd(A, A_scale, A_zero, B, …)
void infer_qlinear_binary(InferenceContext& context) { broadcast_inputs(context, 0, 3); }

void infer_bias_add(InferenceContext& context) { broadcast_inputs(context, 0, 1); }

void infer_fused_matmul(InferenceContext& context) {
  auto a = input_dims(context, 0);
  auto b = input_dims(context, 1);
  if (!a || !b) return;
  const auto transpose = [&](Dims& dims, const char* last, const char* batch) {
    if (onnx::getAttribute(context, batch, 0) != 0 && dims.size() > 2) {
      std::rotate(dims.begin(), dims.begin() + 1, dims.end() - 1);
    }
    if (onnx::getAttribute(context, last, 0) != 0 && dims.size() > 1) {
      std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    }
  };
  transpose(*a, "transA", "transBatchA");
  transpose(*b, "transB", "transBatchB");
  if (const auto dims = matmul_dims(*a, *b)) set_output(context, 0, 0, *dims);
}

void infer_matmul(InferenceContext& context, std::size_t b_index, std::size_t type_from) {
  const auto a = input_dims(context, 0);
  const auto b = input_dims(context, b_index);
  if (!a || !b) return;
  if (const auto dims = matmul_dims(*a, *b)) set_output(context, 0, type_from, *dims);
}

void infer_matmul_integer_to_float(InferenceContext& context) { infer_matmul(context, 1, 2); }
void infer_dynamic_quantize_matmul(InferenceContext& context) { infer_matmul(context, 1, 0); }

// MatMulNBits(A, packed B, scales, …): the weight is [N, K] by attribute.
void infer_matmul_nbits(InferenceContext& context) {
  auto dims = input_dims(context, 0);
  if (!dims || dims->empty()) return;
  dims->back() = fixed_dim(onnx::getRequiredAttributeInt(context, "N"));
  set_output(context, 0, 0, *dims);
}

// Operators that add inputs or attributes to a standard one of the same first inputs.
void infer_as(InferenceContext& context, const char* op, int version) {
  const auto* schema = find_schema(op, version, onnx::ONNX_DOMAIN);
  if (schema != nullptr) schema->GetTypeAndShapeInferenceFunction()(context);
}

void infer_fused_conv(InferenceContext& context) { infer_as(context, "Conv", 11); }
void infer_fused_gemm(InferenceContext& context) { infer_as(context, "Gemm", 13); }
void infer_global_pool(InferenceContext& context) { infer_as(context, "GlobalAveragePool", 1); }

// QGemm(A, a_scale, a_zero, B, b_scale, b_zero, C, y_scale, y_zero): float without y_scale.
void infer_qgemm(InferenceContext& context) {
  auto a = input_dims(context, 0);
  auto b = input_dims(context, 3);
  if (!a || !b || a->size() != 2 || b->size() != 2) return;
  if (onnx::getAttribute(context, "transA", 0) != 0) std::swap((*a)[0], (*a)[1]);
  if (onnx::getAttribute(context, "transB", 0) != 0) std::swap((*b)[0], (*b)[1]);
  if (const auto dims = matmul_dims(*a, *b)) {
    set_output(context, 0, context.hasInput(7) ? 0 : 1, *dims);
  }
}

void infer_quantize(InferenceContext& context) {
  copy_input(context, 0, 0);
  const bool has_zero = context.hasInput(2) && context.getInputType(2) != nullptr;
  set_output_type(context, 0,
                  has_zero ? context.getInputType(2)->tensor_type().elem_type()
                           : static_cast<int>(TensorProto::UINT8));
}

void infer_dequantize(InferenceContext& context) {
  if (const auto dims = input_dims(context, 0)) set_output(context, 0, 1, *dims);
}

// QLinearConcat(Y_scale, Y_zero, (X, scale, zero)…)
void infer_qlinear_concat(InferenceContext& context) {
  auto dims = input_dims(context, 2);
  if (!dims || dims->empty()) return;
  std::int64_t axis = onnx::getAttribute(context, "axis", 0);
  if (axis < 0) axis += static_cast<std::int64_t>(dims->size());
  if (axis < 0 || axis >= static_cast<std::int64_t>(dims->size())) return;
  const auto at = static_cast<std::size_t>(axis);
  for (std::size_t i = 5; i < context.getNumInputs(); i += 3) {
    const auto next = input_dims(context, i);
    if (!next || next->size() != dims->size() || !(*next)[at].has_dim_value() ||
        !(*dims)[at].has_dim_value()) {
      (*dims)[at] = unknown_dim();
      break;
    }
    (*dims)[at] = (*dims)[at] + (*next)[at].dim_value();
  }
  set_output(context, 0, 2, *dims);
}

// Inputs 0 to 2 are the input, weight and recurrence [directions, input, 4·hidden].
void infer_dynamic_quantize_lstm(InferenceContext& context) {
  const auto input = input_dims(context, 0);
  const auto weight = input_dims(context, 1);
  if (!input || !weight || input->size() != 3 || weight->size() != 3) return;
  const Dim hidden = fixed_dim(onnx::getRequiredAttributeInt(context, "hidden_size"));
  const Dim& directions = (*weight)[0];
  set_output(context, 0, 0, {(*input)[0], directions, (*input)[1], hidden});
  set_output(context, 1, 0, {directions, (*input)[1], hidden});
  set_output(context, 2, 0, {directions, (*input)[1], hidden});
}

// An early operator: border is [left, top, right, bottom], or scale the size to keep.
void infer_crop(InferenceContext& context) {
  auto dims = input_dims(context, 0);
  std::vector<std::int64_t> border;
  std::vector<std::int64_t> scale;
  onnx::getRepeatedAttribute(context, "border", border);
  onnx::getRepeatedAttribute(context, "scale", scale);
  if (!dims || dims->size() != 4 || border.size() != 4) return;
  if (scale.size() == 2) {
    (*dims)[2] = fixed_dim(scale[0]);
    (*dims)[3] = fixed_dim(scale[1]);
  } else {
    (*dims)[2] = (*dims)[2] - onnx::checkedAdd(border[1], border[3]);
    (*dims)[3] = (*dims)[3] - onnx::checkedAdd(border[0], border[2]);
  }
  set_output(context, 0, 0, *dims);
}

// NOLINTNEXTLINE(readability-function-size): one line per operator
const std::unordered_map<std::string_view, onnx::InferenceFunction>& table() {
  static const std::unordered_map<std::string_view, onnx::InferenceFunction> functions{
      {"Attention", infer_attention},
      {"QAttention", infer_quantised_attention},
      {"MultiHeadAttention", infer_multi_head_attention},
      {"DecoderMaskedMultiHeadAttention", infer_multi_head_attention},
      {"GroupQueryAttention", infer_group_query_attention},
      {"EmbedLayerNormalization", infer_embed_layer_norm},
      {"SkipLayerNormalization", infer_skip_layer_norm},
      {"SkipSimplifiedLayerNormalization", infer_skip_layer_norm},
      {"SimplifiedLayerNormalization", same_as_first},
      {"LayerNormalization", same_as_first},
      {"GroupNorm", same_as_first},
      {"SkipGroupNorm", same_as_first},
      {"Gelu", same_as_first},
      {"FastGelu", same_as_first},
      {"QuickGelu", same_as_first},
      {"BiasGelu", same_as_first},
      {"BiasAdd", infer_bias_add},
      {"BiasSoftmax", same_as_first},
      {"BiasDropout", same_as_first},
      {"BiasSplitGelu", half_of_last},
      {"RotaryEmbedding", same_as_first},
      {"GemmaRotaryEmbedding", same_as_first},
      {"GatedRelativePositionBias", same_as_first},
      {"MoE", same_as_first},
      {"QMoE", same_as_first},
      {"Trilu", same_as_first},
      {"Inverse", same_as_first},
      {"FusedMatMul", infer_fused_matmul},
      {"FusedMatMulActivation", infer_fused_matmul},
      {"TransposeMatMul", infer_fused_matmul},
      {"FusedGemm", infer_fused_gemm},
      {"GemmFastGelu", infer_dynamic_quantize_matmul},
      {"FusedConv", infer_fused_conv},
      {"NhwcConv", infer_nhwc_conv},
      {"NhwcFusedConv", infer_nhwc_conv},
      {"NhwcMaxPool", infer_nhwc_pool},
      {"MatMulNBits", infer_matmul_nbits},
      {"MatMulBnb4", infer_matmul_nbits},
      {"MatMulIntegerToFloat", infer_matmul_integer_to_float},
      {"MatMulInteger16", infer_dynamic_quantize_matmul},
      {"DynamicQuantizeMatMul", infer_dynamic_quantize_matmul},
      {"DynamicQuantizeLSTM", infer_dynamic_quantize_lstm},
      {"QGemm", infer_qgemm},
      {"QLinearAdd", infer_qlinear_binary},
      {"QLinearMul", infer_qlinear_binary},
      {"QLinearSigmoid", same_as_first},
      {"QLinearLeakyRelu", same_as_first},
      {"QLinearSoftmax", same_as_first},
      {"QLinearGlobalAveragePool", infer_global_pool},
      {"QLinearConcat", infer_qlinear_concat},
      {"QuantizeLinear", infer_quantize},
      {"DequantizeLinear", infer_dequantize},
      // Early operators that some exporters still write into the standard domain.
      {"Affine", same_as_first},
      {"Crop", infer_crop},
      {"ImageScaler", same_as_first},
      {"ScaledTanh", same_as_first},
      {"ParametricSoftplus", same_as_first},
      {"Scale", same_as_first},
  };
  return functions;
}

}  // namespace

const onnx::InferenceFunction* find_contrib_inference(const std::string& op) {
  const auto found = table().find(op);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace rooftile::onnx_format
