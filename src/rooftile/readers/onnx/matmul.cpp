// Matrix products: MatMul, Gemm and their quantised and fused forms.
#include <algorithm>
#include <array>
#include <string_view>

#include "rooftile/readers/onnx/handlers.h"
#include "rooftile/readers/onnx/names.h"

namespace rooftile::onnx_reader_detail {
namespace {

// One operand as the product reads it: sizes after transposition, and how it is stored.
struct Operand {
  Shape shape;  // [batch…, rows, columns]
  bool stored_transposed = false;
};

std::optional<Operand> make_operand(const Conversion& c, const Node& node, std::size_t index,
                                    bool transpose) {
  auto shape = c.input_shape(node, index);
  if (!shape || shape->empty()) return {};
  Operand operand{*shape, false};
  const Value& value = *c.input(node, index);
  operand.stored_transposed = value.reordered || c.transposed.count(node.inputs[index]) != 0;
  if (transpose && operand.shape.size() >= 2) {
    std::swap(operand.shape[operand.shape.size() - 1], operand.shape[operand.shape.size() - 2]);
    operand.stored_transposed = !operand.stored_transposed;
  }
  return operand;
}

// PyTorch's exporters fold the transposition of a Linear's weight into an anonymous tensor; in the
// training code the weight is [n, k].
bool is_folded_linear(const Conversion& c, const Node& node, std::size_t index) {
  if (node.op != "MatMul" || !c.is_constant(node, index)) return false;
  return c.input(node, index)->name.starts_with("onnx::MatMul_") ||
         library_call(node) == "aten.linear.default";
}

GemmLayout layout_of(bool x_transposed, bool w_transposed) {
  constexpr std::array<GemmLayout, 4> kLayouts{GemmLayout::nn, GemmLayout::nt, GemmLayout::tn,
                                               GemmLayout::tt};
  return kLayouts[(x_transposed ? 2U : 0U) + (w_transposed ? 1U : 0U)];
}

// Sizes of the product of two operands by NumPy's rules.
std::optional<Gemm> make_gemm(Operand a, Operand b) {
  if (a.shape.size() == 1) a.shape.insert(a.shape.begin(), 1);
  if (b.shape.size() == 1) b.shape.push_back(1);
  const std::size_t a_lead = a.shape.size() - 2;
  const std::size_t b_lead = b.shape.size() - 2;
  Gemm gemm;
  gemm.k = a.shape.back();
  gemm.n = b.shape.back();
  if (b.shape[b_lead] != gemm.k) return {};
  const std::int64_t a_batch = product(a.shape, 0, a_lead);
  const std::int64_t b_batch = product(b.shape, 0, b_lead);
  if (b_batch == 1 && !a.stored_transposed) {
    // Leading axes are rows: a Linear layer on [batch, seq, k].
    gemm.m = bounded_product(a_batch, a.shape[a_lead]);
  } else {
    gemm.m = a.shape[a_lead];
    gemm.batch = 1;
    for (std::size_t i = 0; i < std::max(a_lead, b_lead); ++i) {
      const std::int64_t left = i < a_lead ? a.shape[a_lead - 1 - i] : 1;
      const std::int64_t right = i < b_lead ? b.shape[b_lead - 1 - i] : 1;
      gemm.batch = bounded_product(gemm.batch, std::max(left, right));
    }
  }
  gemm.layout = layout_of(a.stored_transposed, b.stored_transposed);
  return gemm;
}

// A following Add of a constant row of n elements is the product's epilogue.
std::optional<std::int32_t> find_bias_add(const Conversion& c, const Node& node, std::int64_t n) {
  const std::int32_t next = c.sole_consumer(node.outputs[0]);
  if (next < 0) return {};
  const Node& add = c.node(next);
  if (add.op != "Add" || !add.standard) return {};
  const std::size_t other = add.inputs[0] == node.outputs[0] ? 1 : 0;
  if (!c.is_constant(add, other)) return {};
  const auto shape = c.input_shape(add, other);
  if (!shape || shape->empty() || shape->back() != n || product(*shape) != n) return {};
  return next;
}

Outcome add_product(Conversion& c, const Node& node, std::size_t a_index, std::size_t b_index,
                    bool transpose_a, bool transpose_b, bool has_bias) {
  const auto a = make_operand(c, node, a_index, transpose_a);
  const auto b = make_operand(c, node, b_index, transpose_b);
  if (!a || !b) return Outcome::unknown_shape;
  auto gemm = make_gemm(*a, *b);
  if (!gemm) return Outcome::unknown_shape;
  gemm->weight_is_parameter = c.is_constant(node, b_index);
  gemm->bias = has_bias;
  if (is_folded_linear(c, node, b_index)) {
    gemm->layout = gemm->layout == GemmLayout::tn ? GemmLayout::tt : GemmLayout::nt;
  }
  std::vector<ValueId> writes = node.outputs;
  if (!has_bias && gemm->weight_is_parameter) {
    if (const auto add = find_bias_add(c, node, gemm->n)) {
      gemm->bias = true;
      writes = c.node(*add).outputs;
      c.alias(node.outputs[0], writes[0]);
      c.count_parameter(c.node(*add), 0);
      c.count_parameter(c.node(*add), 1);
      c.fold(*add);
    }
  }
  c.add(node, *gemm, c.matrix_dtypes(node, a_index, b_index), writes);
  return Outcome::done;
}

}  // namespace

Outcome convert_matmul(Conversion& c, const Node& node) {
  // DynamicQuantizeMatMul(A, B, b_scale, b_zero, bias), MatMulIntegerToFloat(…, bias at 6)
  const bool bias = (node.op == "DynamicQuantizeMatMul" && c.input(node, 4) != nullptr) ||
                    (node.op == "MatMulIntegerToFloat" && c.input(node, 6) != nullptr) ||
                    (node.op == "GemmFastGelu" && c.input(node, 2) != nullptr);
  return add_product(c, node, 0, 1, false, false, bias);
}

Outcome convert_gemm(Conversion& c, const Node& node) {
  return add_product(c, node, 0, 1, int_attribute(node, "transA", 0) != 0,
                     int_attribute(node, "transB", 0) != 0, c.input(node, 2) != nullptr);
}

Outcome convert_fused_matmul(Conversion& c, const Node& node) {
  return add_product(c, node, 0, 1, int_attribute(node, "transA", 0) != 0,
                     int_attribute(node, "transB", 0) != 0, false);
}

// QLinearMatMul(a, a_scale, a_zero, b, …)
Outcome convert_qlinear_matmul(Conversion& c, const Node& node) {
  return add_product(c, node, 0, 3, false, false, false);
}

// QGemm(A, a_scale, a_zero, B, b_scale, b_zero, C, …)
Outcome convert_qgemm(Conversion& c, const Node& node) {
  return add_product(c, node, 0, 3, int_attribute(node, "transA", 0) != 0,
                     int_attribute(node, "transB", 0) != 0, c.input(node, 6) != nullptr);
}

// MatMulNBits(A, B [n, blocks, bytes], scales, …): the weight is stored [n, k].
Outcome convert_matmul_nbits(Conversion& c, const Node& node) {
  const auto a = c.input_shape(node, 0);
  Gemm gemm;
  gemm.k = int_attribute(node, "K", 0);
  gemm.n = int_attribute(node, "N", 0);
  if (!a || a->empty() || a->back() != gemm.k) return Outcome::unknown_shape;
  gemm.m = product(*a, 0, a->size() - 1);
  gemm.bias = c.input(node, 5) != nullptr;
  const bool eight = int_attribute(node, "bits", 4) == 8;
  const Dtype read = c.dtype(c.input(node, 0));
  c.add(node, gemm, {read, eight ? Dtype::int8 : Dtype::int4, c.dtype(c.output(node, 0))});
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
