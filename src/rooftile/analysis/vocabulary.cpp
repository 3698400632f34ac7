#include "rooftile/analysis/vocabulary.h"

#include <algorithm>

namespace rooftile {
namespace {

// Tables of positions, token types and categories have fewer rows than any vocabulary.
constexpr std::int64_t kSmallestVocabulary = 4096;

}  // namespace

bool uses_vocabulary(const Workload& workload, const Gemm& gemm) {
  if (!gemm.weight_is_parameter || gemm.n < kSmallestVocabulary) return false;
  return std::any_of(workload.ops.begin(), workload.ops.end(), [&](const Op& op) {
    const auto* table = std::get_if<Embedding>(&op.body);
    return table != nullptr && table->vocab == gemm.n && op.phase == Phase::forward;
  });
}

std::optional<std::size_t> logits_layer(const Workload& workload) {
  std::optional<std::size_t> last;
  for (std::size_t op = 0; op < workload.ops.size(); ++op) {
    const Op& candidate = workload.ops[op];
    if (candidate.phase != Phase::forward || !is_matrix_op(candidate)) continue;
    const auto* gemm = std::get_if<Gemm>(&candidate.body);
    if (gemm == nullptr || gemm->weight_is_parameter) last = op;
  }
  if (!last) return std::nullopt;
  const auto* gemm = std::get_if<Gemm>(&workload.ops[*last].body);
  const bool widens = gemm != nullptr && gemm->n >= kSmallestVocabulary && gemm->n > gemm->k;
  return widens ? last : std::nullopt;
}

}  // namespace rooftile
