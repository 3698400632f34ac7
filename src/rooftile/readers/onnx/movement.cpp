// Operators that move or rename elements.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "rooftile/base/text.h"
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

// cuBLAS reads either order of the last two axes, so this Transpose costs nothing.
bool folds_into_product(const Conversion& c, const Node& node, const Extents& perm) {
  const std::int32_t next = c.sole_consumer(node.outputs[0]);
  if (next < 0 || !swaps_last_two(perm)) return false;
  const Node& consumer = c.node(next);
  return consumer.op == "MatMul" || consumer.op == "FusedMatMul" ||
         (consumer.op == "Gemm" && consumer.inputs.size() >= 2 &&
          (consumer.inputs[0] == node.outputs[0] || consumer.inputs[1] == node.outputs[0]));
}

bool is_product(const Node& node) {
  return is_one_of(node.op,
                   {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "LSTM", "GRU", "RNN"});
}

// Whether a product reads the value, perhaps under another shape: then a part of a tensor must stay
// apart from the whole, which other products may read.
bool feeds_product(const Conversion& c, ValueId id, int steps = 4) {
  if (id == kNoValue) return false;
  const auto& readers = c.value(id).consumers;
  return std::any_of(readers.begin(), readers.end(), [&](std::int32_t reader) {
    if (c.is_folded(reader)) return false;
    const Node& node = c.node(reader);
    const bool views = is_one_of(node.op, {"Reshape", "Transpose", "Squeeze", "Unsqueeze"});
    return is_product(node) ||
           (views && (steps == 0 || feeds_product(c, node.outputs[0], steps - 1)));
  });
}

// What PyTorch does with strides alone. An Expand that a Reshape reads is a copy: no strides repeat
// a merged axis.
bool is_view_in_pytorch(const Conversion& c, const Node& node) {
  // One index along an axis, as x[:, 0].
  const Value* index = node.op == "Gather" ? c.input(node, 1) : nullptr;
  const bool selects = index != nullptr && index->shape && index->shape->empty();
  if (selects || node.op == "Slice" || node.op == "Split") {
    return std::none_of(node.outputs.begin(), node.outputs.end(),
                        [&](ValueId id) { return feeds_product(c, id); });
  }
  if (node.op != "Expand" || node.outputs.empty() || c.output(node, 0) == nullptr) return false;
  const auto& readers = c.output(node, 0)->consumers;
  return std::none_of(readers.begin(), readers.end(),
                      [&](std::int32_t reader) { return c.node(reader).op == "Reshape"; });
}

// Readers to which an order of axes is a matter of strides.
bool reads_strides(const Node& node) {
  return find_handler(node) == convert_elementwise || node.op == "Attention" ||
         is_one_of(node.op, {"Concat", "Slice", "Split", "Expand", "Unsqueeze"});
}

// Of a Transpose in a graph that PyTorch runs: what keeps the last axis costs a reader nothing that
// takes strides, and a fused attention writes its result in either order.
bool is_strided_view(const Conversion& c, const Node& node, const Extents& perm) {
  if (!keeps_last_axis(perm)) return false;
  const std::int32_t before = c.input(node, 0)->producer;
  if (before >= 0 && c.node(before).op == "Attention") return perm == Extents{0, 2, 1, 3};
  const auto& readers = c.output(node, 0)->consumers;
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](std::int32_t reader) {
    return reads_strides(c.node(reader));
  });
}

// Only its size is looked at.
bool is_unread(const Conversion& c, const Node& node) {
  const Value* made = c.output(node, 0);
  return made == nullptr || (made->consumers.empty() && !made->graph_output);
}

}  // namespace

bool swaps_last_two(const Extents& perm) {
  const auto rank = static_cast<std::int64_t>(perm.size());
  if (rank < 2) return false;
  for (std::int64_t i = 0; i + 2 < rank; ++i) {
    if (perm[static_cast<std::size_t>(i)] != i) return false;
  }
  return perm[perm.size() - 2] == rank - 1 && perm[perm.size() - 1] == rank - 2;
}

bool keeps_last_axis(const Extents& perm) {
  return !perm.empty() && perm.back() == static_cast<std::int64_t>(perm.size()) - 1;
}

Outcome convert_view(Conversion& c, const Node& node) {
  c.view(node);
  return Outcome::done;
}

Outcome convert_transpose(Conversion& c, const Node& node) {
  const auto shape = c.input_shape(node, 0);
  if (!shape) return Outcome::unknown_shape;
  const Extents perm = permutation_of(node, shape->size());
  const bool free = is_unread(c, node) || (c.is_pytorch() && is_strided_view(c, node, perm));
  if (free || !moves_elements(*shape, perm)) {
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
namespace {

// One more than the largest row that is looked up; 0 where tokens decide. Positions are computed
// from the shape; of more than are kept as numbers their count tells.
std::int64_t rows_needed(const Value* index, std::int64_t rows) {
  constexpr std::int64_t kTable = 64;  // a table of fewer rows holds kinds of tokens
  if (index == nullptr || index->graph_input) return 0;
  if (index->has_numbers && !index->numbers.empty()) {
    return static_cast<std::int64_t>(*std::ranges::max_element(index->numbers)) + 1;
  }
  const bool counted = index->origin == onnx_format::Origin::shape_data && index->shape;
  return counted && !index->shape->empty() && rows >= kTable ? index->shape->back() : 0;
}

// A table of learned positions ends where the model's training did.
void note_missing_rows(Conversion& c, const Node& node, std::int64_t rows) {
  const std::int64_t needed = rows_needed(c.input(node, 1), rows);
  if (needed <= rows) return;
  c.note(
      fmt::format("{} positions are looked up in '{}', which has {}: the model runs no longer "
                  "sequence than that",
                  needed, c.input(node, 0)->name, rows));
}

}  // namespace

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
  note_missing_rows(c, node, embedding.vocab);
  c.add(node, embedding, Dtypes(c.stored_dtype(node, 0)));
  return Outcome::done;
}

// Reads all, and writes the chosen values and their positions; kernels that sort in several passes
// move more.
Outcome convert_top_k(Conversion& c, const Node& node) {
  if (!c.input_shape(node, 0) || !c.output_shape(node, 0)) return Outcome::unknown_shape;
  const double moved =
      c.bytes(c.input(node, 0)) + c.bytes(c.output(node, 0)) + c.bytes(c.output(node, 1));
  c.add(node, Other{"top_k", 0, static_cast<std::int64_t>(moved)}, c.simple_dtypes(node));
  return Outcome::done;
}

// Reads what it writes, once: Concat, Slice, Split, Pad, Expand, Tile …; never more than its input.
Outcome convert_movement(Conversion& c, const Node& node) {
  if (c.is_pytorch() && is_view_in_pytorch(c, node)) return convert_view(c, node);
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
