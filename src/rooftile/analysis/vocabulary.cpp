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

}  // namespace rooftile
