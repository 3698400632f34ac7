// 1x1 convolutions between few channels, which wait for memory.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/convolution.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace conv_low_intensity_1x1_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Dense 1x1 convolutions on Tensor Cores whose arithmetic intensity is below half the GPU's ridge. One
finding for the network.

## Why it costs time
A 1x1 kernel uses each element it loads once per channel of the other side. Between 256 and 64
channels that is 51 flop per byte in 16-bit; an A100 needs about 150, an H100 about 300. The layer's
time is that of its memory traffic, and alignment or tile advice moves little.

## How to fix
Save traffic: fuse BatchNorm, activation and the residual add into the layer (a compiler, or folding
for inference), keep activations in 16 bits and channels_last.

## How the saving is estimated
No saving is given here. Fusing and folding are estimated by their own rules.

## When not to
- Bottleneck blocks are built from such layers. Knowing that they are memory-bound is no reason to
  change a model.

## Evidence
- NVIDIA, GPU Performance Background User's Guide, "Understanding Performance": an operation is
  math-bound when its intensity exceeds the GPU's ratio of math to bandwidth.
- 256 to 64 channels at 56x56: 2 * 256 * 64 / (2 * (256 + 64)) = 51 flop per byte.
)md";

bool is_low_intensity_1x1(const RuleInput& input, std::size_t op) {
  const auto* conv = std::get_if<Convolution>(&input.workload.ops[op].body);
  const OpAnalysis& analysis = input.analysis.ops[op];
  return conv != nullptr && is_pointwise(*conv) && conv->groups == 1 &&
         on_tensor_cores(analysis, input.device()) && !is_math_bound(analysis, input.device());
}

std::vector<Finding> check(const RuleInput& input) {
  const LayerGroup layers =
      select(input, [&](std::size_t op) { return is_low_intensity_1x1(input, op); });
  if (!matters(layers)) return {};
  const auto lowest =
      *std::min_element(layers.ops.begin(), layers.ops.end(), [&](std::size_t a, std::size_t b) {
        return input.analysis.ops[a].cost.intensity() < input.analysis.ops[b].cost.intensity();
      });
  const Dtype math = input.analysis.ops[lowest].products.front().math;
  Finding finding = finding_at_groups(
      input, {layers},
      fmt::format("1x1 convolutions take {} of the time and are memory-bound: from {:.0f} flop "
                  "per byte, {} needs {:.0f} in {}.",
                  share_text(layers.time_share),
                  input.analysis.ops[lowest].cost.intensity().value(), input.device().name,
                  input.device().ridge(math)->value(), to_string(math)),
      {"Fuse or fold the normalisation, activation and residual add that follow them; aligning "
       "their "
       "channels gains little.",
       Exactness::not_applicable},
      std::nullopt);
  finding.evidence = {
      Evidence::estimated("Minimal traffic of each layer against half the data sheet's ridge")};
  return {finding};
}

}  // namespace conv_low_intensity_1x1_rule

extern const Rule conv_low_intensity_1x1{.id = "conv/low-intensity-1x1",
                                         .level = Level::info,
                                         .cause = Cause::none,
                                         .summary = "1x1 convolutions are memory-bound",
                                         .doc = conv_low_intensity_1x1_rule::kDoc,
                                         .in_ops = conv_low_intensity_1x1_rule::check};

}  // namespace rooftile
