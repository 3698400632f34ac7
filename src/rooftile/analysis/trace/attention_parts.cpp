#include "rooftile/analysis/trace/attention_parts.h"

#include <algorithm>
#include <array>

namespace rooftile {
namespace {

bool is_gemm_of(const Attention& attention, const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  if (gemm == nullptr || gemm->weight_is_parameter || gemm->batch != attention.heads) return false;
  const bool scores = gemm->m == attention.query_len && gemm->n == attention.kv_len &&
                      gemm->k == attention.head_dim;
  const bool values = gemm->m == attention.query_len && gemm->n == attention.value_dim &&
                      gemm->k == attention.kv_len;
  return scores || values;
}

bool is_softmax_of(const Attention& attention, const Op& op) {
  const auto* softmax = std::get_if<Softmax>(&op.body);
  const double rows = product_of(std::array{attention.heads, attention.query_len});
  return softmax != nullptr && softmax->cols == attention.kv_len &&
         static_cast<double>(softmax->rows) == rows;
}

bool is_between(const AttentionUse& attention, const OpUse& use) {
  const Attention* shape = shape_of(attention);
  if (shape == nullptr || !std::ranges::count(attention.between, use.name)) return false;
  const double scores = product_of(std::array{shape->heads, shape->query_len, shape->kv_len});
  return std::ranges::any_of(use.arguments.dims,
                             [&](const auto& dims) { return product_of(dims) == scores; });
}

}  // namespace

double product_of(std::span<const std::int64_t> sizes) {
  double product = sizes.empty() ? 0 : 1;
  for (const std::int64_t size : sizes) product *= static_cast<double>(size);
  return product;
}

const Attention* shape_of(const AttentionUse& use) {
  return use.op ? std::get_if<Attention>(&use.op->body) : nullptr;
}

bool is_part_of(const AttentionUse& use, const Op& op) {
  const Attention* shape = shape_of(use);
  return shape != nullptr && (is_gemm_of(*shape, op) || is_softmax_of(*shape, op));
}

bool is_attention_part(const TraceSummary& trace, const OpUse& use) {
  return std::ranges::any_of(trace.attentions, [&](const AttentionUse& attention) {
    return (use.op && is_part_of(attention, *use.op)) || is_between(attention, use);
  });
}

}  // namespace rooftile
