// Shapes of com.microsoft attention operators and what surrounds them.
#include "rooftile/formats/onnx/contrib_shapes.h"

namespace rooftile::onnx_format {
namespace {

using onnx::InferenceContext;

Dim sum(const Dim& a, const Dim& b) {
  if (!a.has_dim_value() || !b.has_dim_value()) return {};
  return fixed_dim(onnx::checkedAdd(a.dim_value(), b.dim_value()));
}

// Keys and values to keep: [2, batch, heads, past + new, head size].
void set_present(InferenceContext& context, const Dims& input, const Dim& hidden,
                 std::size_t past_index) {
  const std::int64_t heads = onnx::getAttribute(context, "num_heads", 0);
  Dim length = input[1];
  if (const auto past = input_dims(context, past_index); past && past->size() == 5) {
    length = sum((*past)[3], input[1]);
  }
  set_output(context, 1, 0,
             {fixed_dim(2), input[0], fixed_dim(heads), length, divided(hidden, heads)});
}

// Output of a projection of `weight` [in, 3·hidden], whose value part may have its own size.
Dim value_hidden(InferenceContext& context, const std::optional<Dims>& weight) {
  std::vector<std::int64_t> sizes;
  onnx::getRepeatedAttribute(context, "qkv_hidden_sizes", sizes);
  if (sizes.size() == 3) return fixed_dim(sizes[2]);
  if (weight && weight->size() == 2) return divided((*weight)[1], 3);
  return unknown_dim();
}

void infer_projected_attention(InferenceContext& context, std::size_t past, std::size_t type_from) {
  const auto input = input_dims(context, 0);
  if (!input || input->size() != 3) return;
  const Dim hidden = value_hidden(context, input_dims(context, 1));
  set_output(context, 0, type_from, {(*input)[0], (*input)[1], hidden});
  set_present(context, *input, hidden, past);
}

}  // namespace

void infer_attention(InferenceContext& context) { infer_projected_attention(context, 4, 0); }

// The result is in the type of the input scale.
void infer_quantised_attention(InferenceContext& context) {
  infer_projected_attention(context, 8, 3);
}

void infer_multi_head_attention(InferenceContext& context) {
  const auto query = input_dims(context, 0);
  if (!query || query->size() < 3) return;
  const std::int64_t heads = onnx::getAttribute(context, "num_heads", 0);
  Dim hidden = query->size() == 5 && (*query)[4].has_dim_value()
                   ? fixed_dim(onnx::checkedMultiply(heads, (*query)[4].dim_value()))
                   : (*query)[2];
  Dim length = (*query)[1];
  if (const auto value = input_dims(context, 2)) {
    if (value->size() == 3) hidden = (*value)[2], length = (*value)[1];
    if (value->size() == 4) {
      hidden = (*value)[3] * heads;
      length = (*value)[2];
    }
  }
  set_output(context, 0, 0, {(*query)[0], (*query)[1], hidden});
  if (const auto past = input_dims(context, 6); past && past->size() == 4) {
    length = sum((*past)[2], length);
  }
  const Dims present{(*query)[0], fixed_dim(heads), length, divided(hidden, heads)};
  set_output(context, 1, 0, present);
  set_output(context, 2, 0, present);
}

void infer_group_query_attention(InferenceContext& context) {
  const auto query = input_dims(context, 0);
  if (!query || query->size() != 3) return;
  const std::int64_t heads = onnx::getAttribute(context, "num_heads", 0);
  const std::int64_t kv_heads = onnx::getAttribute(context, "kv_num_heads", heads);
  const bool packed = !context.hasInput(1);
  const Dim head_size = divided((*query)[2], packed ? heads + 2 * kv_heads : heads);
  set_output(context, 0, 0, {(*query)[0], (*query)[1], packed ? head_size * heads : (*query)[2]});
  Dim length = (*query)[1];
  if (const auto past = input_dims(context, 3); past && past->size() == 4) {
    // The buffer is allocated once at its full length, or grows by the new tokens.
    length = (*past)[2].has_dim_value() && (*past)[2].dim_value() == 0 ? length
                                                                       : sum((*past)[2], length);
  }
  const Dims present{(*query)[0], fixed_dim(kv_heads), length, head_size};
  set_output(context, 1, 0, present);
  set_output(context, 2, 0, present);
}

void infer_embed_layer_norm(InferenceContext& context) {
  const auto ids = input_dims(context, 0);
  const auto words = input_dims(context, 2);
  if (!ids || !words || ids->size() != 2 || words->size() != 2) return;
  set_output(context, 0, 2, {(*ids)[0], (*ids)[1], (*words)[1]});
  set_output(context, 1, 0, {(*ids)[0]});
  set_output_type(context, 1, onnx::TensorProto::INT32);
  set_output(context, 2, 2, {(*ids)[0], (*ids)[1], (*words)[1]});
}

// Outputs 1 and 2 are statistics that only training uses; 3 is the sum before normalisation.
void infer_skip_layer_norm(InferenceContext& context) {
  copy_input(context, 0, 0);
  copy_input(context, 0, 3);
}

}  // namespace rooftile::onnx_format
