#include "rooftile/analysis/batchnorm.h"

namespace rooftile {
namespace {

std::int64_t output_width(const Op& op) {
  if (const auto* conv = std::get_if<Convolution>(&op.body)) return conv->k;
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter ? gemm->n : 0;
}

}  // namespace

bool folds_into_layer(const Workload& workload, const Graph& graph, std::size_t norm) {
  const Op& op = workload.ops[norm];
  const auto* body = std::get_if<Normalization>(&op.body);
  if (body == nullptr || body->fn != NormKind::batch || op.phase != Phase::forward) return false;
  const auto producer = graph.producer_of(norm);
  return producer && output_width(workload.ops[*producer]) == body->cols &&
         graph.sole_consumer(*producer) == norm;
}

}  // namespace rooftile
