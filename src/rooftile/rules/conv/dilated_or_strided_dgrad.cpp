// Convolutions for which cuDNN has fewer fast kernels.
#include <fmt/format.h>

#include "rooftile/analysis/convolution.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace conv_dilated_or_strided_dgrad_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Dilated convolutions, and input gradients (dgrad) of strided ones, that take a visible share of the
time. One finding for the network.

## Why it costs time
A strided dgrad scatters: most of its implicit GEMMs multiply zeros or are split by phase of the
stride. Dilated kernels read their input with gaps. cuDNN has fewer fast kernels for both than for
plain convolutions.

## How to fix
Nothing inside the layer. When you time the network, look at these layers first: the distance from
the estimate says what a plain convolution, or pooling in place of the stride, would gain.

## How the saving is estimated
No saving is given.

## When not to
- The layers are there for a reason: stride lowers the cost of everything behind it.
- 1x1 layers do not dilate.

## Evidence
- NVIDIA, Convolutional Layers User's Guide: the implicit GEMM of dgrad is computed as (N*H*W) x C x
  (K*R*S), with a stride only a part of it meets data.
- PyTorch, aten/src/ATen/native/Convolution.cpp: dilated convolutions take a path of their own when
  deterministic algorithms are asked for.
)md";

bool has_few_kernels(const Op& op) {
  const auto* conv = std::get_if<Convolution>(&op.body);
  if (conv == nullptr || is_pointwise(*conv) || is_depthwise(*conv)) return false;
  return is_dilated(*conv) || (op.phase == Phase::dgrad && is_strided(*conv) && !conv->transposed);
}

std::vector<Finding> check(const RuleInput& input) {
  const LayerGroup layers =
      select(input, [&](std::size_t op) { return has_few_kernels(input.workload.ops[op]); });
  if (!matters(layers)) return {};
  Finding finding = finding_at_groups(
      input, {layers},
      fmt::format("Dilated convolutions and strided input gradients take {} of the estimated "
                  "time; cuDNN has few fast kernels for them, so it may be more.",
                  share_text(layers.time_share)),
      {"Measure these layers; only another architecture changes them.", Exactness::not_applicable},
      std::nullopt);
  finding.evidence = {
      Evidence::estimated("Estimated as plain convolutions of the same arithmetic.")};
  return {finding};
}

}  // namespace conv_dilated_or_strided_dgrad_rule

extern const Rule conv_dilated_or_strided_dgrad{
    .id = "conv/dilated-or-strided-dgrad",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Dilated convolutions and strided input gradients have few fast kernels",
    .doc = conv_dilated_or_strided_dgrad_rule::kDoc,
    .in_ops = conv_dilated_or_strided_dgrad_rule::check};

}  // namespace rooftile
