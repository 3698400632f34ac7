#include <fmt/format.h>

#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {
namespace gemm_fp8_dims_not_multiple_of_16_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
An fp8 GEMM whose inner dimension or row length is not a multiple of 16. For a Linear
layer these are `in_features` and `out_features`; the weight gradient also sums over the tokens, so
in training their number counts as well.

## Why it costs time
It does not run at all: fp8 keeps 16-byte alignment as a hard requirement where other precisions
only get slower. `torch._scaled_mm` raises an error.

## How to fix
Pad the dimension to a multiple of 16 with zeros and slice the result. Zeros do not change the
largest magnitude, so the scaling factors stay. Where a dimension is very small, keep the layer in
bf16.

## How the saving is estimated
No saving is given: the layer fails today. The time model decides between padding and bf16, counting
the conversion of the input.

## When not to
Small layers are faster in bf16 than padded in fp8, and a GPU before Ada and Hopper has no fp8 at
all (nothing is reported there).

## Evidence
- cuBLAS documentation, "Tensor Core Usage" and "Narrow precision data types": fp8 needs all
  conditions.
- PyTorch, `torch._scaled_mm`: the last dimension of the first and both of the second matrix must be
  divisible by 16.
- float8_experimental pull request 121: 8192x2500x5000 takes 4908 µs in fp32 and 473 µs in padded
  fp8; 4096x10x4096 takes 39 µs and 62 µs.
)md";

constexpr std::int64_t kStep = 16;

// The weight gradient contracts over the tokens.
bool contracts_rows(const RuleInput& input, const LayerGroup& group) {
  const bool weights =
      std::get<Gemm>(input.workload.ops[group.ops.front()].body).weight_is_parameter;
  return count_runs(input.workload, group, weights ? Phase::wgrad : Phase::dgrad) > 0;
}

std::vector<GemmDim> faults_of(const RuleInput& input, const LayerGroup& group) {
  const auto& gemm = std::get<Gemm>(input.workload.ops[group.ops.front()].body);
  std::vector<GemmDim> dims;
  if (contracts_rows(input, group) && gemm.m % kStep != 0) dims.push_back(GemmDim::m);
  if (gemm.n % kStep != 0) dims.push_back(GemmDim::n);
  if (gemm.k % kStep != 0) dims.push_back(GemmDim::k);
  return dims;
}

Op padded(const Op& op, const std::vector<GemmDim>& dims) {
  Op changed = op;
  auto& gemm = std::get<Gemm>(changed.body);
  for (const GemmDim dim : dims) gemm = with_size(gemm, dim, round_up(size_of(gemm, dim), kStep));
  return changed;
}

// fp8 first has to convert its input, which bf16 takes as it is.
bool is_faster_in_bf16(const RuleInput& input, const Op& op, const std::vector<GemmDim>& dims) {
  const Op product = padded(op, dims);
  const auto& gemm = std::get<Gemm>(product.body);
  Op wide = op;
  wide.dtypes = Dtypes(Dtype::bf16);
  Op conversion;
  conversion.dtypes = Dtypes(Dtype::bf16, Dtype::bf16, Dtype::fp8);
  conversion.body = Cast{gemm.batch * gemm.m * gemm.k};
  const std::optional<TimeEstimate> bf16 = input.model.estimate(wide);
  const std::optional<TimeEstimate> fp8 = input.model.estimate(product);
  const std::optional<TimeEstimate> cast = input.model.estimate(conversion);
  return bf16 && fp8 && cast && bf16->time.expected < fp8->time.expected + cast->time.expected;
}

Fix propose(const RuleInput& input, const Op& op, const std::vector<GemmDim>& dims) {
  if (is_faster_in_bf16(input, op, dims)) {
    return {"Keep this layer in bf16: at this size it is faster than fp8 with padding",
            Exactness::changes_numerics};
  }
  const auto& gemm = std::get<Gemm>(op.body);
  std::vector<std::string> steps;
  for (const GemmDim dim : dims) {
    const std::int64_t size = size_of(gemm, dim);
    steps.push_back(fmt::format("{} {} → {}", dim_name(gemm, dim), size, round_up(size, kStep)));
  }
  return {fmt::format("Pad {} with zeros and slice the result; the scales stay", join(steps, ", ")),
          Exactness::exact_arithmetic};
}

Finding judge(const RuleInput& input, const LayerGroup& group, const std::vector<GemmDim>& dims) {
  const Op& op = input.workload.ops[group.ops.front()];
  const auto& gemm = std::get<Gemm>(op.body);
  std::vector<std::string> causes;
  causes.reserve(dims.size());
  for (const GemmDim dim : dims) {
    causes.push_back(fmt::format("{} {}", dim_name(gemm, dim), size_of(gemm, dim)));
  }
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("fp8 GEMMs need multiples of 16, found {}: torch._scaled_mm raises an error",
                  join(causes, " and ")),
      propose(input, op, dims), std::nullopt);
  finding.evidence = {Evidence::published("fp8 needs all 16-byte conditions",
                                          "cuBLAS documentation, Tensor Core Usage"),
                      Evidence::published("sizes checked", "PyTorch, torch._scaled_mm")};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  if (!input.device().has_tensor_cores(Dtype::fp8)) return {};
  const auto wanted = [](const Op& op) {
    return std::holds_alternative<Gemm>(op.body) && op.dtypes.input == Dtype::fp8;
  };
  std::vector<Finding> findings;
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    const std::vector<GemmDim> dims = faults_of(input, group);
    if (!dims.empty()) findings.push_back(judge(input, group, dims));
  }
  return findings;
}

}  // namespace gemm_fp8_dims_not_multiple_of_16_rule

extern const Rule gemm_fp8_dims_not_multiple_of_16{
    .id = "gemm/fp8-dims-not-multiple-of-16",
    .level = Level::error,
    .cause = Cause::alignment,
    .summary = "FP8 GEMM dimensions are not divisible by 16",
    .doc = gemm_fp8_dims_not_multiple_of_16_rule::kDoc,
    .in_ops = gemm_fp8_dims_not_multiple_of_16_rule::check};

}  // namespace rooftile
