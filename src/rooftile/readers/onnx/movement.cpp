// Operators that move or rename elements.
#include <algorithm>
#include <numeric>

#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::kNoValue;

Extents permutation_of(const Node& node, std::size_t rank) {
  Extents perm = ints_attribute(node, "perm");
  if (perm.size() == rank) return perm;
  perm.resize(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  return perm;
}

// The order of the axes that hold more than one element; sorted when nothing moves.
bool moves_elements(const Shape& shape, const Extents& perm) {
  std::int64_t last = -1;
  for (const std::int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) return true;
    if (shape[static_cast<std::size_t>(axis)] == 1) continue;
    if (axis < last) return true;
    last = axis;
  }
  return false;
}

bool swaps_last_two(const Extents& perm) {
  const auto rank = static_cast<std::int64_t>(perm.size());
  if (rank < 2) return false;
  for (std::int64_t i = 0; i + 2 < rank; ++i) {
    if (perm[static_cast<std::size_t>(i)] != i) return false;
  }
  return perm[perm.size() - 2] == rank - 1 && perm[perm.size() - 1] == rank - 2;
}

// cuBLAS reads either order of the last two axes, so this Transpose costs nothing.
bool folds_into_product(const Conversion& c, const Node& node, const Extents& perm) {
  const std::int32_t next = c.sole_consumer(node.outputs[0]);
  if (next < 0 || !swaps_last_two(perm)) return false;
  const Node& consumer = c.node(next);
  return consumer.op == "MatMul" || consumer.op == "FusedMatMul" ||
         (consumer.op == "Gemm" && consumer.inputs.size() >= 2 &&
          (consumer.inputs[0] == node.outputs[0] || consumer.inputs[1] == node.outputs[0]));
}

}  // namespace

Outcome convert_view(Conversion& c, const Node& node) {
  c.view(node);
  return Outcome::done;
}

Outcome convert_transpose(Conversion& c, const Node& node) {
  const auto shape = c.input_shape(node, 0);
  if (!shape) return Outcome::unknown_shape;
  const Extents perm = permutation_of(node, shape->size());
  if (!moves_elements(*shape, perm)) {
    c.view(node);
  } else if (folds_into_product(c, node, perm)) {
    c.transposed[node.outputs[0]] = node.inputs[0];
    c.view(node);
  } else {
    c.add(node, LayoutConversion{product(*shape), perm}, c.simple_dtypes(node));
  }
  return Outcome::done;
}

// Rows of a table of weights are an embedding; anything else is a copy of the chosen elements.
Outcome convert_gather(Conversion& c, const Node& node) {
  const auto table = c.input_shape(node, 0);
  const auto indices = c.input_shape(node, 1);
  const bool rows = int_attribute(node, "axis", 0) == 0 && table && table->size() >= 2;
  const bool is_table = rows && c.is_constant(node, 0) && indices;
  if (!is_table) return convert_movement(c, node);
  Embedding embedding;
  embedding.vocab = (*table)[0];
  embedding.width = product(*table, 1, table->size());
  embedding.lookups = product(*indices);
  c.add(node, embedding, Dtypes(c.stored_dtype(node, 0)));
  return Outcome::done;
}

// Reads what it writes, once: Concat, Slice, Split, Pad, Expand, Tile …; never more than its input.
Outcome convert_movement(Conversion& c, const Node& node) {
  double written = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    if (!c.output_shape(node, i)) return Outcome::unknown_shape;
    written += c.bytes(c.output(node, i));
  }
  double available = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    // Known numbers are sizes and positions, not what is moved.
    const Value* read = c.input(node, i);
    if (read != nullptr && !read->has_numbers) available += c.bytes(read);
  }
  const double read = available > 0 ? std::min(available, written) : 0;
  c.add(node, Other{snake_case(node.op), 0, static_cast<std::int64_t>(read + written)},
        c.simple_dtypes(node));
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
