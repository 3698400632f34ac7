// Normalisations and softmax.
#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

Outcome add_norm(Conversion& c, const Node& node, NormKind kind, std::int64_t rows,
                 std::int64_t cols) {
  c.add(node, Normalization{kind, rows, cols}, c.simple_dtypes(node));
  return Outcome::done;
}

bool is_rms(const std::string& op) {
  return op.find("RMS") != std::string::npos || op.find("Simplified") != std::string::npos;
}

}  // namespace

Outcome convert_batch_norm(Conversion& c, const Node& node) {
  const auto x = c.input_shape(node, 0);
  if (!x || x->size() < 2) return Outcome::unknown_shape;
  return add_norm(c, node, NormKind::batch, product(*x) / (*x)[1], (*x)[1]);
}

Outcome convert_instance_norm(Conversion& c, const Node& node) {
  const auto x = c.input_shape(node, 0);
  if (!x || x->size() < 3) return Outcome::unknown_shape;
  return add_norm(c, node, NormKind::instance, (*x)[0] * (*x)[1], product(*x, 2, x->size()));
}

// Standard: [n, c, …] with num_groups; com.microsoft GroupNorm: [n, …, c] with groups.
Outcome convert_group_norm(Conversion& c, const Node& node) {
  const auto x = c.input_shape(node, 0);
  const std::int64_t groups = int_attribute(node, "num_groups", int_attribute(node, "groups", 0));
  if (!x || x->size() < 2 || groups <= 0) return Outcome::unknown_shape;
  const std::int64_t rows = bounded_product((*x)[0], groups);
  return add_norm(c, node, NormKind::group, rows, product(*x) / rows);
}

Outcome convert_layer_norm(Conversion& c, const Node& node) {
  const auto x = c.input_shape(node, 0);
  if (!x) return Outcome::unknown_shape;
  const auto axis = normal_axis(int_attribute(node, "axis", -1), x->size());
  if (!axis) return Outcome::unknown_shape;
  return add_norm(c, node, is_rms(node.op) ? NormKind::rms : NormKind::layer, product(*x, 0, *axis),
                  product(*x, *axis, x->size()));
}

Outcome convert_local_response_norm(Conversion& c, const Node& node) {
  const auto x = c.input_shape(node, 0);
  if (!x || x->size() < 2) return Outcome::unknown_shape;
  return add_norm(c, node, NormKind::local_response, product(*x) / (*x)[1], (*x)[1]);
}

// EmbedLayerNormalization(ids, segments, words, positions, segment table, gamma, beta)
Outcome convert_embed_layer_norm(Conversion& c, const Node& node) {
  const auto ids = c.input_shape(node, 0);
  const auto words = c.input_shape(node, 2);
  if (!ids || !words || words->size() != 2) return Outcome::unknown_shape;
  const Dtype dtype = c.dtype(c.input(node, 2));
  Op& lookup = c.add(node, Embedding{(*words)[0], (*words)[1], product(*ids)}, Dtypes(dtype));
  const std::string between = lookup.name + "/embedded";
  lookup.outputs = {between};
  Op& norm = c.add(node, Normalization{NormKind::layer, product(*ids), (*words)[1]}, Dtypes(dtype));
  norm.inputs = {between};
  return Outcome::done;
}

// Before opset 13 the axes from `axis` (default 1) on are flattened into one row.
Outcome convert_softmax(Conversion& c, const Node& node) {
  const auto x = c.input_shape(node, 0);
  if (!x) return Outcome::unknown_shape;
  const bool flattens = node.standard && node.opset < 13;
  const auto axis = normal_axis(int_attribute(node, "axis", flattens ? 1 : -1), x->size());
  if (!axis) {
    // A scalar, or one row for an axis past the last.
    c.add(node, Softmax{product(*x), 1}, c.simple_dtypes(node));
    return Outcome::done;
  }
  const std::int64_t cols = flattens ? product(*x, *axis, x->size()) : (*x)[*axis];
  c.add(node, Softmax{product(*x) / cols, cols}, c.simple_dtypes(node));
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
