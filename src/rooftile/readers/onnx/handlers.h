// The handlers of operators, by group.
#pragma once

#include "rooftile/readers/onnx/conversion.h"

namespace rooftile::onnx_reader_detail {

// matmul.cpp
Outcome convert_matmul(Conversion& c, const Node& node);
Outcome convert_gemm(Conversion& c, const Node& node);
Outcome convert_fused_matmul(Conversion& c, const Node& node);
Outcome convert_matmul_nbits(Conversion& c, const Node& node);
Outcome convert_qlinear_matmul(Conversion& c, const Node& node);
Outcome convert_qgemm(Conversion& c, const Node& node);
// einsum.cpp
Outcome convert_einsum(Conversion& c, const Node& node);
// convolution.cpp
Outcome convert_conv(Conversion& c, const Node& node);
Outcome convert_qlinear_conv(Conversion& c, const Node& node);
Outcome convert_conv_transpose(Conversion& c, const Node& node);
Outcome convert_nhwc_conv(Conversion& c, const Node& node);
Outcome convert_deform_conv(Conversion& c, const Node& node);
// recurrent.cpp
Outcome convert_recurrent(Conversion& c, const Node& node);
// attention.cpp
Outcome convert_attention(Conversion& c, const Node& node);
Outcome convert_projected_attention(Conversion& c, const Node& node);
Outcome convert_multi_head_attention(Conversion& c, const Node& node);
Outcome convert_group_query_attention(Conversion& c, const Node& node);
// normalization.cpp
Outcome convert_batch_norm(Conversion& c, const Node& node);
Outcome convert_instance_norm(Conversion& c, const Node& node);
Outcome convert_group_norm(Conversion& c, const Node& node);
Outcome convert_layer_norm(Conversion& c, const Node& node);
Outcome convert_local_response_norm(Conversion& c, const Node& node);
Outcome convert_embed_layer_norm(Conversion& c, const Node& node);
Outcome convert_softmax(Conversion& c, const Node& node);
// loss.cpp
Outcome convert_cross_entropy(Conversion& c, const Node& node);
Outcome convert_nll_loss(Conversion& c, const Node& node);
// signal.cpp
Outcome convert_dft(Conversion& c, const Node& node);
Outcome convert_stft(Conversion& c, const Node& node);
// pooling.cpp
Outcome convert_pool(Conversion& c, const Node& node);
Outcome convert_global_pool(Conversion& c, const Node& node);
// pointwise.cpp
Outcome convert_elementwise(Conversion& c, const Node& node);
Outcome convert_reduction(Conversion& c, const Node& node);
Outcome convert_cast(Conversion& c, const Node& node);
Outcome convert_quantize(Conversion& c, const Node& node);
Outcome convert_dequantize(Conversion& c, const Node& node);
Outcome convert_dropout(Conversion& c, const Node& node);
Outcome convert_optimizer(Conversion& c, const Node& node);
// movement.cpp
Outcome convert_view(Conversion& c, const Node& node);
Outcome convert_transpose(Conversion& c, const Node& node);
Outcome convert_gather(Conversion& c, const Node& node);
Outcome convert_movement(Conversion& c, const Node& node);
Outcome convert_top_k(Conversion& c, const Node& node);

}  // namespace rooftile::onnx_reader_detail
