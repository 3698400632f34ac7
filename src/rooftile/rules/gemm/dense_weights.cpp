#include <fmt/format.h>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace gemm_dense_weights_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Inference that spends much of its time in math-bound Linear layers whose sizes sparse Tensor Cores
take, on Ampere and later. Information about a choice, hidden unless asked for.

## Why it costs time
Since Ampere, Tensor Cores skip half of the multiplications where two of every four neighbouring weights along k
are zero: up to twice the dense rate. Dense weights do not use that.

## How to fix
Prune each group of four weights to two and fine-tune, with Automatic SParsity (ASP) or torchao; then
run the layers through cuSPARSELt, `torch.sparse.to_sparse_semi_structured` or TensorRT.

## How the saving is estimated
No saving is given. The message says what half of the layers' time is, which no layer exceeds; NVIDIA
and PyTorch measured 1.1 to 1.6 times as fast on whole layers.

## When not to
- Without fine-tuning the accuracy falls; large language models lose more than vision networks.
- Memory-bound layers, as in decoding, gain more from narrower weights.
- Sizes: the kernels of PyTorch want n a multiple of 32 and k of 64 in 16 bits; others are not
  counted.
- Sparsity and quantization combine, but few models were published with both.

## Evidence
- NVIDIA A100 Tensor Core GPU Architecture whitepaper, 2020: "fine-grained structured sparsity", up to
  twice the dense rate.
- NVIDIA cuSPARSELt documentation: 2:4 for half, bfloat16, int8 and fp8.
- Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021: prune once, fine-tune, same
  accuracy on many networks.
)md";

constexpr int kFirstWithSparsity = 80;  // compute capability
constexpr double kMinShare = threshold::kWorthSparsity;
// torch.sparse.SparseSemiStructuredTensorCUTLASS, in 16 bits.
constexpr std::int64_t kMultipleOfN = 32, kMultipleOfK = 64;

bool fits_sparse_kernels(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && gemm->batch == 1 &&
         op.phase == Phase::forward && is_16_bit_float(op.dtypes.weight) &&
         gemm->n % kMultipleOfN == 0 && gemm->k % kMultipleOfK == 0;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.mode == Mode::training) return {};
  if (input.device().compute_capability < kFirstWithSparsity) return {};
  std::vector<LayerGroup> groups;
  double share = 0;
  Seconds time;
  for (LayerGroup& group :
       group_equal_layers(input.workload, input.analysis, fits_sparse_kernels)) {
    const auto& estimate = input.analysis.ops[group.ops.front()].time;
    if (!estimate || estimate->bound != Bound::math) continue;
    share += group.time_share;
    time += time_of(input, group).value_or(Seconds(0));
    groups.push_back(std::move(group));
  }
  if (share < kMinShare) return {};
  Finding finding = finding_at_groups(
      input, groups,
      fmt::format("{} of the time goes into math-bound layers with dense weights; with 2:4 "
                  "sparsity it could be {} less, at most",
                  share_text(share), time_text(time / 2)),
      {"Prune two of every four weights along k, fine-tune, and run the layers through cuSPARSELt "
       "or torch.sparse's semi-structured tensors",
       Exactness::changes_training},
      std::nullopt);
  finding.evidence = {Evidence::published("up to twice the dense rate",
                                          "NVIDIA A100 architecture whitepaper, 2020")};
  return {finding};
}

}  // namespace gemm_dense_weights_rule

extern const Rule gemm_dense_weights{.id = "gemm/dense-weights",
                                     .level = Level::info,
                                     .cause = Cause::none,
                                     .summary = "Math-bound layers do not use 2:4 sparsity",
                                     .doc = gemm_dense_weights_rule::kDoc,
                                     .in_ops = gemm_dense_weights_rule::check};

}  // namespace rooftile
