// Attention operators: the standard one of opset 23 and those of com.microsoft.
#include <algorithm>

#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

// [2, batch, heads, past, head size] or [batch, heads, past, head size]; 0 without one.
std::int64_t past_length(const Conversion& c, const Node& node, std::size_t index) {
  const auto past = c.input_shape(node, index);
  return past && past->size() >= 4 ? (*past)[past->size() - 2] : 0;
}

// Head counts above this are damage; below, arithmetic on them stays within 64 bits.
constexpr std::int64_t kMaxHeads = 1'000'000;

bool is_head_count(std::int64_t heads) { return heads >= 1 && heads <= kMaxHeads; }

Outcome add_attention(Conversion& c, const Node& node, Attention attention, Dtype dtype) {
  if (!is_head_count(attention.heads) || attention.head_dim <= 0) return Outcome::unknown_shape;
  c.add(node, attention, Dtypes(dtype));
  return Outcome::done;
}

}  // namespace

// Attention-23 and later: Q, K, V as [batch, heads, seq, size] or [batch, seq, heads·size].
Outcome convert_attention(Conversion& c, const Node& node) {
  const auto q = c.input_shape(node, 0);
  const auto k = c.input_shape(node, 1);
  const auto v = c.input_shape(node, 2);
  if (!q || !k || !v || q->size() != k->size() || v->size() != k->size() || q->size() < 3 ||
      q->size() > 4) {
    return Outcome::unknown_shape;
  }
  const bool split = q->size() == 4;
  Attention attention;
  attention.batch = (*q)[0];
  attention.heads = split ? (*q)[1] : int_attribute(node, "q_num_heads", 0);
  attention.kv_heads = split ? (*k)[1] : int_attribute(node, "kv_num_heads", attention.heads);
  if (!is_head_count(attention.heads) || !is_head_count(attention.kv_heads)) {
    return Outcome::unknown_shape;
  }
  attention.query_len = split ? (*q)[2] : (*q)[1];
  attention.kv_len = (split ? (*k)[2] : (*k)[1]) + past_length(c, node, 4);
  attention.head_dim = split ? (*q)[3] : (*q)[2] / attention.heads;
  attention.value_dim = split ? (*v)[3] : (*v)[2] / attention.kv_heads;
  attention.causal = int_attribute(node, "is_causal", 0) != 0;
  return add_attention(c, node, attention, c.dtype(c.input(node, 0)));
}

// com.microsoft Attention and QAttention hold the projection of q, k and v as well:
// input [batch, seq, hidden], weight [hidden, 3·hidden].
Outcome convert_projected_attention(Conversion& c, const Node& node) {
  const auto input = c.input_shape(node, 0);
  const auto weight = c.input_shape(node, 1);
  const std::int64_t heads = int_attribute(node, "num_heads", 0);
  if (!input || !weight || input->size() != 3 || weight->size() != 2 || !is_head_count(heads)) {
    return Outcome::unknown_shape;
  }
  Extents sizes = ints_attribute(node, "qkv_hidden_sizes");
  if (sizes.size() != 3) sizes.assign(3, (*weight)[1] / 3);
  Gemm gemm;
  gemm.m = (*input)[0] * (*input)[1];
  gemm.k = (*input)[2];
  gemm.n = (*weight)[1];
  gemm.layout = GemmLayout::nn;
  gemm.weight_is_parameter = c.is_constant(node, 1);
  gemm.bias = c.input(node, 2) != nullptr;
  const bool quantised = node.op == "QAttention";
  Op& projection = c.add(node, gemm, c.matrix_dtypes(node, 0, 1));
  const std::string between = projection.name + "/qkv";
  projection.outputs = {between};
  Attention attention;
  attention.batch = (*input)[0];
  attention.heads = attention.kv_heads = heads;
  attention.query_len = (*input)[1];
  attention.kv_len = (*input)[1] + past_length(c, node, quantised ? 8 : 4);
  attention.head_dim = sizes[0] / heads;
  attention.value_dim = sizes[2] / heads;
  attention.causal = int_attribute(node, "unidirectional", 0) != 0;
  Op& core = c.add(node, attention, Dtypes(c.dtype(c.output(node, 0))));
  if (core.inputs.empty() || c.is_constant(node, 0))
    core.inputs.insert(core.inputs.begin(), between);
  core.inputs[0] = between;
  return Outcome::done;
}

// query [batch, seq, hidden], key and value the same or [batch, heads, length, size]; without them
// the query packs all three as [batch, seq, heads, 3, size].
Outcome convert_multi_head_attention(Conversion& c, const Node& node) {
  const auto q = c.input_shape(node, 0);
  const std::int64_t heads = int_attribute(node, "num_heads", 0);
  const auto k = c.input_shape(node, 1);
  const auto v = c.input_shape(node, 2);
  const bool has_shapes = q && q->size() >= 3 && (!k || k->size() >= 3) && (!v || v->size() >= 3);
  if (!has_shapes || !is_head_count(heads)) return Outcome::unknown_shape;
  Attention attention;
  attention.batch = (*q)[0];
  attention.heads = attention.kv_heads = heads;
  attention.query_len = attention.kv_len = (*q)[1];
  attention.head_dim = attention.value_dim = q->size() == 5 ? (*q)[4] : (*q)[2] / heads;
  attention.causal = int_attribute(node, "unidirectional", 0) != 0;
  if (k) attention.kv_len = k->size() == 4 ? (*k)[2] : (*k)[1];
  if (v) attention.value_dim = v->size() == 4 ? (*v)[3] : v->back() / heads;
  const bool cross = k && k->size() == 4;  // keys of another sequence, complete already
  if (!cross) attention.kv_len += past_length(c, node, node.op == "MultiHeadAttention" ? 6 : 5);
  return add_attention(c, node, attention, c.dtype(c.input(node, 0)));
}

// query [batch, seq, heads·size], or packed with key and value; always causal.
Outcome convert_group_query_attention(Conversion& c, const Node& node) {
  const auto q = c.input_shape(node, 0);
  Attention attention;
  attention.heads = int_attribute(node, "num_heads", 0);
  attention.kv_heads = int_attribute(node, "kv_num_heads", attention.heads);
  if (!q || q->size() != 3 || !is_head_count(attention.heads) ||
      !is_head_count(attention.kv_heads)) {
    return Outcome::unknown_shape;
  }
  const bool packed = c.input(node, 1) == nullptr;
  const std::int64_t parts = attention.heads + (packed ? 2 * attention.kv_heads : 0);
  attention.batch = (*q)[0];
  attention.query_len = (*q)[1];
  attention.kv_len = (*q)[1] + past_length(c, node, 3);
  attention.head_dim = attention.value_dim = (*q)[2] / parts;
  attention.causal = true;
  attention.window = std::max<std::int64_t>(int_attribute(node, "local_window_size", -1), 0);
  return add_attention(c, node, attention, c.dtype(c.input(node, 0)));
}

}  // namespace rooftile::onnx_reader_detail
