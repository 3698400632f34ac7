#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace gemm_partly_aligned_row_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A small width (below 2048) whose rows meet the 16-byte condition but are not a multiple of 128
bytes: 64 elements in fp16 and bf16, 32 in tf32, 128 in int8. One finding per width.

## Why it costs time
A 128-byte row is a whole number of memory transactions, and multiples of 64 fill the tiles evenly.
The effect is a few per cent at most.

## How to fix
For the next model choose a multiple of 64.

## How the saving is estimated
No saving is given: measurements differ by less than the time model's error.

## When not to
- Never change a trained model for it.
- Large widths and memory-bound layers are not reported: 5128 or 5120 makes no difference.

## Evidence
- NVIDIA, "Get Started With Deep Learning Performance": on A100 multiples of 128 bytes are most
  efficient; dimensions divisible by 64, which matters for small ones (520 against 512).
- PyTorch CUDA semantics note, V100: an inner dimension of 4104 or 4056 is within 3 % of 4096.
- ML Engineering book (S. Bekman): on an H100 multiples of 32 to 256 are within 1 %.
)md";

constexpr std::int64_t kLarge = 2048;
constexpr std::int64_t kRowBytes = 128;
constexpr double kMinShare = threshold::kBeyondModelError;
constexpr int kAmpere = 80;

std::vector<GemmDim> small_partly_aligned(const Gemm& gemm, const Dtypes& dtypes) {
  std::vector<GemmDim> dims = misaligned_row_dims(gemm, dtypes, kRowBytes);
  std::erase_if(dims, [&](GemmDim dim) { return size_of(gemm, dim) >= kLarge; });
  return dims;
}

bool is_candidate(const RuleInput& input, const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && gemm->m > 1 && gemm->n > 1 &&
         input.device().has_tensor_cores(op.dtypes.input) &&
         misaligned_row_dims(*gemm, op.dtypes).empty() &&
         !small_partly_aligned(*gemm, op.dtypes).empty();
}

struct Width {
  std::vector<LayerGroup> groups;
  double share = 0;
  Dtype dtype = Dtype::fp16;
};

Finding describe(const RuleInput& input, std::int64_t size, const Width& width) {
  const std::int64_t step = kRowBytes * 8 / info(width.dtype).bits;
  const std::int64_t above = round_up(size, step);
  Finding finding = finding_at_groups(
      input, width.groups,
      fmt::format("width {} meets the 16-byte condition, but is not a multiple of {} (128 bytes in "
                  "{})",
                  size, step, to_string(width.dtype)),
      {fmt::format("In the next model choose {}{}",
                   above > step ? fmt::format("{} or ", above - step) : std::string(), above),
       Exactness::changes_training},
      std::nullopt);
  finding.evidence = {Evidence::published("multiples of 128 bytes on A100",
                                          "NVIDIA, Get Started With Deep Learning Performance"),
                      Evidence::published("multiples of 32 to 256 within 1 % on H100",
                                          "ML Engineering, SwiGLU-based MLP")};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.device().compute_capability < kAmpere) return {};
  std::map<std::int64_t, Width> widths;
  const auto wanted = [&](const Op& op) { return is_candidate(input, op); };
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    if (!is_math_bound(input, group)) continue;
    const Op& op = input.workload.ops[group.ops.front()];
    const auto& gemm = std::get<Gemm>(op.body);
    const GemmDim dim = small_partly_aligned(gemm, op.dtypes).front();
    Width& width = widths[size_of(gemm, dim)];
    width.groups.push_back(group);
    width.share += group.time_share;
    width.dtype = op.dtypes.input;
  }
  std::vector<Finding> findings;
  for (const auto& [size, width] : widths) {
    if (width.share >= kMinShare) findings.push_back(describe(input, size, width));
  }
  return findings;
}

}  // namespace gemm_partly_aligned_row_rule

extern const Rule gemm_partly_aligned_row{.id = "gemm/partly-aligned-row",
                                          .level = Level::info,
                                          .cause = Cause::tile_shape,
                                          .summary = "Small width is not a multiple of 128 bytes",
                                          .doc = gemm_partly_aligned_row_rule::kDoc,
                                          .in_ops = gemm_partly_aligned_row_rule::check};

}  // namespace rooftile
